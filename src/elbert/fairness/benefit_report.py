"""One result object: what per-episode totals of supply and demand say about long-term fairness."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from elbert import tables
from elbert.errors import InvalidInputError
from elbert.fairness.arrays import ArrayLike
from elbert.fairness.bias_inference import (
    BiasEstimate,
    BiasTest,
    HasInterval,
    ImpactRatioEstimate,
    bias_limit_test,
    estimate_bias,
    estimate_impact_ratio,
)
from elbert.fairness.episode_totals import EpisodeTotals, NotEstimable, count
from elbert.fairness.notions import Notion
from elbert.fairness.rate_intervals import (
    DEFAULT_RESAMPLES,
    IntervalMethod,
    Pooled,
    as_confidence,
    estimate_rates,
    pool,
)
from elbert.files import record_from
from elbert.frames import Frame
from elbert.shown import Shown

if TYPE_CHECKING:
    import pandas
    import polars
    from rich.console import RenderableType

CAUTION = (
    "A small bias says that these rates were alike in these episodes. It does not say that the labels, the groups or "
    "the simulator are right, nor that anyone was treated justly."
)
CAUTION_OF_DATA = CAUTION.replace("in these episodes", "in these data").replace(
    "labels, the groups or the simulator", "labels and the groups"
)
FEW_EPISODES = 20
"""Below this many episodes a report says that its intervals are approximate."""


@dataclass(frozen=True)
class GroupBenefit(HasInterval):
    """One group under one criterion; None where the data do not say."""

    group: str
    rate: float | None
    low: float | None
    high: float | None
    supply: float  # mean total per episode
    demand: float  # mean total per episode
    effective_episodes: float  # how many episodes of equal demand the demand weighs as much as
    reliable: bool  # whether that is enough for the interval to be taken at its word


@dataclass(frozen=True)
class CriterionBenefit:
    """All groups under one criterion, and how far apart they are."""

    criterion: str
    groups: tuple[GroupBenefit, ...]
    bias: BiasEstimate
    impact_ratio: ImpactRatioEstimate


@dataclass(frozen=True)
class BenefitReport(Shown):
    """Long-term benefit rates, bias and impact ratio with their uncertainty, and what is not estimable.

    `print(report)` shows a table, `plot()` draws the rates, `to_dict()` and `to_json()` give it to programs,
    `to_pandas()` and `to_frame()` (polars) to analysts, and `test(max_bias)` asks whether the bias is within a limit.
    """

    drawn_by: ClassVar[str] = "elbert.report.rates:plot_rates"

    episodes: int
    confidence: float
    method: IntervalMethod
    criteria: tuple[CriterionBenefit, ...]
    not_estimable: tuple[NotEstimable, ...]
    notes: tuple[str, ...]
    unit: str = "episode"  # what each total is of: "episode", "month", "officer"
    totals: EpisodeTotals | None = field(default=None, compare=False, repr=False)  # None if it was read from a file

    def test(self, max_bias: float, *, confidence: float | None = None, seed: int = 0) -> BiasTest:
        """Whether these episodes confirm or refute "bias <= max_bias"; see `bias_limit_test`."""
        if self.totals is None:
            raise InvalidInputError(
                "This report was read from a file, which holds no totals. Make it again to test it."
            )
        confidence = self.confidence if confidence is None else confidence
        return bias_limit_test(self.totals, max_bias, confidence=confidence, seed=seed)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain numbers, strings, lists and dicts; None where something is not estimable."""
        return {
            "episodes": self.episodes,
            "unit": self.unit,
            "confidence": self.confidence,
            "method": self.method,
            "criteria": [
                {
                    "criterion": result.criterion,
                    "bias": _plain(result.bias),
                    "impact_ratio": _plain(result.impact_ratio),
                    "groups": [_plain(row) for row in result.groups],
                }
                for result in self.criteria
            ],
            "not_estimable": [asdict(entry) for entry in self.not_estimable],
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "BenefitReport":
        """What `to_dict` gave, without the totals: it can be shown, and not tested again."""
        whole = [
            part | {name: part[name] | {"criterion": part["criterion"]} for name in ("bias", "impact_ratio")}
            for part in content["criteria"]
        ]
        return record_from(cls, {**content, "criteria": whole})

    def to_json(self, *, indent: int | None = 2) -> str:
        """`to_dict()` as JSON; unknown numbers are null."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    def to_frame(self) -> "polars.DataFrame":
        """One row per criterion and group, as a polars frame; unknown numbers are null. Bias is in `to_dict()`."""
        return self._frame().to_polars()

    def to_pandas(self) -> "pandas.DataFrame":
        """The same as a pandas frame; unknown numbers are NaN. It needs pandas and nothing else."""
        return self._frame().to_pandas()

    def _frame(self) -> Frame:
        reasons = {(entry.criterion, entry.group): entry.reason for entry in self.not_estimable}
        rows = [
            {"criterion": result.criterion, **asdict(row), "reason": reasons.get((result.criterion, row.group))}
            for result in self.criteria
            for row in result.groups
        ]
        numbers = dict.fromkeys(("rate", "low", "high", "supply", "demand", "effective_episodes"), float)
        return Frame.of_rows(rows, {"criterion": str, "group": str, **numbers, "reliable": bool, "reason": str})

    def __rich__(self) -> "RenderableType":
        """The tables for a rich console."""
        return self._page().__rich__()

    def __str__(self) -> str:
        """The tables as plain text, 100 columns wide at most."""
        return str(self._page())

    def _page(self) -> tables.Page:
        shown = [table for result in self.criteria for table in (self._rates(result), self._range(result))]
        remarks = "\n".join(f"* {entry}" for entry in (*self.notes, *self.not_estimable))
        caution = CAUTION if self.unit == "episode" else CAUTION_OF_DATA
        source = f"From {count(self.episodes, self.unit)}. {caution}"
        return tables.Page((*shown, "", *([remarks, ""] if remarks else []), source))

    def _rates(self, result: CriterionBenefit) -> tables.Table:
        """One row per group."""
        numbers = ("rate", f"{100 * self.confidence:g} % interval", f"supply / {self.unit}", f"demand / {self.unit}")
        rows = tuple(
            (
                row.group,
                tables.number(row.rate, unknown="not estimable"),
                tables.interval(row.low, row.high),
                f"{row.supply:,.6g}",
                f"{row.demand:,.6g}",
            )
            for row in result.groups
        )
        columns = (tables.Column("group"), *(tables.Column(name, right=True) for name in numbers))
        return tables.Table(columns, rows, title=result.criterion)

    def _range(self, result: CriterionBenefit) -> tables.Table:
        """How far apart the groups are."""
        bias, percent = result.bias, f"{100 * self.confidence:g} % interval"
        without = f", without {', '.join(bias.left_out)}" if bias.left_out else ""
        chance = "" if bias.noise_floor is None else f"expected from noise alone: {tables.number(bias.noise_floor)}"
        rows = []
        for name, found, ends, remark in (
            ("bias", bias, f"{bias.highest} - {bias.lowest}", chance),
            ("impact ratio", result.impact_ratio, f"{bias.lowest} / {bias.highest}", ""),
        ):
            if found.estimate is None:
                rows.append((name, "not estimable"))
            else:
                rows.append((f"observed {name}", tables.number(found.estimate), ends + without, remark))
            if found.debiased is not None:  # the interval is that of the debiased value
                around = tables.interval(found.low, found.high)
                rows.append((f"{name}, debiased", tables.number(found.debiased), around, percent))
        return tables.facts(rows)


def benefit_report(
    supply: ArrayLike,
    demand: ArrayLike,
    *,
    groups: Sequence[Any] | None = None,
    criteria: Sequence[Any] | None = None,
    notion: str | Notion | None = None,
    unit: str = "episode",
    method: IntervalMethod = "delta",
    confidence: float = 0.95,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
) -> BenefitReport:
    """Rates z_g = sum_e S_g,e / sum_e D_g,e, bias max_g z_g - min_g z_g and impact ratio, with their uncertainty.

    Args:
        supply: total benefit given per episode, [episodes, groups] or [episodes, criteria, groups]. An episode is
            what is independent of the others: a simulated run, a branch, a month.
        demand: total benefit due, same shape.
        groups: a name per group.
        criteria: a name per criterion.
        notion: a notion or its name: names the criteria and refuses supply above demand where it forbids that.
        unit: what an episode is called in the report, for example "branch".
        method: how the intervals of rates are found, see `estimate_rates`.
        confidence: of every interval, from 0.5 to 0.999.
        resamples: draws of the bootstrap.
        seed: seed of the bootstrap and of the simulated noise; the same seed gives the same report.
    """
    confidence = as_confidence(confidence)
    totals = EpisodeTotals.of(supply, demand, groups=groups, criteria=criteria, notion=notion, unit=unit)
    rates = estimate_rates(totals, method=method, confidence=confidence, resamples=resamples, seed=seed)
    biases, unknown_biases = estimate_bias(totals, confidence=confidence, seed=seed)
    ratios, unknown_ratios = estimate_impact_ratio(totals, confidence=confidence, seed=seed)
    pooled = pool(totals, confidence=confidence)
    given, due = totals.supply.mean(axis=0), totals.demand.mean(axis=0)
    return BenefitReport(
        episodes=totals.episodes,
        confidence=confidence,
        method=method,
        criteria=tuple(
            CriterionBenefit(
                criterion=name,
                groups=tuple(
                    GroupBenefit(
                        group=group,
                        rate=_known(rates.rate[c, g]),
                        low=_known(rates.low[c, g]),
                        high=_known(rates.high[c, g]),
                        supply=float(given[c, g]),
                        demand=float(due[c, g]),
                        effective_episodes=float(pooled.effective[c, g]),
                        reliable=bool(pooled.reliable[c, g]),
                    )
                    for g, group in enumerate(totals.groups)
                ),
                bias=biases[c],
                impact_ratio=ratios[c],
            )
            for c, name in enumerate(totals.criteria)
        ),
        not_estimable=(*rates.unknown, *unknown_biases, *unknown_ratios),
        notes=tuple(_notes(totals, pooled, biases)),
        unit=totals.unit,
        totals=totals,
    )


def _notes(totals: EpisodeTotals, pooled: Pooled, biases: Sequence[BiasEstimate]) -> Iterator[str]:
    """What a reader should know and cannot see in the numbers, the gravest first."""
    unit = totals.unit
    labelled = totals.notion is None or totals.notion.needs_qualified
    complete = (totals.supply == totals.demand).all(axis=(0, 2)) & totals.demand.any(axis=(0, 2))
    for c in np.flatnonzero(complete & labelled):
        yield (
            f"WARNING: {totals.criteria[c]}: every group received exactly what it was due, in every {unit}. If who "
            "was due is known among accepted people only (as the repayment of a loan is), and 0 was filled in for the "
            "others, this rate is 1 by construction: neither it nor a bias of 0 says anything about fairness. "
            "Compare acceptance rates (demographic parity), or find out about the people who were rejected."
        )
    groups = np.asarray(totals.groups)
    for c, bias in enumerate(biases):
        compared, with_demand, still = pooled.compared[c], pooled.with_demand[c], pooled.still[c]
        unreliable = np.flatnonzero(compared & ~pooled.reliable[c])
        if unreliable.size and totals.episodes > 1:
            each = ", ".join(
                f"{groups[g]} ({pooled.effective[c, g]:.1f}, {100 * pooled.largest[c, g]:.0f} %)" for g in unreliable
            )
            yield (
                f"{bias.criterion}: unreliable for group {each}. In parentheses: how many {unit}s of equal demand its "
                f"demand weighs as much as, and the share of it in the largest {unit}. With fewer than 10, or more "
                "than 25 %, intervals and verdicts err more often than they say."
            )
        for n in np.unique(with_demand[still]):
            alike = still & (with_demand == n)
            yield (
                f"{bias.criterion}, group {', '.join(groups[alike])}: the rate was the same in all {n} {unit}s with "
                f"demand. Up to {100 * pooled.unseen[c][alike].max():.2g} % of {unit}s could differ without any "
                "having been seen; the intervals allow for that."
            )
        sparse = groups[~compared & (with_demand > 0)]
        if sparse.size:
            yield (
                f"{bias.criterion}, group {', '.join(sparse)}: left out of bias and impact ratio, having demand in one "
                f"{unit} only. No limit can be confirmed without it."
            )
        if bias.debiased is not None and bias.debiased < 0:
            yield (
                f"{bias.criterion}: a debiased bias below 0, and so outside its interval, means that equal groups "
                "would differ more by chance."
            )
    if 1 < totals.episodes < FEW_EPISODES:
        yield (
            f"{totals.episodes} {unit}s are few: intervals are approximate below about {FEW_EPISODES}, less so for "
            "groups whose demand is even."
        )


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _plain(record: BiasEstimate | ImpactRatioEstimate | GroupBenefit) -> dict[str, Any]:
    """The fields by name, but for the criterion's; the two ends of the interval are one entry, `ci`."""
    fields = {"ci" if name == "low" else name: value for name, value in asdict(record).items() if name != "criterion"}
    high = fields.pop("high")
    fields["ci"] = None if high is None else [fields["ci"], high]
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
