"""Rules of the house that no linter knows: who may ask which method or which kind of environment it has."""

import ast
from pathlib import Path

import pytest

import elbert
from elbert.learning import METHODS

SOURCE = Path(elbert.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))


def compared_texts(tree):
    """Every text that is compared with something, by ==, in, or match."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare | ast.Match):
            yield from (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))


def asked_kinds(tree):
    """Every name that `isinstance` or `issubclass` is asked about."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            yield from (n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nobody_asks_which_method_or_simulator_it_has(path):
    tree, room = ast.parse(path.read_text()), path.relative_to(SOURCE).parts
    if room[:2] != ("learning", "methods"):
        assert not set(METHODS) & set(compared_texts(tree)), "a method's name is compared outside its file"
        forms = {form.__name__ for kind in METHODS.values() for form in (kind, *kind.variants)}
        assert not forms & set(asked_kinds(tree)), "a method's class is asked for outside its file"
    if room[:2] != ("learning", "simulators"):
        kinds = {"CompiledSimulator", "HostSimulator", "WorldEnv", "WorldVectorEnv"}
        own = set() if room[0] == "envs" else kinds
        assert not own & set(asked_kinds(tree)), "a kind of environment is asked for outside its place"


def test_the_learner_knows_no_method():
    text = (SOURCE / "learning" / "ppo.py").read_text()
    for word in ("max_bias", "alpha", "multiplier", *METHODS):
        assert word not in text


def test_the_rules_see_a_breach():
    tree = ast.parse('if method == "elbert-po" or isinstance(simulator, HostSimulator): pass')
    assert "elbert-po" in set(compared_texts(tree))
    assert "HostSimulator" in set(asked_kinds(tree))
