"""Results next to published ones: rows of a table, and a word on each."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from elbert.experiments.results import BestPossible
from elbert.learning.result import Result

Verdict: TypeAlias = Literal["better", "alike", "worse"]
CellVerdict: TypeAlias = Literal["dominates", "alike", "mixed", "dominated"]


@dataclass(frozen=True)
class Level:
    """What the paper reports of a method in an environment: the ends of its curves, and of the bands around them."""

    reward: float
    reward_lo: float
    reward_hi: float
    bias: float
    bias_lo: float
    bias_hi: float


@dataclass(frozen=True)
class Published:
    """The paper's numbers."""

    source: str
    levels: Mapping[str, Mapping[str, Level]]  # by environment and method

    def level(self, env: str, method: str | None) -> Level | None:
        """The level of a method in an environment; None if the paper has none."""
        return None if method is None else self.levels.get(env, {}).get(method)


@cache
def published() -> Published:
    """Read the paper's numbers."""
    content = json.loads((files("elbert.experiments") / "data" / "published.json").read_text("utf-8"))
    levels = {
        env: {method: Level(**level) for method, level in methods.items()} for env, methods in content["levels"].items()
    }
    return Published(content["source"], levels)


def verdict(ci: Sequence[float], theirs: Sequence[float], *, more_is_better: bool) -> Verdict:
    """Say "better" where our whole interval lies on the good side of their whole band, "worse" on the other side."""
    above, below = min(ci) > max(theirs), max(ci) < min(theirs)
    if above or below:
        return "better" if above == more_is_better else "worse"
    return "alike"


def cell(reward: Verdict, bias: Verdict) -> CellVerdict:
    """Both at once: "dominates" if neither is worse and one is better; "dominated" the other way round."""
    if reward == bias == "alike":
        return "alike"
    if "worse" not in (reward, bias):
        return "dominates"
    return "dominated" if "better" not in (reward, bias) else "mixed"


@dataclass(frozen=True)
class Verdicts:
    """The word on a row."""

    reward: Verdict
    bias: Verdict
    cell: CellVerdict


@dataclass(frozen=True)
class Row:
    """One training of an experiment: what was measured and what was published."""

    experiment: str
    env: str
    panel: str
    label: str
    method: str
    run: str  # name of its folder
    published: Level | None
    result: Result | None  # None: the training is missing
    best: BestPossible | None = None

    @property
    def verdict(self) -> Verdicts | None:
        """The word on this row, where both sides have intervals."""
        if self.published is None or self.result is None:
            return None
        reward_ci, bias_ci = self.result.reward.ci, self.result.worst.bias.ci
        if reward_ci is None or bias_ci is None:
            return None
        theirs = self.published
        reward = verdict(reward_ci, (theirs.reward_lo, theirs.reward_hi), more_is_better=True)
        bias = verdict(bias_ci, (theirs.bias_lo, theirs.bias_hi), more_is_better=False)
        return Verdicts(reward, bias, cell(reward, bias))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers; `missing` where there is no training."""
        head = {name: getattr(self, name) for name in ("experiment", "env", "panel", "label", "method", "run")}
        head["published"] = None if self.published is None else asdict(self.published)
        if self.result is None:
            return head | {"missing": True}
        content = self.result.to_dict()
        row = head | {name: content[name] for name in MEASURED}
        if self.best is not None:
            row["best"] = self.best.to_dict()
        words = self.verdict
        return row | {"seeds": len(self.result.singles), "verdict": None if words is None else asdict(words)}


MEASURED = ("episodes", "horizon", "reward", "bias", "groups", "train_seconds")
"""Entries of a result that a row holds."""
