"""What is not known, as bounds: outcomes that nobody saw, groups that nobody noted, cells such as "<10".

With G good among the accepted, R refused and x good among those, the true positive rate is G / (G + x). Without any
assumption x is anything from 0 to R (Manski 1990). Leaving the refused out would make the rate 1 for everybody, and
taking them for as good as the accepted gives back the acceptance rate, demographic parity under another name: neither
is offered as an answer.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from elbert.auditing.counting import Chunks
from elbert.auditing.ends import End, Ends, People
from elbert.auditing.question import Assumption
from elbert.auditing.rows import DECIDED, UNDECIDED, Measures
from elbert.auditing.sweeping import Side
from elbert.errors import NotEstimableError
from elbert.fairness.episode_totals import Floats
from elbert.fairness.rates import ratio

WORDS = {
    "none": "nothing is assumed",
    "no-better": "refused people are on average no better than the accepted of their group whose outcome is known",
    "odds": (
        "the odds of refused people to be good are 1/{gamma:g} to 1 times those of the accepted of known outcome, and "
        "accepted people of unknown outcome are within {gamma:g} times of them"
    ),
    "random": "given the controls, people of unknown outcome are as good as the accepted of known outcome",
}
FEW_EVENTS = 5.0
"""With fewer good or fewer bad outcomes than this among the accepted, their share of good people is not a point."""


def point_ends(side: Side, by_unit: Floats, c: int) -> Ends:
    """Ends that are one: everything is known.   [units, groups + 1, measures]"""
    supply, demand = side.measures.totals(by_unit)
    ends = tuple((End(supply[:, g, c], demand[:, g, c]),) for g in range(side.compared))
    return Ends(ends, ends, side.measures.bounded)


def suppressed_ends(side: Side, by_unit: Floats) -> Ends:
    """Amounts of which some are only known to be below a number: lowest supply of highest demand, and reverse.

    A demand that may be 0 leaves a rate of 0 where nothing was given and no more is given than is due, and otherwise
    any rate.
    """
    least, most, demand_least, demand_most = (by_unit[:, : side.compared, k].T for k in range(4))
    nothing = demand_least.sum(axis=1) == 0
    if (nothing & (most.sum(axis=1) > 0)).any() or (nothing.any() and not side.measures.bounded):
        name = side.groups[int(np.argmax(nothing))]
        raise NotEstimableError(
            f"The demand of group {name} may be 0, because of cells such as <10: its rate may be anything. Leave the "
            "group out (--where), or put it together with others."
        )
    lowest_demand = np.where(nothing[:, None], demand_most, demand_least)
    return Ends(
        tuple((End(*each),) for each in zip(least, demand_most, strict=True)),
        tuple((End(*each),) for each in zip(most, lowest_demand, strict=True)),
        side.measures.bounded,
    )


class _Counts(NamedTuple):
    """Counts of decisions about one group, by decision and outcome; [units] or any other shape."""

    refused: Floats  # whose outcome nobody knows
    accepted: Floats  # whose outcome nobody knows
    good: Floats  # accepted, and known to be good
    bad: Floats  # accepted, and known to be bad


def _counts(measures: Measures, sums: Floats) -> _Counts:
    places = [
        measures.pairs.index(pair) for pair in ((UNDECIDED, None), (DECIDED, None), (DECIDED, 1.0), (DECIDED, 0.0))
    ]
    return _Counts(*(sums[..., place] for place in places))


def outcome_ends(
    side: Side, by_unit: Floats, c: int, assumption: Assumption, confidence: float, *, joined: bool = False
) -> Ends:
    """The ends of every rate if outcomes that nobody saw are as the assumption says.   [units, groups + 1, measures]

    If accepted people of unknown group may have joined a group, they have changed what is known about it.
    """
    joining = by_unit[:, -1] if joined else np.zeros_like(by_unit[:, -1])
    corners = tuple(
        tuple(_corners(side, by_unit[:, g], joining, c, assumption, confidence)) for g in range(side.compared)
    )
    return Ends(corners, corners)


def _anything(units: int) -> list[End]:
    """The ends of a rate of nobody: it may be anything from 0 to 1."""
    even = np.full(units, 1 / units)
    return [End(np.zeros(units), even), End(even, even)]


def _corners(
    side: Side, sums: Floats, joining: Floats, c: int, assumption: Assumption, confidence: float
) -> Iterator[End]:
    """The rate of a group at every corner of what the shares of good people can be.   [units, measures]

    A rate is a ratio that is linear in each share above and below, so it is extreme at a corner.
    """
    counts, others = _counts(side.measures, sums), _counts(side.measures, joining)
    supply, demand = (weights[c] @ sums.T for weights in (side.measures.supply, side.measures.demand))
    decisions = ((counts.refused, UNDECIDED), (counts.accepted, DECIDED))
    changes = [_change(side.measures, c, decision) for _, decision in decisions]
    for known in _known_shares(counts, others, confidence):
        for shares in product(*_shares(assumption, known)):
            s, d, more = supply.copy(), demand.copy(), np.zeros_like(supply)
            for share, (rows, _), change in zip(shares, decisions, changes, strict=True):
                s = s + rows * (change.supply + share.value * change.supply_slope)
                d = d + rows * (change.demand + share.value * change.demand_slope)
            if not d.sum() > 0:
                yield from _anything(len(d))
                continue
            value = s.sum() / d.sum()
            for share, (rows, _), change in zip(shares, decisions, changes, strict=True):
                slope = (change.supply_slope - value * change.demand_slope) * rows.sum() / d.sum()
                more = more + slope * share.slope * known.influence
            yield End(s, d, more)


class _Known(NamedTuple):
    """The share of good people among the accepted of known outcome, and what each unit adds to it."""

    share: float
    influence: Floats  # [units]
    anybody: bool = True


def _known_shares(counts: "_Counts", others: "_Counts", confidence: float) -> Iterator[_Known]:
    """As it is; and at its lowest and highest, if others may have joined, or if few outcomes say little.   [units]"""
    nobody = np.zeros_like(counts.good)
    joined = [(others.good, nobody), (nobody, others.bad)] if others.good.any() or others.bad.any() else []
    for more_good, more_bad in [(nobody, nobody), *joined]:
        good, number = counts.good + more_good, counts.good + counts.bad + more_good + more_bad
        if not number.sum() > 0:
            yield _Known(0.5, nobody, anybody=False)
            continue
        share = float(good.sum() / number.sum())
        weight = number / number.sum()
        low, high = share_limits(good.sum(), number.sum(), 1 / float((weight**2).sum()), confidence)
        if low < high:  # so few that a deviation says nothing: the interval itself
            yield from (_Known(float(end), nobody) for end in (low, high))
        else:
            influence = (good - share * number) / number.sum() / np.sqrt(np.maximum(1 - weight, 1e-12))
            yield _Known(share, influence)


def share_limits(good: Floats, known: Floats, effective: Floats | float, confidence: float) -> tuple[Floats, Floats]:
    """Where a share can lie: a point where enough outcomes of both kinds are known, else Clopper-Pearson's interval.

    For outcomes that depend on each other within units, the interval is that of as many outcomes as there are
    effective units, if these are fewer. Nobody known leaves 0 to 1.
    """
    share = ratio(good, known, otherwise=0.5)
    number = np.minimum(known, effective)
    tail = (1 - confidence) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        low = np.where(share > 0, betaincinv(share * number, (1 - share) * number + 1, tail), 0.0)
        high = np.where(share < 1, betaincinv(share * number + 1, (1 - share) * number, 1 - tail), 1.0)
    few = np.minimum(good, known - good) < FEW_EVENTS
    nobody = known <= 0
    low, high = np.where(nobody, 0.0, low), np.where(nobody, 1.0, high)
    return np.where(few, low, share), np.where(few, high, share)


class _Change(NamedTuple):
    """Supply and demand of one decision whose outcome is bad, and what a good one changes."""

    supply: float
    demand: float
    supply_slope: float
    demand_slope: float


def _change(measures: Measures, c: int, decision: float) -> _Change:
    (s_bad, d_bad), (s_good, d_good) = (_amount(measures, c, decision, q) for q in (0.0, 1.0))
    return _Change(s_bad, d_bad, s_good - s_bad, d_good - d_bad)


def _amount(measures: Measures, c: int, decision: float, outcome: float) -> tuple[float, float]:
    """Supply and demand of one decision with this outcome."""
    place = measures.pairs.index((decision, outcome))
    return float(measures.supply[c, place]), float(measures.demand[c, place])


class _Share(NamedTuple):
    """A share of good people among those whose outcome nobody saw, and its slope by that among the accepted."""

    value: float
    slope: float = 0.0


def _shares(assumption: Assumption, known: _Known) -> tuple[list[_Share], list[_Share]]:
    """The lowest and the highest share of good people, among the refused and the accepted of unknown outcome."""
    nothing, p = [_Share(0.0), _Share(1.0)], known.share
    if assumption.name == "none" or not known.anybody:
        return nothing, nothing
    if assumption.name == "no-better":
        return [_Share(0.0), _Share(p, 1.0)], nothing

    def at(factor: float) -> _Share:
        value = p * factor / (1 - p + p * factor)
        return _Share(value, factor / (1 - p + p * factor) ** 2)

    gamma = assumption.gamma
    return [at(1 / gamma), at(1.0)], [at(1 / gamma), at(gamma)]


def ends_given_controls(
    side: Side, by_stratum: Floats, cells: Chunks, c: int, confidence: float, *, joined: bool = False
) -> tuple[Ends, float]:
    """The ends of every rate if, given the controls, people of unknown outcome are as good as the accepted.

    In a stratum where no outcome of the accepted is known nothing can be learned: there the shares of good people are
    anything from 0 to 1; where few are known they lie in an interval. Also returned: the part of the unknown outcomes
    that lies in strata where none is known.
    """
    measures, sums = side.measures, side.sums(by_stratum)
    whole, others = (_counts(measures, each) for each in (sums[:, : side.compared], sums[:, -1:]))
    known = whole.good + whole.bad  # [strata, groups]
    p = ratio(whole.good, known, otherwise=np.nan)
    lowest, highest = share_limits(whole.good, known, np.inf, confidence)
    sampled = lowest == highest  # a point, whose error is counted below
    if joined:
        lowest = share_limits(whole.good, known + others.bad, np.inf, confidence)[0]
        highest = share_limits(whole.good + others.good, known + others.good, np.inf, confidence)[1]
        lowest, highest = np.where(known == 0, 0.0, lowest), np.where(known == 0, 1.0, highest)
    corners = [(refused, accepted) for refused in (lowest, highest) for accepted in (lowest, highest)]
    changes = [_change(measures, c, decision) for decision in (UNDECIDED, DECIDED)]
    supply, demand = _given(measures, c, sums[:, : side.compared], whole, corners, changes)
    totals = supply.sum(axis=1), demand.sum(axis=1)  # [corners, groups]
    value = ratio(*totals, otherwise=0.0)
    slope = np.stack(
        [
            (change.supply_slope - value[:, None] * change.demand_slope) * rows
            for change, rows in zip(changes, (whole.refused, whole.accepted), strict=True)
        ]
    ).sum(axis=0)  # [corners, strata, groups]
    slope = ratio(slope, np.broadcast_to(totals[1][:, None], slope.shape), otherwise=0.0)
    parts: list[tuple[Floats, Floats, Floats]] = []
    for chunk in cells():
        own = side.sums(chunk)[:, :, : side.compared]  # [units, strata, groups, measures]
        counts = _counts(measures, own)
        own_known = counts.good + counts.bad
        by_p = ratio(counts.good - np.nan_to_num(p) * own_known, known, otherwise=0.0) * sampled
        by_p = by_p / np.sqrt(np.maximum(1 - ratio(own_known, known, otherwise=0.0), 1e-12))
        given, due = _given(measures, c, own, counts, corners, changes)  # [corners, units, strata, groups]
        parts.append((given.sum(axis=2), due.sum(axis=2), np.einsum("usg,esg->eug", by_p, slope)))
    arrays = [np.concatenate(each, axis=1) for each in zip(*parts, strict=True)]
    corners_of = []
    for g in range(side.compared):
        filled = totals[1][:, g] > 0
        ends = [End(*(each[e, :, g] for each in arrays)) for e in np.flatnonzero(filled)]
        corners_of.append(tuple(ends + ([] if filled.all() else _anything(arrays[0].shape[1]))))
    unseen = whole.refused + whole.accepted
    return Ends(tuple(corners_of), tuple(corners_of)), float(unseen[known == 0].sum() / max(unseen.sum(), 1.0))


def _given(
    measures: Measures,
    c: int,
    sums: Floats,
    counts: _Counts,
    corners: Sequence[tuple[Floats, Floats]],
    changes: Sequence[_Change],
) -> tuple[Floats, Floats]:
    """Supply and demand at each corner.   [..., strata, groups, measures] -> [corners, ..., strata, groups], twice"""
    supply, demand = [], []
    for corner in corners:
        s, d = sums @ measures.supply[c], sums @ measures.demand[c]
        for share, rows, change in zip(corner, (counts.refused, counts.accepted), changes, strict=True):
            s = s + rows * (change.supply + share * change.supply_slope)
            d = d + rows * (change.demand + share * change.demand_slope)
        supply.append(s)
        demand.append(d)
    return np.stack(supply), np.stack(demand)


def unknown_people(side: Side, by_unit: Floats, c: int) -> People:
    """Those of one criterion.   [units, groups + 1, measures]"""
    measures, sums = side.measures, by_unit[:, -1]
    if measures.suppressed:
        least, most, _, demand_most = (sums[:, k] for k in range(4))
        return People(most, most if measures.bounded else 0 * most, demand_most - least * measures.bounded)
    supply, demand = sums @ measures.supply[c], sums @ measures.demand[c]
    if not measures.bounded:  # a single row may have any rate
        return People(supply, 0 * supply, demand)
    received, unmet = supply, np.maximum(demand - supply, 0.0)
    for place, (decision, outcome) in enumerate(measures.pairs):
        if measures.needs_outcome and outcome is None and (decision, 0.0) in measures.pairs:
            amounts = [_amount(measures, c, decision, q) for q in (0.0, 1.0)]
            received = received + sums[:, place] * max(s for s, _ in amounts)
            unmet = unmet + sums[:, place] * max(d - s for s, d in amounts)
    return People(received, received, unmet)
