"""Rates over all episodes, how the episodes scatter around them, and how much evidence stands behind each.

Everything that a report says is built on this one pass over the totals: the intervals of rates, the bias, the impact
ratio, the test of a limit, and the notes.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import ndtri

from elbert.checks import as_number
from elbert.fairness.episode_totals import EpisodeTotals, Floats
from elbert.fairness.rates import ratio

Counts: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

MIN_CONFIDENCE, MAX_CONFIDENCE = 0.5, 0.999

FEW_EFFECTIVE, LARGE_SHARE = 10.0, 0.25
"""A group is reliable if its demand weighs as much as at least this many equal episodes, and no single episode carries
more than this share of it. Below that, intervals and verdicts err more often than they say (benchmarks/coverage.py)."""

_ROUNDING = 1e-12


class Pooled(NamedTuple):
    """Rates over all episodes and how episodes deviate from them; every array is [criteria, groups] but `directions`.

    A *still* group had the same rate in every episode with demand. It shows no spread to measure, so its error is a
    bound on what may not have been seen, and has no degrees of freedom to lose.
    """

    rate: Floats  # sum_e S_e / sum_e D_e, NaN without demand
    directions: Floats  # [episodes, criteria, groups] residuals u_e = (S_e - z D_e) / mean(D), scaled to length 1
    error: Floats  # standard error of the rate; for a still group the bound
    effective: Floats  # n_eff = (sum_e D_e)**2 / sum_e D_e**2: how many equal episodes the demand weighs as much as
    largest: Floats  # share of the demand that the largest episode carries
    freedom: Floats  # Student's degrees of freedom: n_eff - 1, at least 1; infinite for a still group
    with_demand: Counts  # episodes with demand
    active: Counts  # episodes with supply or demand: those that say something of the group
    compared: Mask  # enough data to be compared
    reliable: Mask  # enough episodes carry the demand for intervals and verdicts to be taken at their word
    still: Mask  # the same rate in every episode with demand, two or more
    unseen: Floats  # share of episodes that may differ without any of them having been seen


def pool(totals: EpisodeTotals, *, confidence: float) -> Pooled:
    """z = sum_e S_e / sum_e D_e, its standard error sqrt(sum_e u_e**2 * n / (n - 1)) / E, and n_eff.

    u_e = (S_e - z D_e) / mean(D) are the residuals; n of the E episodes have supply or demand of the group.
    """
    supply, demand = totals.supply, totals.demand
    total = demand.sum(axis=0)
    has_demand = total > 0
    rate = ratio(supply.sum(axis=0), total, otherwise=np.nan)
    expected = np.where(has_demand, rate, 0.0) * demand
    mean = np.where(has_demand, total / totals.episodes, 1.0)
    # A deviation is rounding if it is small next to the episode's own supply, or next to the average episode's: in an
    # episode with hardly any demand even a rate of 0 instead of 1 says nothing.
    scale = np.maximum(supply + expected, np.where(has_demand, rate, 0.0) * mean)
    rounding = (np.abs(supply - expected) <= _ROUNDING * scale) | ~has_demand
    deviation = np.where(rounding, 0.0, supply - expected)
    residuals = deviation / mean / power_of_two(rate)  # squares of very large or small rates would leave the floats
    squares = (residuals**2).sum(axis=0)
    with_demand, active = (demand > 0).sum(axis=0), ((demand > 0) | (supply > 0)).sum(axis=0)
    still = (with_demand >= 2) & (squares == 0)
    unseen = 1 - (1 - confidence) ** (1 / np.maximum(active, 1))
    n = np.maximum(active, 2)
    error = np.sqrt(squares * n / (n - 1)) / totals.episodes * power_of_two(rate)
    bound = unseen * np.maximum(rate, headroom(totals, rate)) / ndtri(0.5 + confidence / 2)
    share = ratio(demand, total, otherwise=0.0)
    effective = ratio(1.0, (share**2).sum(axis=0), otherwise=0.0)
    return Pooled(
        rate=rate,
        directions=residuals / np.where(squares > 0, np.sqrt(squares), 1.0),
        error=np.where(still, bound, error),
        effective=effective,
        largest=share.max(axis=0),
        freedom=np.where(still, np.inf, np.maximum(effective - 1, 1.0)),
        with_demand=with_demand,
        active=active,
        compared=has_demand & ((with_demand >= 2) | (totals.episodes == 1)),
        reliable=(effective >= FEW_EFFECTIVE) & (share.max(axis=0) <= LARGE_SHARE),
        still=still,
        unseen=unseen,
    )


def headroom(totals: EpisodeTotals, rate: Floats) -> Floats:
    """How far above its rate a still group's unseen episodes may lie: up to 1 if bounded, else as far as below it."""
    bounded = np.asarray(totals.bounded)[:, None]
    return np.where(bounded, 1 - rate, np.fmax(rate, 1 - rate))


def power_of_two(values: Floats) -> Floats:
    """The power of two next above each value (1 for 0 and NaN): dividing by it changes no digit of a number."""
    return np.ldexp(1.0, np.frexp(np.where(values > 0, values, 0.5))[1])


def as_confidence(confidence: float) -> float:
    """A confidence that makes sense: a probability (not 95), better than a coin, within what simulation supports."""
    need = f"a number from {MIN_CONFIDENCE} to {MAX_CONFIDENCE}, such as 0.95"
    return float(as_number(confidence, "confidence", need, low=MIN_CONFIDENCE, high=MAX_CONFIDENCE))
