"""What people type, turned into what functions take."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elbert.errors import InvalidInputError
from elbert.exact.rules import Rule, get_rule, is_rule
from elbert.experiments.evaluate import Policy
from elbert.experiments.run_folder import RunFolder, summary

RUNS = Path("runs")


def assignments(given: Sequence[str] | None, option: str) -> dict[str, Any]:
    """name=value pairs; a value is JSON where it can be (numbers, lists, true), else text."""
    pairs: dict[str, Any] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            example = "horizon=500" if option == "--world" else "gamma=0.999"
            raise InvalidInputError(f"{option} {text!r} is not name=value. Write for example {option} {example}.")
        if name in pairs:
            raise InvalidInputError(f"{option} gives {name} twice. Leave one of them out.")
        try:
            pairs[name] = json.loads(value)
        except ValueError:
            pairs[name] = value
    return pairs


def chosen_settings(options: dict[str, Any], given: Sequence[str] | None) -> dict[str, Any]:
    """Settings from options of their own (None: not given) and from --set; one that comes by both is refused."""
    named = {name: value for name, value in options.items() if value is not None}
    others = assignments(given, "--set")
    for name in named.keys() & others.keys():
        raise InvalidInputError(
            f"{name} is given twice, by --{name.replace('_', '-')} and by --set. Leave one of them out."
        )
    return named | others


def run_folder(env: str, method: str, out: Path | None, *, resume: bool) -> Path:
    """The folder of a run: as given; else the one to be resumed; else a new one in `runs`."""
    if out is not None:
        return out
    name = f"{Path(env.rpartition(':')[0]).stem or env}-{method}" if ":" in env else f"{env}-{method}".replace("/", "-")
    taken = sorted(RUNS.glob(f"{name}-[0-9]*"), key=lambda path: _number(path.name))
    if resume:
        for path in reversed(taken):
            if summary(path).status in ("interrupted", "killed", "failed"):
                return path
        raise InvalidInputError(f"No unfinished run of {method} on {env} is in {RUNS}. Name its folder with --out.")
    return RUNS / f"{name}-{_number(taken[-1].name) + 1 if taken else 1}"


def policy_from(text: str) -> Policy:
    """The policy that a person names: "rule:lending/thresholds-2-1" is a rule, anything else the folder of a run."""
    return get_rule(text) if is_rule(text) else RunFolder(Path(text))


def policies_from(texts: Sequence[str]) -> dict[str, Policy]:
    """Policies by short names: a rule's or a folder's, or the whole path where two folders are called the same."""
    policies = {text: policy_from(text) for text in texts}
    short = {text: _short_name(policy) for text, policy in policies.items()}
    taken = list(short.values())
    return {short[text] if taken.count(short[text]) == 1 else text: policy for text, policy in policies.items()}


def _short_name(policy: Policy) -> str:
    return policy.name if isinstance(policy, Rule) else policy.path.resolve().name


def _number(name: str) -> int:
    last = name.rpartition("-")[2]
    return int(last) if last.isdigit() else 0
