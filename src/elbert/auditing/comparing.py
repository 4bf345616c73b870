"""One comparison of groups after the sweep: errors by unit, the course over time, splits, and controls."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import stdtrit

from elbert.auditing.counting import Tally
from elbert.auditing.results import Course, ErrorBy, Estimate, GroupCourse, NotCompared, Place, SplitOf, Standardised
from elbert.auditing.sweeping import Side, Sweep, two_groups
from elbert.fairness.episode_totals import EpisodeTotals, Floats
from elbert.fairness.notions import Notion
from elbert.fairness.rates import ratio
from elbert.fairness.splits import (
    Sloped,
    Split,
    clustered_error,
    influences,
    pooled_difference,
    pooled_odds_ratio,
    split_difference,
)
from elbert.tables import visible

ALL = "all"
"""The name of everybody together."""
_DRAWS = 1000
_STILL = 1e-12


class Comparing:
    """A comparison after the sweep: everything that is made of it."""

    def __init__(self, sweep: Sweep, tally: Tally, *, notion: Notion | None, unit: str, confidence: float) -> None:
        """The sweep must be complete."""
        self.sweep, self.side, self.confidence = sweep, sweep.side, confidence
        self.unit, self.periods, self.notion = unit, tally.periods, notion
        self.by_unit = self.side.sums(tally.by_unit)  # [units, groups + 1, measures]

    @cached_property
    def totals(self) -> EpisodeTotals | None:
        """Totals per unit of the compared groups; None if there are fewer than two."""
        side = self.side
        if side.compared < 2:
            return None
        supply, demand = side.measures.totals(self.by_unit[:, : side.compared])
        return EpisodeTotals.of(
            np.moveaxis(supply, -1, -2),
            np.moveaxis(demand, -1, -2),
            groups=side.groups[: side.compared],
            criteria=side.measures.criteria,
            notion=self.notion,
            unit=self.unit,
        )

    def not_compared(self, rows: dict[str, int]) -> tuple[NotCompared, ...]:
        """The groups that are shown only."""
        sums = self.by_unit.sum(axis=0)
        supply, demand = self.side.measures.totals(sums)
        listed = range(self.side.compared, len(self.side.groups))
        return tuple(
            NotCompared(
                group=self.side.groups[g],
                rows=rows[self.side.groups[g]],
                supply=tuple(supply[g].tolist()),
                demand=tuple(demand[g].tolist()),
                reason=f"demand of {demand[g].min():g} is too small",
            )
            for g in listed
        )

    def errors(self, c: int, row_squares: Floats, *, by_period: str) -> tuple[ErrorBy, ...]:
        """The error of the difference that makes the bias, by row, unit, period, and by two of them at once."""
        pair = self.sweep.pairs[c]
        if pair is None or self.totals is None:
            return ()
        own = self.totals
        influence, share = self._influences(own.supply[:, c], own.demand[:, c], c, pair)
        by_row = float(np.sqrt(sum(row_squares[g] for g in pair)))
        by_unit = clustered_error(influence, share)
        found = [("row", None, by_row, self.unit == "row"), (self.unit, len(influence), by_unit, self.unit != "row")]
        if self.unit == "row":
            found = found[:1]
        if self.sweep.timed:
            supply, demand = (each[:, c] for each in self.sweep.periods)
            series, weights = self._influences(supply, demand, c, pair)
            error = clustered_error(series, weights)
            filled = int((demand[:, pair].sum(axis=1) > 0).sum())
            if by_period != self.unit:
                found.append((by_period, filled, error, False))
                if self.unit != "row":
                    both = by_unit**2 + error**2 - self.sweep.cell_square[c]
                    both = float(np.sqrt(max(both, by_unit**2, error**2)))
                    found.append((f"{self.unit} and {by_period}", None, both, False))
            neighbours = _with_neighbours(series.sum(axis=1), error)
            found.append((f"{by_period} and its neighbours", filled, neighbours, False))
        return tuple(
            ErrorBy(by, number, error, (error / by_row) ** 2 if by_row > 0 else None, used)
            for by, number, error, used in found
        )

    def _influences(self, supply: Floats, demand: Floats, c: int, pair: tuple[int, int]) -> tuple[Floats, Floats]:
        """Of units or periods on the difference of a pair, and their shares of the demand.   [n, groups] -> [n, 2]"""
        share = ratio(demand, demand.sum(axis=0), otherwise=0.0)[:, pair]
        return self.sweep.influence_on_pair(supply, demand, c, pair), share

    def courses(self) -> tuple[Course, ...]:
        """The rates and the bias over time, under each criterion."""
        if not self.sweep.timed or self.totals is None:
            return ()
        return tuple(self._course(c, name) for c, name in enumerate(self.side.measures.criteria))

    def _course(self, c: int, criterion: str) -> Course:
        supply, demand = (each[:, c] for each in self.sweep.periods)
        given, due = np.cumsum(supply, axis=0), np.cumsum(demand, axis=0)
        rates, each = ratio(given, due, otherwise=np.nan), ratio(supply, demand, otherwise=np.nan)
        spread = self.sweep.spread[:, c]
        freedom = np.maximum(ratio(1.0, self.sweep.weight[:, c], otherwise=2.0) - 1, 1.0)
        half = stdtrit(freedom, 0.5 + self.confidence / 2) * np.sqrt(np.einsum("tgg->tg", spread))
        several = ratio(1.0, self.sweep.weight[:, c], otherwise=0.0) > 1.0 + 1e-9
        unseen = 1 - (1 - self.confidence) ** (1 / np.maximum(self.sweep.seen[:, c], 1))
        still = unseen * np.fmax(rates, 1 - rates)  # a rate that never varied: what no unit showed yet
        half = np.where(several, np.where(half > _STILL, half, still), np.nan)
        bounded = self.notion is not None and self.notion.criteria[c].bounded
        low, high = np.maximum(rates - half, 0.0), np.minimum(rates + half, 1.0 if bounded else np.inf)
        mask = ~np.isnan(rates)
        compared = mask.sum(axis=1) > 1
        bias = np.where(compared, _range(np.where(mask, rates, np.nan)), np.nan)
        return Course(
            criterion=criterion,
            periods=self.periods,
            groups=tuple(
                GroupCourse(
                    group=name,
                    rate=_known(each[:, g]),
                    demand=tuple(demand[:, g].tolist()),
                    cumulative=_known(rates[:, g]),
                    low=_known(low[:, g]),
                    high=_known(high[:, g]),
                )
                for g, name in enumerate(self.side.groups[: self.side.compared])
            ),
            bias=_known(bias),
            noise_floor=_known(
                np.where(compared & ~np.isnan(half).any(axis=1, where=mask), _floors(spread, mask), np.nan)
            ),
        )

    def splits(self) -> tuple[SplitOf, ...]:
        """Over periods: the pair that makes the bias, and each group against all."""
        demands = np.concatenate(self.sweep.demands) if self.sweep.demands else np.zeros((0, 0, 0))
        return tuple(
            self._split(
                key,
                split,
                np.concatenate(self.sweep.parts[key], axis=1),
                _share_of(two_groups(demands[:, key[0]], *key[1:]), self.sweep.part),
                self.sweep.part,
                "periods",
                self.periods,
            )
            for key, split in self.sweep.splits.items()
        )

    def _split(
        self,
        key: tuple[int, int, int],
        split: Split,
        parts: Floats,
        share: Floats,
        swept: float,
        over: str,
        names: Sequence[str],
    ) -> SplitOf:
        """Parts are the influences, on the two parts of the split, of units with these shares of the demand.

        The units may be a part of all, that were swept over.
        """
        c, first, second = key
        own_share = self._share(key)
        errors = [
            clustered_error(self._influence_of(key), own_share),
            *(clustered_error(each, share) / float(np.sqrt(swept)) for each in parts),
        ]
        estimates = [
            _estimate(number, error, self._t(own_share))
            for number, error in zip((split.difference, split.treatment, split.timing), errors, strict=True)
        ]
        filled = split.weights.any(axis=1)
        rates = np.where(split.weights > 0, split.rates, np.nan)
        return SplitOf(
            criterion=self.side.measures.criteria[c],
            over=over,
            first=self.side.groups[first],
            second=ALL if second < 0 else self.side.groups[second],
            difference=estimates[0],
            treatment=estimates[1],
            timing=estimates[2],
            filled=split.filled,
            places=()
            if second < 0
            else tuple(
                Place(
                    name=str(names[place]),
                    rate_first=_known(rates[place])[0],
                    rate_second=_known(rates[place])[1],
                    weight_first=float(split.weights[place, 0]),
                    weight_second=float(split.weights[place, 1]),
                    stepwise_weight=1 / int(filled.sum()),
                )
                for place in np.flatnonzero(filled).tolist()
            ),
        )

    def within(self, tally: Tally, controls: tuple[str, ...]) -> tuple[tuple[SplitOf, ...], tuple[Standardised, ...]]:
        """The pair that makes the bias, split over strata of the controls and compared within them."""
        strata = self.side.totals(tally.by_stratum)  # [strata, criteria, groups]
        names = [", ".join("not known" if part is None else visible(part) for part in each) for each in tally.strata]
        numbers: dict[int, list[Sloped]] = {}
        found: dict[int, Split] = {}
        pairs = {c: pair for c, pair in enumerate(self.sweep.pairs) if pair is not None}
        for c, pair in pairs.items():
            if self.totals is not None:
                two = [two_groups(each[:, c], *pair) for each in strata]
                found[c] = split_difference(*two)
                shared = [pooled_difference(*two)] if (two[1] > 0).all(axis=1).any() else []
                numbers[c] = [found[c].treatment, found[c].timing, *shared]
        parts: dict[int, list[Floats]] = {c: [] for c in numbers}
        demands: dict[int, list[Floats]] = {c: [] for c in numbers}
        for chunk in tally.stratum_cells():
            totals = self.side.totals(chunk)
            for c, wanted in numbers.items():
                own = [two_groups(each[:, :, c], *pairs[c]) for each in totals]
                parts[c].append(np.stack([influences(number, *own) for number in wanted]))
                demands[c].append(own[1].sum(axis=1))
        splits, standardised, over = [], [], " and ".join(map(visible, controls))
        for c, split in found.items():
            pair = pairs[c]
            key, influence = (c, *pair), np.concatenate(parts[c], axis=1)
            share = _share_of(np.concatenate(demands[c]), 1.0)
            splits.append(self._split(key, split, influence[:2], share, 1.0, over, names))
            if len(numbers[c]) == 3:
                two = [two_groups(each[:, c], *pair) for each in strata]
                error = clustered_error(influence[2], share)
                standardised.append(
                    Standardised(
                        criterion=self.side.measures.criteria[c],
                        controls=controls,
                        first=self.side.groups[pair[0]],
                        second=self.side.groups[pair[1]],
                        strata=len(names),
                        shared=int((two[1] > 0).all(axis=1).sum()),
                        difference=splits[-1].difference,
                        pooled=_estimate(numbers[c][2], error, self._t(self._share(key))),
                        odds_ratio=pooled_odds_ratio(*two),
                    )
                )
        return tuple(splits), tuple(standardised)

    def _influence_of(self, key: tuple[int, int, int]) -> Floats:
        """Of each unit on the difference itself.   -> [units, 2]"""
        c, first, second = key
        assert self.totals is not None
        given, due = (two_groups(each[:, c], first, second) for each in (self.totals.supply, self.totals.demand))
        rates = given.sum(axis=0) / due.sum(axis=0)
        residual = (given - rates * due) / due.sum(axis=0)
        return residual * np.array([1.0, -1.0])

    def _share(self, key: tuple[int, int, int]) -> Floats:
        c, first, second = key
        assert self.totals is not None
        return _share_of(two_groups(self.totals.demand[:, c], first, second), 1.0)

    def _t(self, share: Floats) -> float:
        """Student's quantile of the one of two groups with the fewer effective units; infinite for a single unit.

        [units, 2]
        """
        freedom = float((1 / (share**2).sum(axis=0)).min()) - 1
        return float(stdtrit(freedom, 0.5 + self.confidence / 2)) if freedom > _STILL else np.inf


def _share_of(demand: Floats, part: float) -> Floats:
    """The share of each group's demand that each unit carries, of all or of a part.   [units, 2]"""
    return part * ratio(demand, demand.sum(axis=0), otherwise=0.0)


def row_squares(side: Side, sums: Floats, rates: Floats) -> Floats:
    """sum over rows of (s - z d)**2 / D**2 for each compared group.   [groups + 1, measures] -> [criteria, groups]"""
    measures, sums = side.measures, sums[: side.compared]
    due = measures.totals(sums)[1].T
    if measures.pairs:
        deviation = (
            measures.supply[:, None] - rates[..., None] * measures.demand[:, None]
        )  # [criteria, groups, measures]
        squares = np.einsum("gm,cgm->cg", sums, deviation**2)
    else:
        criteria = len(measures.criteria)
        first = measures.number - 3 * criteria
        ss, sd, dd = (sums[:, first + k * criteria : first + (k + 1) * criteria].T for k in range(3))
        squares = ss - 2 * rates * sd + rates**2 * dd
    return ratio(np.maximum(squares, 0.0), due**2, otherwise=0.0)


def _estimate(number: Sloped, error: float, t: float) -> Estimate:
    """With an interval, unless no unit varied or there is one only: then nothing says how far off it may be."""
    if error <= _STILL or np.isinf(t):
        return Estimate(number.value)
    return Estimate(number.value, number.value - t * error, number.value + t * error)


def _with_neighbours(series: Floats, least: float) -> float:
    """Newey and West's error of a sum of a series: periods near each other may depend on each other.

    With Bartlett's weights over 4 (n / 100)**(2/9) periods, and not below the error that takes periods as independent.
    """
    n = len(series)
    reach = int(4 * (n / 100) ** (2 / 9))
    covariances = [float(series[lag:] @ series[: n - lag]) for lag in range(min(reach, n - 1) + 1)]
    square = covariances[0] + 2 * sum((1 - lag / (reach + 1)) * each for lag, each in enumerate(covariances) if lag)
    return float(max(np.sqrt(max(square, 0.0)), least))


def _range(rates: Floats) -> Floats:
    """max - min of the rates that are known.   [periods, groups] -> [periods]"""
    return np.where(np.isnan(rates), -np.inf, rates).max(axis=1) - np.where(np.isnan(rates), np.inf, rates).min(axis=1)


def _floors(spread: Floats, mask: Any) -> Floats:
    """The average range of noise with this covariance, over the groups that are known.   [periods, groups, groups]"""
    half = np.random.default_rng(0).standard_normal((_DRAWS // 2, spread.shape[-1]))
    normal = np.concatenate([half, -half])
    values, vectors = np.linalg.eigh(spread)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]  # [periods, groups, groups]
    draws = np.einsum("dk,tgk->tdg", normal, roots)
    apart = np.where(mask[:, None], draws, -np.inf).max(axis=2) - np.where(mask[:, None], draws, np.inf).min(axis=2)
    return np.where(mask.any(axis=1), apart.mean(axis=1), np.nan)


def _known(values: Floats) -> tuple[float | None, ...]:
    return tuple(float(value) if np.isfinite(value) else None for value in values)
