"""The groups of a comparison among the cells of a log, and what one sweep over all units adds up for them."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from elbert.auditing.columns import Label
from elbert.auditing.counting import Tally
from elbert.auditing.rows import Measures
from elbert.fairness.episode_totals import Floats
from elbert.fairness.rates import ratio
from elbert.fairness.splits import Split, influences, split_difference
from elbert.tables import visible

SMALLEST = 30.0
"""Demand below which a group is shown but not compared, unless something else is asked for."""


@dataclass(frozen=True)
class Side:
    """The groups of one comparison: which columns they come from, and where their members are among the cells."""

    name: str
    groups: tuple[str, ...]  # known groups, those compared first
    compared: int  # how many of them are compared
    member: Floats  # [cells' groups, groups + 1]: 1 where a cell's group belongs; the last column is "not known"
    measures: Measures

    def sums(self, cells: Floats) -> Floats:
        """Measures by group, the unknown last.   [..., cells' groups, measures] -> [..., groups + 1, measures]"""
        if self.order is not None:
            return np.concatenate([cells[..., self.order, :], _none_of(cells)], axis=-2)
        return np.moveaxis(np.moveaxis(cells, -2, -1) @ self.member, -1, -2)

    @cached_property
    def order(self) -> Any:
        """The cells' group of each group, where each has one and everybody's is known."""
        single = (self.member.sum(axis=0)[:-1] == 1).all() and not self.member[:, -1].any()
        return self.member[:, :-1].argmax(axis=0) if single else None

    def totals(self, cells: Floats) -> tuple[Floats, Floats]:
        """Supply and demand of the compared groups.   [..., cells' groups, measures] -> [..., criteria, compared]"""
        supply, demand = self.measures.totals(self.sums(cells)[..., : self.compared, :])
        return np.moveaxis(supply, -1, -2), np.moveaxis(demand, -1, -2)


def sides_of(columns: Sequence[str], tally: Tally, measures: Measures, smallest: float) -> list[Side]:
    """A comparison for each column of groups, and one for their intersections if there are several."""
    chosen: list[tuple[int, ...]] = [(place,) for place in range(len(columns))]
    if len(columns) > 1:
        chosen.append(tuple(range(len(columns))))
    return [_side(columns, places, tally, measures, smallest) for places in chosen]


def _side(columns: Sequence[str], places: Sequence[int], tally: Tally, measures: Measures, smallest: float) -> Side:
    named = _names({_part(label, places) for label in tally.groups})
    names = [named.get(_part(label, places)) for label in tally.groups]
    known = sorted(named.values())
    member = np.array([[float(name == group) for group in [*known, None]] for name in names])
    sums = np.einsum("tjm,jg->gm", tally.by_period, member)[:-1]
    demand = measures.most_demand(sums).min(axis=1)
    order = np.lexsort((known, -demand, demand < max(smallest, np.nextafter(0, 1))))
    return Side(
        name=" and ".join(visible(columns[place]) for place in places),
        groups=tuple(known[i] for i in order),
        compared=int((demand >= max(smallest, np.nextafter(0, 1))).sum()),
        member=np.hstack([member[:, order], member[:, -1:]]),
        measures=measures,
    )


def _part(label: Label, places: Sequence[int]) -> Label:
    """The part of a cell's group that a comparison is about."""
    return tuple(label[place] for place in places)


def _names(labels: Collection[Label]) -> dict[Label, str]:
    """The names of groups of which all is known. Groups whose names look alike, being cut or joined, are numbered."""
    named: dict[Label, str] = {}
    often: Counter[str] = Counter()
    for label in sorted(label for label in labels if None not in label):
        name = ", ".join(visible(part) for part in label)
        often[name] += 1
        named[label] = name if often[name] == 1 else f"{name} ({often[name]})"
    return named


@dataclass
class Sweep:
    """What one comparison adds up over all units: their totals, and squares of what they deviate by."""

    side: Side
    by_period: Floats  # [periods, cells' groups, measures]
    timed: bool  # whether there are periods to look at
    in_several_units: np.ndarray[Any, np.dtype[np.bool_]]  # [criteria, groups] whether two units have demand
    part: float = 1.0  # of all units that are swept over: squares are those of all
    demands: list[Floats] = field(default_factory=list)  # of [some units, criteria, groups], of those swept over
    cell_square: Floats = field(init=False)  # [criteria] sum over units and periods of the squared influence
    spread: Floats = field(init=False)  # [periods, criteria, groups, groups] of cumulative rates
    weight: Floats = field(init=False)  # [periods, criteria, groups] sum of squared shares of the demand up to then
    seen: Floats = field(init=False)  # [periods, criteria, groups] units with demand up to then
    parts: dict[tuple[int, int, int], list[Floats]] = field(default_factory=dict)  # influences on parts of splits

    def __post_init__(self) -> None:
        periods, (criteria, groups) = len(self.by_period), self.rates.shape
        self.cell_square = np.zeros(criteria)
        self.spread = np.zeros((periods, criteria, groups, groups))
        self.weight = np.zeros((periods, criteria, groups))
        self.seen = np.zeros((periods, criteria, groups))

    @cached_property
    def periods(self) -> tuple[Floats, Floats]:
        """Supply and demand of each period.   [periods, criteria, groups]"""
        return self.side.totals(self.by_period)

    @cached_property
    def totals(self) -> tuple[Floats, Floats]:
        """Supply and demand in all.   [criteria, groups]"""
        supply, demand = self.periods
        return supply.sum(axis=0), demand.sum(axis=0)

    @cached_property
    def rates(self) -> Floats:
        """Long-term rates.   [criteria, groups]"""
        return ratio(*self.totals, otherwise=np.nan)

    @cached_property
    def pairs(self) -> list[tuple[int, int] | None]:
        """For each criterion the groups with the highest and the lowest rate; None if there is nothing to compare.

        As in a report, groups with demand in one unit only are left out, if two others remain.
        """
        found: list[tuple[int, int] | None] = []
        for rates, several in zip(self.rates, self.in_several_units, strict=True):
            known = ~np.isnan(rates)
            compared = np.where(several if (several & known).sum() > 1 else known, rates, np.nan)
            found.append((int(np.nanargmax(compared)), int(np.nanargmin(compared))) if known.sum() > 1 else None)
        return found

    @cached_property
    def splits(self) -> dict[tuple[int, int, int], Split]:
        """The difference of two groups over periods, by criterion, first and second; -1 is everybody together."""
        if not self.timed:
            return {}
        supply, demand = self.periods
        chosen = [(c, *pair) for c, pair in enumerate(self.pairs) if pair is not None]
        several = self.side.compared > 2
        chosen += [(c, g, -1) for c in range(len(self.rates)) for g in range(self.side.compared) if several]
        found = {}
        for c, first, second in chosen:
            if demand[:, c, first].any() and (second < 0 or demand[:, c, second].any()):
                arrays = (two_groups(each[:, c], first, second) for each in (supply, demand))
                found[c, first, second] = split_difference(*arrays)
        return found

    def add(self, cells: Floats) -> None:
        """Take in some units.   [units, periods, cells' groups, measures]"""
        if not self.timed or self.side.compared < 2:
            return
        supply, demand = self.side.totals(cells)
        self.demands.append(demand.sum(axis=1))
        for c, pair in enumerate(self.pairs):
            if pair is not None:
                square = self.influence_on_pair(supply[:, :, c], demand[:, :, c], c, pair).sum(axis=-1) ** 2
                self.cell_square[c] += float(square.sum()) / self.part
        for key, split in self.splits.items():
            c, first, second = key
            own = [two_groups(each[:, :, c], first, second) for each in (supply, demand)]
            kinds = (split.treatment, split.timing)
            self.parts.setdefault(key, []).append(np.stack([influences(kind, *own) for kind in kinds]))
        self._add_course(np.cumsum(supply, axis=1), np.cumsum(demand, axis=1))

    def influence_on_pair(self, supply: Floats, demand: Floats, c: int, pair: tuple[int, int]) -> Floats:
        """What totals of each add to the difference of the pair, in first order.   [..., groups] -> [..., 2]"""
        due, rates = self.totals[1][c], self.rates[c]
        high, low = ((supply[..., g] - rates[g] * demand[..., g]) / due[g] for g in pair)
        return np.stack([high, -low], axis=-1)

    def _add_course(self, supply: Floats, demand: Floats) -> None:
        """Squares of what units deviate by from the rates so far.   [units, periods, criteria, groups]"""
        given, due = (np.cumsum(each, axis=0) for each in self.periods)
        rates = ratio(given, due, otherwise=0.0)
        share = ratio(demand, due, otherwise=0.0)
        residual = ratio(supply - rates * demand, due, otherwise=0.0) / np.sqrt(np.maximum(1 - share, 1e-12))
        self.spread += np.einsum("utci,utcj->tcij", residual, residual, optimize=True) / self.part
        self.weight += (share**2).sum(axis=0) / self.part
        self.seen += (demand > 0).sum(axis=0)


def _none_of(cells: Floats) -> Floats:
    return np.zeros((*cells.shape[:-2], 1, cells.shape[-1]))


def two_groups(values: Floats, first: int, second: int) -> Floats:
    """The columns of two groups; the second may be everybody.   [..., groups] -> [..., 2]"""
    other = values.sum(axis=-1) if second < 0 else values[..., second]
    return np.stack([values[..., first], other], axis=-1)
