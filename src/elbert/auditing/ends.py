"""Rates that are not known exactly: each group's lies between two ends, and the bias between their worst cases.

Every end is a ratio of totals with an influence of every unit, so that sampling error can be added around both
(Imbens and Manski 2004).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations
from typing import NamedTuple, cast

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri, stdtr, stdtrit

from elbert.auditing.results import Bounds, RateBounds
from elbert.fairness.bias_inference import Verdict
from elbert.fairness.episode_totals import Floats
from elbert.fairness.rate_intervals import FEW_EFFECTIVE, LARGE_SHARE
from elbert.fairness.splits import clustered_error

_STILL = 1e-12


class People(NamedTuple):
    """People whose group is not known: the most that they can have received, and the most that they can have missed."""

    received: Floats  # [units]
    due: Floats  # [units] demand that comes with it
    unmet: Floats  # [units] demand that nothing was given for


class End(NamedTuple):
    """The lowest or the highest rate of a group: z = sum S / sum D over units."""

    supply: Floats  # [units]
    demand: Floats  # [units]
    more: Floats | float = 0.0  # influence of what was estimated to find supply and demand, [units]

    @property
    def value(self) -> float:
        """The rate."""
        return float(self.supply.sum() / self.demand.sum())

    @property
    def share(self) -> Floats:
        """Of the demand that each unit carries.   [units]"""
        return self.demand / self.demand.sum()

    @property
    def influence(self) -> Floats:
        """What each unit adds to the rate, in first order.   [units]"""
        return (self.supply - self.value * self.demand) / self.demand.sum() + self.more

    @property
    def effective(self) -> float:
        """The number of equal units that would weigh as much."""
        return 1.0 / float((self.share**2).sum())

    @property
    def seen(self) -> int:
        """Units with demand."""
        return int((self.demand > 0).sum())

    @property
    def reliable(self) -> bool:
        """Whether enough units carry the demand, as in a report."""
        return self.effective >= FEW_EFFECTIVE and float(self.share.max()) <= LARGE_SHARE

    def unseen(self, room: float, confidence: float) -> float:
        """The error of a rate that never varied: what no unit showed may lie anywhere in the room; otherwise 0."""
        if np.abs(self.influence).max() > _STILL:
            return 0.0
        share = 1 - (1 - confidence) ** (1 / max(self.seen, 1))
        return float(share * room / ndtri(0.5 + confidence / 2))

    def plus(self, supply: Floats | float, demand: Floats | float) -> "End":
        """The rate with more people.   [units]"""
        total = self.demand + demand
        return End(self.supply + supply, total, self.more * float(self.demand.sum() / total.sum()))


class _Gap(NamedTuple):
    """The rate of one group minus that of another."""

    value: float
    error: float
    freedom: float

    @classmethod
    def of(cls, first: End, second: End, rooms: tuple[float, float], confidence: float) -> "_Gap":
        """The rooms say how far each may lie from its value on the unfavourable side, if it never varied."""
        spread = clustered_error(
            np.stack([first.influence, -second.influence], axis=1), np.stack([first.share, second.share], axis=1)
        )
        unseen = [end.unseen(room, confidence) for end, room in zip((first, second), rooms, strict=True)]
        freedom = max(min(first.effective, second.effective) - 1.0, 1.0)
        return cls(first.value - second.value, math.hypot(spread, *unseen), freedom)

    def p_at_most(self, limit: float) -> float:
        """The p-value of "it is above the limit": small where it is well below."""
        if self.error == 0:
            return 0.0 if self.value <= limit else 1.0
        return float(stdtr(self.freedom, (self.value - limit) / self.error))


@dataclass(frozen=True)
class Ends:
    """Both ends of every compared group's rate, under one criterion.

    A rate may be extreme in several ways, and which of them is the most extreme may change when more people are added.
    So all are kept.
    """

    lows: tuple[tuple[End, ...], ...]  # for each group, what may be its lowest rate
    highs: tuple[tuple[End, ...], ...]
    bounded: bool = True  # whether rates cannot be above 1
    tests: int = 1  # how many tests a refutation is corrected for: criteria and comparisons

    @cached_property
    def low(self) -> tuple[End, ...]:
        """The lowest rate of each group."""
        return tuple(min(ends, key=lambda end: end.value) for ends in self.lows)

    @cached_property
    def high(self) -> tuple[End, ...]:
        """The highest rate of each group."""
        return tuple(max(ends, key=lambda end: end.value) for ends in self.highs)

    @property
    def reliable(self) -> bool:
        """Whether enough units carry the demand of every group."""
        return all(end.reliable for end in (*self.low, *self.high))

    @property
    def estimable(self) -> bool:
        """Whether every group has demand in at least two units."""
        return all(end.seen > 1 for end in (*self.low, *self.high))

    def of_estimable(self) -> "Ends | None":
        """The groups that have demand in at least two units; None if these are fewer than two."""
        places = [g for g, ends in enumerate(zip(self.low, self.high, strict=True)) if all(e.seen > 1 for e in ends)]
        if len(places) < 2:
            return None
        return replace(self, lows=tuple(self.lows[g] for g in places), highs=tuple(self.highs[g] for g in places))

    def verdict(self, max_bias: float, confidence: float) -> tuple[Verdict, float, float]:
        """The verdict on "the bias is at most the limit" wherever the rates lie, and its two p-values.

        Confirmed if, for every two groups, the highest of one minus the lowest of the other is within the limit.
        Refuted if the lowest of one minus the highest of another is beyond it (Bonferroni over all pairs and tests).
        """
        most = [gap.p_at_most(max_bias) for gap in self._above(confidence)]
        least = [1 - gap.p_at_most(max_bias) for gap in self._below(confidence)]
        confirm, refute, level = max(most), min(1.0, min(least) * len(least) * self.tests), 1 - confidence
        return "refuted" if refute <= level else "confirmed" if confirm <= level else "not refuted", refute, confirm

    def bounds(
        self,
        criterion: str,
        assumption: str,
        words: str,
        groups: Sequence[str],
        *,
        max_bias: float | None,
        confidence: float,
    ) -> Bounds:
        """The bias at its least and its most, with an interval that holds what lies between with this confidence.

        The lower end must hold for all pairs at once (Bonferroni); the upper end is that of the worst pair.
        """
        above, below = self._above(confidence), self._below(confidence)
        least = max(0.0, *(gap.value for gap in below))
        most = max(gap.value for gap in above)
        each = 1 - (1 - confidence) / (len(below) / 2)
        error = max(gap.error for gap in (*above, *below))
        lows = [
            gap.value - _critical(gap, (most - least) / error if error else np.inf, each) * gap.error for gap in below
        ]
        highs = [
            gap.value + _critical(gap, (most - least) / error if error else np.inf, confidence) * gap.error
            for gap in above
        ]
        return Bounds(
            criterion=criterion,
            assumption=assumption,
            words=words,
            rates=tuple(RateBounds(*each) for each in zip(groups, _values(self.low), _values(self.high), strict=True)),
            least=least,
            most=most,
            low=max(0.0, *lows),
            high=min(max(highs), 1.0 if self.bounded else np.inf),
            verdict=None if max_bias is None else self.verdict(max_bias, confidence)[0],
        )

    def with_unknown(self, people: "People", part: float = 1.0) -> "Ends":
        """The ends if this part of some people belongs where it matters most.

        Those who received go to a group for its highest rate, those who did not for its lowest. Both can be true at
        once.
        """
        return replace(
            self,
            lows=tuple(tuple(end.plus(0.0, part * people.unmet) for end in ends) for ends in self.lows),
            highs=tuple(
                tuple(end.plus(part * people.received, part * people.due) for end in ends) for ends in self.highs
            ),
        )

    def with_lost(self, lost: Floats) -> "Ends":
        """The ends if these decisions about each group, which could not be read, went either way.   [groups]"""
        each = [number / len(ends[0].demand) for number, ends in zip(lost, self.lows, strict=True)]
        return replace(
            self,
            lows=tuple(tuple(end.plus(0.0, n) for end in ends) for ends, n in zip(self.lows, each, strict=True)),
            highs=tuple(tuple(end.plus(n, n) for end in ends) for ends, n in zip(self.highs, each, strict=True)),
        )

    def _above(self, confidence: float) -> list[_Gap]:
        """Highest minus lowest rates of all ordered pairs."""
        pairs = permutations(range(len(self.low)), 2)
        return [self._gap(self.high[i], self.low[j], confidence, raised=True) for i, j in pairs]

    def _below(self, confidence: float) -> list[_Gap]:
        """Lowest minus highest rates of all ordered pairs."""
        pairs = permutations(range(len(self.low)), 2)
        return [self._gap(self.low[i], self.high[j], confidence, raised=False) for i, j in pairs]

    def _gap(self, first: End, second: End, confidence: float, *, raised: bool) -> _Gap:
        high, low = (first, second) if raised else (second, first)
        up = 1 - high.value if self.bounded else max(high.value, 1 - high.value)
        rooms = (up, low.value) if raised else (low.value, up)
        return _Gap.of(first, second, rooms, confidence)


def _values(ends: Sequence[End]) -> list[float]:
    return [end.value for end in ends]


def _critical(gap: _Gap, apart: float, confidence: float) -> float:
    """Imbens and Manski's critical value: two-sided where both ends are one, one-sided where they are far apart."""
    one, two = stdtrit(gap.freedom, confidence), stdtrit(gap.freedom, 0.5 + confidence / 2)

    def excess(value: float) -> float:
        return float(stdtr(gap.freedom, value + apart) - stdtr(gap.freedom, -value)) - confidence

    if excess(one) >= 0 or excess(two) <= 0:
        return float(one if excess(one) >= 0 else two)
    return cast("float", brentq(excess, one, two))
