"""What people type, turned into what functions take."""

import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium

from elbert.checks import as_whole
from elbert.envs import get_entry
from elbert.errors import InvalidInputError
from elbert.exact.rules import Rule, get_rule, is_rule
from elbert.experiments.evaluate import Policy
from elbert.experiments.resolve import MOST_SEEDS
from elbert.experiments.run_folder import RunFolder
from elbert.experiments.run_summary import summarise
from elbert.files import as_path
from elbert.learning import Environment

RUNS = Path("runs")
RESUMABLE = ("interrupted", "killed", "failed", "stopped")


def environment_from(text: str) -> Environment:
    """The environment that a person names: a world, or `module:function` or `file.py:function`.

    The function makes a Gymnasium environment that reports supply and demand. Naming it runs that module's code.
    """
    if ":" not in text:
        return get_entry(text).name
    where, _, name = text.rpartition(":")
    try:
        environment = getattr(_module(where), name)
        _check_no_arguments(environment)
    except Exception as error:  # whatever the user's code raises
        raise InvalidInputError(
            f"{text!r} names no function that makes an environment ({type(error).__name__}: {error}). Give "
            "module:function or file.py:function, a function that can be called without arguments."
        ) from error
    return environment


def _module(where: str) -> Any:
    """The module of this name or file; it can import modules of the same folder."""
    if not where.endswith(".py"):
        sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(where)
    spec = importlib.util.spec_from_file_location(Path(where).stem, where)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.realpath(Path(where).parent))
    known = sys.modules.setdefault(spec.name, module)  # so that what the module defines can be pickled
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if known is module:  # half a module is none
            del sys.modules[spec.name]
        raise
    return module


def _check_no_arguments(environment: Any) -> None:
    """Refuse with a TypeError a function that cannot be called without arguments."""
    if not callable(environment) or isinstance(environment, gymnasium.Env | gymnasium.vector.VectorEnv):
        return  # an environment as it is
    try:
        signature = inspect.signature(environment)
    except ValueError:  # some functions written in C do not say
        return
    signature.bind()


def seeds_from(first: int, count: int | None) -> range:
    """The seeds of `--seed` and `--seeds`."""
    need = f"a whole number from 1 to {MOST_SEEDS}"
    return range(first, first + (1 if count is None else as_whole(count, "--seeds", need, low=1, high=MOST_SEEDS)))


def assignments(texts: Sequence[str] | None, option: str) -> dict[str, Any]:
    """Pairs from name=value; a value is JSON where it can be (numbers, lists, true), otherwise text."""
    pairs: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            example = "horizon=500" if option == "--world" else "gamma=0.999"
            raise InvalidInputError(f"{option} {text!r} is not name=value. Write for example {option} {example}.")
        if name in pairs:
            raise InvalidInputError(f"{option} gives {name} twice. Leave one of them out.")
        try:
            pairs[name] = json.loads(value)
        except (ValueError, RecursionError):
            pairs[name] = value
    return pairs


def chosen_settings(options: dict[str, Any], texts: Sequence[str] | None) -> dict[str, Any]:
    """Settings from options (None: not given) and from --set; a setting that comes by both is refused."""
    by_option = {name: value for name, value in options.items() if value is not None}
    by_set = assignments(texts, "--set")
    for name in by_option.keys() & by_set.keys():
        raise InvalidInputError(
            f"{name} is given twice, by --{name.replace('_', '-')} and by --set. Leave one of them out."
        )
    return by_option | by_set


def run_folder(env: str, method: str, out: Path | None, *, resume: bool) -> Path:
    """The folder of a run: the one that is named; else the one to be resumed; else a new one in `runs`."""
    if out is not None:
        return out
    name = f"{Path(env.rpartition(':')[0]).stem or env}-{method}" if ":" in env else f"{env}-{method}".replace("/", "-")
    numbers = _numbers(name)
    if resume:
        for number in reversed(numbers):
            if summarise(RUNS / f"{name}-{number}").status in RESUMABLE:
                return RUNS / f"{name}-{number}"
        raise InvalidInputError(f"No unfinished run of {method} on {env} is in {RUNS}. Name its folder with --out.")
    return RUNS / f"{name}-{numbers[-1] + 1 if numbers else 1}"


def _numbers(name: str) -> list[int]:
    """The numbers of the runs of this name, in order."""
    entries = [path.name for path in RUNS.iterdir()] if RUNS.is_dir() else []
    matches = (re.fullmatch(re.escape(name) + r"-([1-9][0-9]*)", entry, re.ASCII) for entry in entries)
    return sorted(int(match[1]) for match in matches if match)


def policy_from(text: str) -> Policy:
    """The policy that a person names: "rule:lending/thresholds-2-1" is a rule, anything else the folder of a run."""
    return get_rule(text) if is_rule(text) else RunFolder(as_path(text, "run"))


def policies_from(texts: Sequence[str]) -> dict[str, Policy]:
    """Policies by short names: a rule's or a folder's, or the whole path where two folders are called the same."""
    policies = {text: policy_from(text) for text in texts}
    short = {text: _short_name(policy) for text, policy in policies.items()}
    taken = list(short.values())
    return {short[text] if taken.count(short[text]) == 1 else text: policy for text, policy in policies.items()}


def _short_name(policy: Policy) -> str:
    return policy.name if isinstance(policy, Rule) else Path(os.path.realpath(policy.path)).name
