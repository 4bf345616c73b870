"""What a policy, or several on average, does in fresh episodes: reward and long-term benefits, with intervals."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

from elbert.errors import InvalidInputError, NotEstimableError
from elbert.fairness.benefit_report import BenefitReport, benefit_report
from elbert.fairness.bias_inference import BiasTest
from elbert.fairness.notions import Notion
from elbert.fairness.rate_intervals import mean_interval
from elbert.files import record_from
from elbert.learning.simulators import Episodes
from elbert.shown import Shown
from elbert.tables import interval

IN_FILES = (
    *("env", "method", "episodes", "horizon", "reward", "bias", "groups", "criterion", "criteria"),
    *("extra_demand", "deterministic", "not_estimable", "train_seconds", "limit", "notion"),
)
"""Entries of a result in JSON; bias, groups and criterion are those of the worst criterion."""

Ends: TypeAlias = tuple[float, float]
"""The lower and the upper end of an interval."""


class Interval:
    """What has an interval."""

    ci: Ends | None
    low = property(lambda self: None if self.ci is None else self.ci[0], doc="The lower end.")
    high = property(lambda self: None if self.ci is None else self.ci[1], doc="The upper end.")


@dataclass(frozen=True)
class Mean(Interval):
    """A mean with its interval; None where one value alone gives none."""

    mean: float
    ci: Ends | None


@dataclass(frozen=True)
class Bias(Interval):
    """The bias under one criterion; None where it is not estimable."""

    estimate: float | None  # as observed: too large on average
    debiased: float | None  # with the upward bias removed
    ci: Ends | None  # of one policy: of the debiased value; over seeds: of the mean estimate
    noise_floor: float | None  # what equal groups would show by chance
    left_out: tuple[str, ...] = ()  # groups with too little demand to be compared
    reliable: bool | None = None  # whether enough episodes carry every compared group's demand; None in older files


@dataclass(frozen=True)
class GroupRate(Interval):
    """One group under one criterion."""

    group: str
    rate: float | None
    ci: Ends | None
    supply: float  # per step
    demand: float  # per step, without the extra demand


@dataclass(frozen=True)
class CriterionResult:
    """All groups under one criterion."""

    criterion: str
    bias: Bias
    groups: tuple[GroupRate, ...]


@dataclass(frozen=True)
class Result(Shown):
    """Reward and benefits of one policy, or means over the policies of several seeds with intervals over seeds.

    `print(result)` shows it, `plot()` draws the rates, `to_dict()` gives it to programs. What was just evaluated has a
    `report` with all its statistics; what was read from a file, or is a mean over seeds, has none.
    """

    drawn_by: ClassVar[str] = "elbert.report.rates:plot_rates"
    page_by: ClassVar[str] = "elbert.report.pages:result_page"

    env: str
    method: str
    episodes: int  # of each seed, at least: under a limit, one may take more than another
    horizon: int  # steps of the longest episode
    reward: Mean  # per step
    criteria: tuple[CriterionResult, ...]
    train_seconds: float | None  # of all seeds together
    extra_demand: float = 0.0
    deterministic: bool = False
    not_estimable: tuple[str, ...] = ()
    limit: BiasTest | None = None  # whether the policy keeps the limit that it was trained or tested for
    notion: str | None = None  # what supply and demand mean, where that is known
    seed: int | None = None  # of the training, for one of several
    seeds: tuple["Result", ...] = ()  # the single ones, for several seeds
    protocol: str | None = None  # of an evaluation that is kept in a run's folder
    agents: str | None = None  # digest of the agents that were evaluated, likewise
    report: BenefitReport | None = field(default=None, compare=False, repr=False)  # stays in memory

    def __post_init__(self) -> None:
        if not self.criteria:
            raise InvalidInputError("criteria is empty: a result has at least one.")

    @property
    def worst(self) -> CriterionResult:
        """The criterion under which the bias is largest."""
        return max(self.criteria, key=lambda part: -1.0 if part.bias.estimate is None else part.bias.estimate)

    criterion = worst

    @property
    def singles(self) -> tuple["Result", ...]:
        """A result for each seed, also for a single seed."""
        return self.seeds or (self,)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, text and lists, as commands print and files hold them; null where not estimable."""
        content = asdict(replace(self, seeds=(), report=None)) | asdict(self.worst)
        content = {name: content[name] for name in IN_FILES}
        if self.seeds:
            content["seeds"] = [single.to_dict() for single in self.seeds]
        kept = {name: value for name in ("protocol", "agents") if (value := getattr(self, name)) is not None}
        return ({} if self.seed is None else {"seed": self.seed}) | json.loads(json.dumps(content)) | kept

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Result":
        """What `to_dict` gave; an entry that is missing or does not fit is refused by its name."""
        return record_from(cls, content)

    def __str__(self) -> str:
        """The reward, then the report's table, then the limit."""
        around = f"   ({interval(*self.reward.ci)})" if self.reward.ci else ""
        parts = (f"reward per step {self.reward.mean:.4f}{around}\n", self.report or self.criteria, self.limit)
        return "\n".join(str(part) for part in parts if part is not None)


def judged(
    sums: Episodes,
    *,
    env: str,
    method: str,
    criteria: tuple[str, ...],
    groups: Sequence[str] | None = None,
    notion: Notion | None = None,
    extra_demand: float = 0.0,
    deterministic: bool = False,
    train_seconds: float | None = None,
    confidence: float = 0.95,
    max_bias: float | None = None,
) -> Result:
    """The statistics of the fairness room on these episodes.

    The reward per step is sum_e R_e / sum_e L_e; its interval comes from the residuals (R_e - r L_e) / mean(L).
    `criteria` and `groups` are names; `notion` says what supply and demand mean, where that is known. `max_bias` is the
    limit to be tested. `extra_demand` is added to every group's demand in every episode, as the published evaluation
    does.
    """
    mean, steps = float(sums.reward.sum() / sums.length.sum()), float(sums.length.mean())
    residuals = (sums.reward - mean * sums.length) / steps
    around = mean_interval(mean + residuals, confidence=confidence)
    demand = sums.demand + extra_demand
    report = benefit_report(sums.supply, demand, groups=groups, criteria=criteria, notion=notion, confidence=confidence)

    parts = report.to_dict()["criteria"]
    for row in (row for part in parts for row in part["groups"]):
        row |= {"supply": row["supply"] / steps, "demand": (row["demand"] - extra_demand) / steps}
    return Result(
        env=env,
        method=method,
        episodes=len(sums.reward),
        horizon=int(sums.length.max()),
        reward=Mean(mean, None if around.low is None or around.high is None else (around.low, around.high)),
        criteria=tuple(record_from(CriterionResult, part) for part in parts),
        train_seconds=train_seconds,
        extra_demand=extra_demand,
        deterministic=deterministic,
        not_estimable=tuple(str(entry) for entry in report.not_estimable),
        limit=None if max_bias is None else tested(report, max_bias),
        notion=None if notion is None else notion.name,
        report=report,
    )


def tested(report: BenefitReport, max_bias: float) -> BiasTest:
    """The test of "bias <= max_bias"; where too little is known for it, it says so."""
    try:
        return report.test(max_bias)
    except NotEstimableError:
        return BiasTest(max_bias=max_bias, verdict="not estimable")
