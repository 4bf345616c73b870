"""One result object: what per-episode totals of supply and demand say about long-term fairness."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from elbert.fairness.arrays import ArrayLike
from elbert.fairness.bias_inference import (
    BiasEstimate,
    BiasTest,
    ImpactRatioEstimate,
    bias_limit_test,
    estimate_bias,
    estimate_impact_ratio,
)
from elbert.fairness.episode_totals import EpisodeTotals, NotEstimable
from elbert.fairness.notions import Notion
from elbert.fairness.rate_intervals import (
    DEFAULT_RESAMPLES,
    IntervalMethod,
    Pooled,
    RateEstimates,
    estimate_rates,
    pool,
)

if TYPE_CHECKING:
    import polars
    from rich.console import RenderableType

FEW_EPISODES = 20
"""Below this many episodes a report says that its intervals are approximate."""

CAUTION = (
    "A small bias says that these rates were alike in these episodes. It does not say that the labels, the groups or "
    "the simulator are right, nor that anyone was treated justly."
)


@dataclass(frozen=True)
class GroupBenefit:
    """One group under one criterion; None where the data do not say."""

    group: str
    rate: float | None
    low: float | None
    high: float | None
    supply: float  # mean total per episode
    demand: float  # mean total per episode


@dataclass(frozen=True)
class CriterionBenefit:
    """All groups under one criterion, and how far apart they are."""

    criterion: str
    groups: tuple[GroupBenefit, ...]
    bias: BiasEstimate
    impact_ratio: ImpactRatioEstimate


@dataclass(frozen=True)
class BenefitReport:
    """Long-term benefit rates, bias and impact ratio with their uncertainty, and what is not estimable.

    `print(report)` shows a table, `to_dict()` and `to_json()` give it to programs, `to_frame()` to analysts, and
    `test(limit)` asks whether the bias is within a limit.
    """

    episodes: int
    confidence: float
    method: IntervalMethod
    criteria: tuple[CriterionBenefit, ...]
    not_estimable: tuple[NotEstimable, ...]
    notes: tuple[str, ...]
    totals: EpisodeTotals = field(compare=False, repr=False)

    def test(self, limit: float, *, confidence: float | None = None, seed: int = 0) -> BiasTest:
        """Whether these episodes confirm or refute "bias <= limit"; see `bias_limit_test`."""
        return bias_limit_test(
            self.totals, limit, confidence=self.confidence if confidence is None else confidence, seed=seed
        )

    def to_dict(self) -> dict[str, Any]:
        """The report as plain numbers, strings, lists and dicts; None where something is not estimable."""
        return {
            "episodes": self.episodes,
            "confidence": self.confidence,
            "method": self.method,
            "criteria": [
                {
                    "criterion": part.criterion,
                    "bias": {
                        "estimate": part.bias.estimate,
                        "debiased": part.bias.debiased,
                        "ci": _pair(part.bias.low, part.bias.high),
                        "noise_floor": part.bias.noise_floor,
                        "noise_floor_high": part.bias.noise_floor_high,
                        "highest": part.bias.highest,
                        "lowest": part.bias.lowest,
                    },
                    "impact_ratio": {
                        "estimate": part.impact_ratio.estimate,
                        "debiased": part.impact_ratio.debiased,
                        "ci": _pair(part.impact_ratio.low, part.impact_ratio.high),
                    },
                    "groups": [
                        {
                            "group": row.group,
                            "rate": row.rate,
                            "ci": _pair(row.low, row.high),
                            "supply": row.supply,
                            "demand": row.demand,
                        }
                        for row in part.groups
                    ],
                }
                for part in self.criteria
            ],
            "not_estimable": [asdict(entry) for entry in self.not_estimable],
            "notes": list(self.notes),
        }

    def to_json(self, *, indent: int | None = 2) -> str:
        """`to_dict()` as JSON; unknown numbers are null."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    def to_frame(self) -> "polars.DataFrame":
        """One row per criterion and group, as a polars frame; unknown numbers are null. Bias is in `to_dict()`."""
        import polars

        reasons = {(e.criterion, e.group): e.reason for e in self.not_estimable}
        rows = [
            {
                "criterion": part.criterion,
                **asdict(row),
                "reason": reasons.get((part.criterion, row.group)),
            }
            for part in self.criteria
            for row in part.groups
        ]
        number = dict.fromkeys(("rate", "low", "high", "supply", "demand"), polars.Float64)
        schema = {"criterion": polars.String, "group": polars.String, **number, "reason": polars.String}
        return polars.DataFrame(rows, schema=schema)

    def __rich__(self) -> "RenderableType":
        """The table for a rich console."""
        from rich.console import Group

        return Group(*(self._table(part) for part in self.criteria), *self._footer())

    def __str__(self) -> str:
        """The table as plain text, 100 columns wide at most."""
        from rich.console import Console

        console = Console(file=StringIO(), width=100, color_system=None, legacy_windows=False)
        console.print(self)
        text = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
        return "\n".join(line.rstrip() for line in text.splitlines())

    def _table(self, part: CriterionBenefit) -> "RenderableType":
        from rich import box
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        percent = f"{100 * self.confidence:g} % interval"
        table = Table(box=box.SIMPLE_HEAD, title=Text(part.criterion), title_justify="left", title_style="bold")
        table.add_column("group")
        for title in ("rate", percent, "supply / episode", "demand / episode"):
            table.add_column(title, justify="right")
        for row in part.groups:
            known = _number(row.rate) if row.rate is not None else "not estimable"
            amounts = _amount(row.supply), _amount(row.demand)
            table.add_row(*(Text(cell) for cell in (row.group, known, _interval(row.low, row.high), *amounts)))
        bias, ratio = part.bias, part.impact_ratio
        lines = Table(box=None, show_header=False, pad_edge=False, padding=(0, 3, 0, 1))
        if bias.estimate is None:
            lines.add_row("bias", "not estimable")
        else:
            lines.add_row("bias, as seen", _number(bias.estimate), "", Text(f"{bias.highest} - {bias.lowest}"))
        if bias.debiased is not None and bias.noise_floor is not None:
            floor = f"equal groups would show {_number(bias.noise_floor)} by chance"
            lines.add_row("bias, debiased", _number(bias.debiased), _interval(bias.low, bias.high), floor)
        if ratio.estimate is None:
            lines.add_row("impact ratio", "not estimable")
        else:
            lines.add_row("impact ratio, as seen", _number(ratio.estimate), "", Text(f"{bias.lowest} / {bias.highest}"))
        if ratio.debiased is not None:
            lines.add_row("impact ratio, debiased", _number(ratio.debiased), _interval(ratio.low, ratio.high))
        return Group(table, lines)

    def _footer(self) -> "list[RenderableType]":
        from rich.text import Text

        head = Text(f"\nFrom {self.episodes} episode{'' if self.episodes == 1 else 's'}. {CAUTION}")
        return [head, *(Text(f"* {entry}") for entry in (*self.not_estimable, *self.notes))]


def benefit_report(
    supply: ArrayLike,
    demand: ArrayLike,
    *,
    groups: Sequence[Any] | None = None,
    criteria: Sequence[Any] | None = None,
    notion: str | Notion | None = None,
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
        method: how the intervals of rates are found, see `estimate_rates`.
        confidence: of every interval.
        resamples: draws of the bootstrap.
        seed: of the bootstrap and of the simulated noise; the same seed gives the same report.
    """
    totals = EpisodeTotals.of(supply, demand, groups=groups, criteria=criteria, notion=notion)
    rates = estimate_rates(totals, method=method, confidence=confidence, resamples=resamples, seed=seed)
    biases, unknown_bias = estimate_bias(totals, confidence=confidence, seed=seed)
    ratios, unknown_ratio = estimate_impact_ratio(totals, confidence=confidence, seed=seed)
    parts = tuple(
        CriterionBenefit(name, _group_rows(totals, rates, c), biases[c], ratios[c])
        for c, name in enumerate(totals.criteria)
    )
    return BenefitReport(
        totals.episodes,
        confidence,
        method,
        parts,
        (*rates.unknown, *unknown_bias, *unknown_ratio),
        _notes(totals, pool(totals, confidence=confidence), biases),
        totals,
    )


def _group_rows(totals: EpisodeTotals, rates: RateEstimates, c: int) -> tuple[GroupBenefit, ...]:
    supply, demand = totals.supply[:, c].mean(axis=0), totals.demand[:, c].mean(axis=0)
    return tuple(
        GroupBenefit(
            group,
            _known(rates.rate[c, g]),
            _known(rates.low[c, g]),
            _known(rates.high[c, g]),
            float(supply[g]),
            float(demand[g]),
        )
        for g, group in enumerate(totals.groups)
    )


def _notes(totals: EpisodeTotals, pooled: Pooled, biases: Sequence[BiasEstimate]) -> tuple[str, ...]:
    """What a reader of the numbers should know and cannot see in them."""
    notes = []
    for c, (criterion, bias) in enumerate(zip(totals.criteria, biases, strict=True)):
        notes += [
            f"{criterion}, group {totals.groups[g]}: the rate was the same in all {pooled.with_demand[c, g]} episodes "
            f"with demand. Up to {100 * pooled.unseen[c, g]:.2g} % of episodes could differ without any having been "
            "seen; the intervals allow for that."
            for g in np.flatnonzero(pooled.still[c])
        ]
        apart = [totals.groups[g] for g in np.flatnonzero(~pooled.compared[c] & (pooled.with_demand[c] > 0))]
        if apart:
            notes.append(
                f"{criterion}, group {', '.join(apart)}: left out of bias and impact ratio, having too little demand."
            )
        if bias.debiased is not None and bias.debiased < 0:
            notes.append(f"{criterion}: a debiased bias below 0 means that equal groups would differ more by chance.")
    if 1 < totals.episodes < FEW_EPISODES:
        notes.append(
            f"{totals.episodes} episodes are few: intervals are approximate below about {FEW_EPISODES}, less so for "
            "groups whose demand is even."
        )
    return tuple(notes)


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _pair(low: float | None, high: float | None) -> list[float] | None:
    return None if low is None or high is None else [low, high]


def _number(value: float) -> str:
    return f"{value:.4f}"


def _amount(value: float) -> str:
    return f"{value:,.6g}"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{_number(low)} .. {_number(high)}"
