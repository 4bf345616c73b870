"""What people type, turned into what functions take."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elbert.errors import InvalidInputError
from elbert.exact.rules import Rule, get_rule, is_rule
from elbert.experiments.run_folder import RunFolder, summarise
from elbert.experiments.train import load
from elbert.files import FileError, as_path
from elbert.learning import Agent

RUNS = Path("runs")
RESUMABLE = ("interrupted", "killed", "failed", "stopped")


def assignments(texts: Sequence[str] | None, option: str, **by_option: Any) -> dict[str, Any]:
    """Pairs from name=value, over those that have options of their own (None: not given); each is given once.

    A value is JSON where it can be (numbers, lists, true), otherwise text.
    """
    pairs = {name: value for name, value in by_option.items() if value is not None}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            example = "horizon=500" if option == "--world" else "gamma=0.999"
            raise InvalidInputError(f"{option} {text!r} is not name=value. Write for example {option} {example}.")
        if name in pairs:
            raise InvalidInputError(f"{option} {text} gives {name} a second time. Give it once.")
        try:
            pairs[name] = json.loads(value)
        except (ValueError, RecursionError):
            pairs[name] = value
    return pairs


def grid_from(texts: Sequence[str] | None) -> dict[str, list[Any]]:
    """Values of coefficients from name=value,value,...: {"alpha": [1e3, 1e4]}; a value is JSON, as in `assignments`."""
    grid: dict[str, list[Any]] = {}
    for text in texts or ():
        name, equals, values = text.partition("=")
        if not equals or not name or not values.strip(", "):
            raise InvalidInputError(f"--grid {text!r} is not name=value,value. Write for example --grid alpha=1e3,1e4.")
        if name in grid:
            raise InvalidInputError(f"--grid {text} gives {name} a second time. Give all its values at once.")
        try:
            grid[name] = json.loads(f"[{values}]")
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"--grid {text}: {values!r} is no list of numbers, such as 1e3,1e4.") from error
    return grid


def run_folder(env: str, method: str, out: Path | None, *, resume: bool) -> Path:
    """The folder of a run: the one that is named; else the one to be resumed; else a new one in `runs`."""
    if out is not None:
        return out
    name = f"{Path(env.rpartition(':')[0]).stem or env}-{method}" if ":" in env else f"{env}-{method}".replace("/", "-")
    pattern = re.compile(re.escape(name) + r"-([1-9][0-9]*)", re.ASCII)
    matches = (pattern.fullmatch(path.name) for path in (RUNS.iterdir() if RUNS.is_dir() else ()))
    numbers = sorted(int(match[1]) for match in matches if match)
    if resume:
        for number in reversed(numbers):
            if summarise(RUNS / f"{name}-{number}").status in RESUMABLE:
                return RUNS / f"{name}-{number}"
        raise InvalidInputError(f"No unfinished run of {method} on {env} is in {RUNS}. Name its folder with --out.")
    return RUNS / f"{name}-{numbers[-1] + 1 if numbers else 1}"


def policy_from(text: str) -> Rule | RunFolder:
    """The policy that a person names: "rule:lending/thresholds-2-1" is a rule, anything else the folder of a run."""
    return get_rule(text) if is_rule(text) else RunFolder(as_path(text, "run"))


def agent_from(text: str, *, seed: int | None, member: int | None) -> Agent:
    """The agent that a person names by the folder of its run or by its file; of several, the one of this seed."""
    if is_rule(text):
        raise InvalidInputError(
            f"{text} is a rule. It acts on a world's true state, which no observation shows, and has no network to "
            "export. Give the folder of a run."
        )
    if not as_path(text, "run").exists():
        raise FileError(f"There is neither a run nor an agent in {text}. `elbert runs` lists the runs that are there.")
    return load(text, seed=seed, member=member)


def policies_from(texts: Sequence[str]) -> dict[str, Rule | RunFolder]:
    """Policies by short names: a rule's or a folder's, or the whole path where two folders are called the same."""
    policies = [policy_from(text) for text in dict.fromkeys(texts)]
    short = [each.name if isinstance(each, Rule) else Path(os.path.realpath(each.path)).name for each in policies]
    names = (name if short.count(name) == 1 else text for name, text in zip(short, dict.fromkeys(texts), strict=True))
    return dict(zip(names, policies, strict=True))
