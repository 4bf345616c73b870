"""How far apart several noisy numbers truly are: the range of true values behind estimates z_g with known covariance.

The range of estimates is biased upwards: noise alone makes equal groups look different, the more so the more groups
there are. Its distribution near equality is not normal either, so no formula "estimate +- 1.96 errors" holds. This
module removes the upward bias and finds the interval by asking, for each candidate b, whether the estimates are what
one would see if the true range were b.

The question is put to one statistic, which compares each pair of groups on the scale of its own noise, so that one tiny
group does not drown the others:

    r(b) = max over i != j of (z_i - z_j - b) / (s_i + s_j)

Its distribution under b is simulated from the noise's covariance around the true values that fit the estimates best
with range b, with groups tied to the ends of the range where the data do not tell them apart from it. A candidate is
kept where |r - median| does not exceed its 95 % quantile. With many episodes this is exact for two groups and for any
number of equal groups; elsewhere, and with few episodes, the coverage is measured (see docs/statistics.md).
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np

from elbert.fairness.episode_totals import Floats

_DRAWS, _TAIL, _MOST = 8_000, 50, 400_000
"""Simulated estimates per candidate: this many, fewer where they would be more numbers than `_MOST` in all, but always
so many that at least `_TAIL` lie beyond the confidence asked for. Halves mirror each other: odd moments are exact."""

TIE, TIE_TEST = 1.0, 2.0
"""A group within this many standard errors of an end of the range is tied to it in simulations: for the interval, and
for the test that the range exceeds a limit. More ties make simulated ranges larger, which is cautious for the test and
the lower end of the interval, not for its upper end. Chosen by measuring coverage and wrong rejections
(benchmarks/coverage.py)."""

EQUAL = 0.25
"""When the upward bias is removed, equality of all groups is taken as true above this p-value, and less below it."""

_FEW = 8
"""Up to this many groups, comparing all pairs is faster than searching for the extreme one."""

_ROUNDS = 60

_PRECISION = 2e-3
"""Ends of an interval are found to this share of the noise."""


class Spread(NamedTuple):
    """What estimates say of the range of the true values behind them."""

    estimate: float  # max - min of the estimates, biased upwards
    debiased: float  # with the upward bias removed; below 0 where noise alone would show more
    low: float
    high: float
    floor: float  # what noise alone shows on average
    floor_high: float  # what noise alone shows at most, with the given confidence


class Noise(NamedTuple):
    """Noise of the estimates: one standard error per group and draws of all of them together."""

    error: Floats  # [groups]
    normal: Floats  # [draws, groups], for averages
    heavy: Floats  # [draws, groups], with Student's tails, for intervals: the errors themselves are estimated
    apart: Floats | None  # [pairs, draws] (heavy_i - heavy_j) / (s_i + s_j) over i != j, where the groups are few


def draws_for(groups: int, tail: float) -> int:
    """How many estimates of so many groups to simulate when quantiles with this probability beyond them are asked."""
    return 2 * int(max(min(_DRAWS, max(1000, _MOST / groups)), _TAIL / tail) / 2)


def noise_of(residuals: Floats, error: Floats, counts: Any, *, draws: int, seed: int) -> Noise:
    """Draws of the noise of means whose deviations per episode are given.   [episodes, groups] -> [draws, groups]

    Args:
        residuals: each episode's deviation; they add up to 0 for every group.
        error: standard errors, [groups]. Where residuals are all 0 (a still group), its draws are independent with
            this error; elsewhere they have the residuals' correlation and this error.
        counts: how many episodes stand behind each error, [groups]; fewer make heavier tails.
        draws: how many, an even number.
        seed: of the draws.
    """
    episodes, groups = residuals.shape
    rng = np.random.default_rng(seed)
    size = np.sqrt((residuals**2).sum(axis=0))
    still = size == 0
    unit = residuals / np.where(still, 1.0, size)
    if episodes <= groups:
        half = _standard_normal(rng, draws // 2, episodes) @ unit
    else:
        values, vectors = np.linalg.eigh(unit.T @ unit)
        half = _standard_normal(rng, draws // 2, groups) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    half = np.where(still, _standard_normal(rng, draws // 2, groups), half) * error
    freedom = np.maximum(counts - 1, 1)
    tails = np.sqrt(freedom / rng.chisquare(np.broadcast_to(freedom, half.shape)))
    heavy = half * np.where(still, 1.0, tails)
    return make_noise(error, np.concatenate([half, -half]), np.concatenate([heavy, -heavy]))


def make_noise(error: Floats, normal: Floats, heavy: Floats) -> Noise:
    """Noise from its draws; with few groups the differences of all pairs are found once, to be used many times."""
    if error.size > _FEW:
        return Noise(error, normal, heavy, None)
    i, j = _pairs(error.size)
    return Noise(error, normal, heavy, ((heavy[:, i] - heavy[:, j]) / (error[i] + error[j])).T.copy())


def estimate_spread(z: Floats, noise: Noise, *, confidence: float) -> Spread:
    """The range of the true values behind z, with its upward bias removed and an interval.   [groups] -> numbers"""
    estimate = float(np.ptp(z))
    floor = float(np.ptp(noise.normal, axis=1).mean())
    floor_high = float(np.quantile(np.ptp(noise.heavy, axis=1), confidence))
    low, high = _interval(z, noise, confidence)
    tied = tie(z, z, noise.error, estimate, TIE)
    excess = float(np.ptp(tied + noise.normal, axis=1).mean() - estimate)
    equality = min(1.0, exceeds(z, noise, 0.0) / EQUAL)
    debiased = estimate - equality * floor - (1.0 - equality) * excess
    return Spread(estimate, max(debiased, low) if low > 0.0 else debiased, low, high, floor, floor_high)


def exceeds(z: Floats, noise: Noise, limit: float) -> float:
    """The p-value of "the true range is at most the limit": small where the estimates speak against it."""
    observed, simulated = _compare(z, z, noise, limit, TIE_TEST)
    return float((1 + np.count_nonzero(simulated >= observed)) / (1 + simulated.size))


def excess_ratio(z: Floats, error: Floats, limit: float) -> Floats:
    """r = max over i != j of (z_i - z_j - limit) / (s_i + s_j), row by row.   [rows, groups] -> [rows]"""
    if z.shape[1] > _FEW:
        return _extreme_pair(z, error, limit)[0]
    i, j = _pairs(error.size)
    return ((z[:, i] - z[:, j] - limit) / (error[i] + error[j])).max(axis=1)


def tie(z: Floats, inner: Floats, error: Floats, span: float, within: float) -> Floats:
    """True values with range `span` that fit the estimates, near ties made exact.   [groups] -> [groups]

    The pair of groups that reaches the span most easily is put at its ends. The others are put where `inner` says,
    moved to an end where they lie beyond it or `within` this many standard errors of it.
    """
    (r,), (top,), (bottom,) = _extreme_pair(z[None], error, span)
    high, low = z[top] - r * error[top], z[bottom] + r * error[bottom]
    below, above = high - inner, inner - low
    to_top = (below < within * error) & (below <= above)
    to_bottom = (above < within * error) & ~to_top
    tied = np.where(to_top, high, np.where(to_bottom, low, np.clip(inner, low, high)))
    tied[top], tied[bottom] = high, low
    return tied


def shrink(z: Floats, error: Floats) -> Floats:
    """Estimates drawn towards their mean until they scatter as the true values do.   [groups] -> [groups]

    z_g -> m + (z_g - m) sqrt(tau^2 / (tau^2 + s_g^2)), with the variance tau^2 of the true values by DerSimonian and
    Laird. Many noisy estimates scatter more than what they estimate; simulating around them as they are would add noise
    to noise.
    """
    weight = 1 / error**2
    mean = np.average(z, weights=weight)
    excess = (weight * (z - mean) ** 2).sum() - (z.size - 1)
    variance = max(0.0, excess / (weight.sum() - (weight**2).sum() / weight.sum()))
    return mean + (z - mean) * np.sqrt(variance / (variance + error**2))


def _pairs(groups: int) -> tuple[Any, Any]:
    """All ordered pairs of different groups."""
    i, j = np.nonzero(~np.eye(groups, dtype=bool))
    return i, j


def _standard_normal(rng: np.random.Generator, draws: int, size: int) -> Floats:
    """Standard normal draws whose mean square is exactly 1 in each column, which steadies quantiles."""
    raw = rng.standard_normal((draws, size))
    return raw / np.sqrt((raw**2).mean(axis=0))


def _extreme_pair(z: Floats, error: Floats, limit: float) -> tuple[Floats, Any, Any]:
    """The largest (z_i - z_j - limit) / (s_i + s_j) over i != j, with i and j, by Dinkelbach's iteration.

    For a guess r, the pair that maximises (z_i - r s_i) - (z_j + r s_j) is found in one pass over the groups; its ratio
    is the next guess. The guesses rise to the maximum in a few rounds; the last ones differ by rounding only.
    """
    rows = np.arange(z.shape[0])
    r = np.zeros(z.shape[0])
    top = bottom = np.zeros(z.shape[0], dtype=int)
    for _ in range(_ROUNDS):
        upper, lower = z - r[:, None] * error, z + r[:, None] * error
        top, bottom = upper.argmax(axis=1), lower.argmin(axis=1)
        same = np.flatnonzero(top == bottom)
        if same.size:
            top[same], bottom[same] = _distinct_pair(upper[same], lower[same], top[same])
        following = (z[rows, top] - z[rows, bottom] - limit) / (error[top] + error[bottom])
        settled = np.all(np.abs(following - r) <= 1e-9 * (1 + np.abs(r)))
        r = following
        if settled:
            break
    return r, top, bottom


def _distinct_pair(upper: Floats, lower: Floats, both: Any) -> tuple[Any, Any]:
    """The best pair of different groups in rows where one group is both the highest and the lowest."""
    rows = np.arange(upper.shape[0])
    others_up, others_low = upper.copy(), lower.copy()
    others_up[rows, both], others_low[rows, both] = -np.inf, np.inf
    second_top, second_bottom = others_up.argmax(axis=1), others_low.argmin(axis=1)
    keep_top = upper[rows, both] - others_low[rows, second_bottom]
    keep_bottom = others_up[rows, second_top] - lower[rows, both]
    chosen = keep_top >= keep_bottom
    return np.where(chosen, both, second_top), np.where(chosen, second_bottom, both)


def _compare(z: Floats, inner: Floats, noise: Noise, span: float, within: float) -> tuple[float, Floats]:
    """The statistic of the estimates, and of simulated estimates whose true range is `span`."""
    observed = float(excess_ratio(z[None], noise.error, span)[0])
    true = tie(z, inner, noise.error, span, within)
    if noise.apart is None:
        return observed, excess_ratio(true + noise.heavy, noise.error, span)
    i, j = _pairs(true.size)
    offset = (true[i] - true[j] - span) / (noise.error[i] + noise.error[j])
    return observed, (noise.apart + offset[:, None]).max(axis=0)


def _interval(z: Floats, noise: Noise, confidence: float) -> tuple[float, float]:
    """All spans under which the estimates are not among the most unusual 1 - confidence of simulated ones."""

    @cache  # the search asks again for the ends of its bracket
    def surprise(span: float, side: int) -> float:
        """Positive where the estimates lie too far on this side of what the span would give."""
        observed, simulated = _compare(z, z if side > 0 else drawn_in, noise, span, TIE)
        middle = np.median(simulated)
        allowed = np.quantile(np.abs(simulated - middle), confidence)
        return float(side * (observed - middle) - allowed)

    drawn_in = shrink(z, noise.error)
    scale = float(noise.error.max())
    reach = float(np.ptp(z)) + 4 * scale
    for _ in range(_ROUNDS):
        if surprise(reach, -1) > 0:
            break
        reach *= 1.5
    low = 0.0 if surprise(0.0, +1) <= 0 else _root(lambda span: surprise(span, +1), 0.0, reach, scale)
    high = 0.0 if surprise(0.0, -1) >= 0 else _root(lambda span: surprise(span, -1), 0.0, reach, scale)
    low = min(low, float(np.ptp(z)))
    return low, max(low, high)


def _root(function: Callable[[float], float], start: float, end: float, scale: float) -> float:
    from scipy.optimize import brentq  # a third of a second to import, needed only here

    return cast("float", brentq(function, start, end, xtol=_PRECISION * scale))
