"""What the state of a monitor shows: bounds that hold at every look, and a verdict."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from elbert.auditing.monitor_state import (
    AGAIN,
    LATE,
    UNKNOWN_OUTCOME,
    State,
)
from elbert.auditing.question import question_of
from elbert.auditing.results import plain_record
from elbert.auditing.rows import TIME_BLOCKS
from elbert.exit_codes import code_of
from elbert.fairness.bias_inference import HasInterval
from elbert.fairness.confidence_sequences import sequence_radius
from elbert.fairness.rates import ratio
from elbert.shown import Shown
from elbert.tables import visible

MOST_DROPPED = 0.05
"""Share of rows that came too late, or of units that came back, beyond which there is no verdict."""


@dataclass(frozen=True)
class MonitoredGroup(HasInterval):
    """A group's rate so far, with bounds that hold at every look."""

    group: str
    rate: float | None
    low: float | None
    high: float | None
    supply: float
    demand: float


@dataclass(frozen=True)
class MonitoredCriterion(HasInterval):
    """The bias so far, with bounds that hold at every look."""

    criterion: str
    groups: tuple[MonitoredGroup, ...]
    bias: float | None
    low: float | None
    high: float | None
    left_out: tuple[str, ...]  # groups with too few units so far


@dataclass(frozen=True)
class Monitored(Shown):
    """What a monitor sees. `verdict` and `code` are as in an audit."""

    page_by: ClassVar[str] = "elbert.report.monitor_page:monitor_page"

    state: str
    units: int  # whose period is over
    unit: str
    open_units: int  # of the latest period, which do not count yet
    until: str  # the latest period
    added: int  # rows that were added at this look
    reasons: Mapping[str, int]  # all rows so far, by what became of them
    criteria: tuple[MonitoredCriterion, ...]
    exact: bool
    confidence: float
    max_bias: float | None
    verdict: str | None
    words: str

    @property
    def code(self) -> int:
        """The exit code: 0 confirmed or no limit asked, 1 refuted, 3 undetermined."""
        return code_of(self.verdict)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return plain_record(self) | {"code": self.code}

    def __str__(self) -> str:
        return str(self._page())


def look_at(kept: State, path: Path, *, added: int) -> Monitored:
    """What the state shows."""
    question = question_of(kept.question)
    criteria = tuple(
        _exact_criterion(kept, c) if kept.exact else criterion_so_far(kept, c) for c in range(len(kept.criteria))
    )
    verdict, words = None, ""
    if question.max_bias is not None:
        verdict, words = _verdict(kept, criteria, question.max_bias)
    return Monitored(
        state=str(path),
        units=kept.units,
        unit=str(question.period) if kept.unit == TIME_BLOCKS else visible(kept.unit, 30),
        open_units=len(kept.open),
        until=kept.until,
        added=added,
        reasons=dict(kept.reasons),
        criteria=criteria,
        exact=kept.exact,
        confidence=kept.level,
        max_bias=question.max_bias,
        verdict=verdict,
        words=words,
    )


def _verdict(kept: State, criteria: tuple[MonitoredCriterion, ...], limit: float) -> tuple[str, str]:
    """The verdict, and why there is none."""
    if kept.reasons.get(UNKNOWN_OUTCOME):
        return "undetermined", "some outcomes are not known; an audit says what they can change"
    dropped = sum(kept.reasons.get(reason, 0) for reason in (LATE, AGAIN))
    if dropped > MOST_DROPPED * max(kept.rows, 1):
        share = f"{100 * dropped / kept.rows:.0f} % of the rows"
        return "undetermined", f"{share} came after their period was over, or from units that came back"
    slack = _slack(kept)
    if any(each.low is not None and each.low - slack > limit for each in criteria):
        return "refuted", ""
    if any(each.high is None or each.high > limit for each in criteria):
        return "undetermined", "there are too few units so far"
    if kept.astray.keys() - {"", *kept.groups}:
        return "undetermined", "of a group, no decision counts so far"
    if any(each.left_out for each in criteria):
        return "undetermined", "a group has too few units so far, or its rate never varied"
    if any(each.high is None or each.high + slack > limit for each in criteria):
        return "undetermined", "some groups or decisions are not known; an audit says what they can change"
    return "confirmed", ""


def _slack(kept: State) -> float:
    """How far apart decisions that are in no group's sums could move two rates, at the most."""
    return sum(sorted(kept.moved(g) for g in range(len(kept.groups)))[-2:])


def criterion_so_far(kept: State, c: int) -> MonitoredCriterion:
    """Pairs of groups by asymptotic confidence sequences, corrected for the number of pairs and of criteria."""
    supply, demand = kept.sums[c]
    groups, units = len(kept.groups), max(kept.units, 1)
    rates = ratio(supply, demand, otherwise=np.nan)
    effective, ready = kept.effective(c), kept.ready(c)

    def radius(weights: dict[int, float], level: float) -> float:
        slope = np.zeros((2, groups))
        for g, sign in weights.items():
            slope[:, g] = sign / demand[g], -sign * rates[g] / demand[g]
        square = float(np.einsum("ag,agbh,bh->", slope, kept.moments[c], slope))
        freedom = min(effective[g] for g in weights) - 1
        deviation = np.sqrt(max(square, 0.0) * units)
        return float(sequence_radius(deviation, units, level=level, best_at=kept.best_at, freedom=freedom))

    pairs = [(i, j) for i in ready for j in ready if i < j]
    apart = [(float(abs(rates[i] - rates[j])), radius({i: 1.0, j: -1.0}, kept.pair_level(i, j))) for i, j in pairs]
    listed = []
    for g in sorted(range(groups), key=lambda g: kept.groups[g]):
        half = radius({g: 1.0}, kept.group_level(g)) if g in ready else None
        listed.append(_group(kept, c, g, rates[g], None if half is None else (rates[g] - half, rates[g] + half)))
    return MonitoredCriterion(
        criterion=kept.criteria[c],
        groups=tuple(listed),
        bias=max((value for value, _ in apart), default=None),
        low=max((max(value - half, 0.0) for value, half in apart), default=None),
        high=max((value + half for value, half in apart), default=None),
        left_out=tuple(visible(kept.groups[g]) for g in range(groups) if g not in ready),
    )


def _exact_criterion(kept: State, c: int) -> MonitoredCriterion:
    """All groups at once by betting."""
    supply, demand = kept.sums[c]
    rates = ratio(supply, demand, otherwise=np.nan)
    # The k-th group has a share 1 / (k (k + 1)) of the level; over all groups to come these add up to 1.
    level = (1 - kept.level) / len(kept.criteria) / 2
    ends = {
        g: kept.wealth[name][c].ends(level / ((g + 1) * (g + 2))) for g, name in enumerate(kept.groups) if demand[g] > 0
    }
    pairs = [(i, j) for i in ends for j in ends if i != j]
    order = sorted(ends, key=lambda g: kept.groups[g])
    return MonitoredCriterion(
        criterion=kept.criteria[c],
        groups=tuple(_group(kept, c, g, rates[g], ends[g]) for g in order),
        bias=max((float(rates[i] - rates[j]) for i, j in pairs), default=None),
        low=max((max(ends[i][0] - ends[j][1], 0.0) for i, j in pairs), default=None),
        high=max((ends[i][1] - ends[j][0] for i, j in pairs), default=None),
        left_out=tuple(visible(name) for g, name in enumerate(kept.groups) if g not in ends),
    )


def _group(kept: State, c: int, g: int, rate: float, ends: tuple[float, float] | None) -> MonitoredGroup:
    return MonitoredGroup(
        group=visible(kept.groups[g]),
        rate=float(rate) if np.isfinite(rate) else None,
        low=None if ends is None else max(float(ends[0]), 0.0),
        high=None if ends is None else float(ends[1]),
        supply=float(kept.sums[c, 0, g]),
        demand=float(kept.sums[c, 1, g]),
    )
