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
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.special import stdtrit

from elbert.fairness.episode_totals import Floats

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

_DRAWS, _TAIL, _MOST = 8_000, 50, 400_000
"""Draws: this many, fewer where they would be more numbers than `_MOST` in all, but always enough for at least `_TAIL`
of them to lie beyond the confidence asked for. Halves mirror each other: odd moments are exact."""


class Noise(NamedTuple):
    """Noise of estimates: one standard error per group and draws of all of them together."""

    error: Floats  # [groups]
    normal: Floats  # [draws, groups], for averages; 0 for a still group, which showed no noise
    heavy: Floats  # [draws, groups], with Student's tails, for intervals: the errors themselves are estimated
    freedom: Floats  # [groups] Student's degrees of freedom of the errors
    still: np.ndarray[Any, np.dtype[np.bool_]]  # [groups] the error is a bound on what was not seen

    def seen(self) -> "Noise":
        """The noise that the episodes showed, without the bounds of still groups."""
        return self._replace(heavy=np.where(self.still, 0.0, self.heavy))


class Spread(NamedTuple):
    """What estimates say of the range of the true values behind them."""

    estimate: float  # max - min of the estimates, biased upwards
    debiased: float  # with the upward bias removed; below 0 where noise alone would show more
    low: float
    high: float
    floor: float  # what noise alone shows on average
    floor_high: float  # what noise alone shows at most, with the given confidence


class RangeTest:
    """Estimates z with their noise, asked which ranges of the true values they are compatible with.

    An example with two groups: z = (0.5, 0.3), each with an error of 0.03, independent of each other. Is a range of
    b = 0.1 compatible? The statistic is r = (0.5 - 0.3 - 0.1) / (0.03 + 0.03) = 1.67. The true values that fit best are
    0.5 - 1.67 * 0.03 = 0.45 and 0.3 + 1.67 * 0.03 = 0.35. Around them r varies with a standard deviation of
    0.03 * sqrt(2) / 0.06 = 0.71 and a median of 0, so 95 % of simulated r lie within 1.39 of it. 1.67 does not:
    0.1 is too small. The smallest range that is kept gives r = 1.39, which is 0.2 - 1.39 * 0.06 = 0.117, and the
    largest 0.283: the familiar 0.2 +- 1.96 * 0.03 * sqrt(2). More groups, or a b near 0, bend this; the simulation
    follows.
    """

    def __init__(self, z: Floats, noise: Noise) -> None:
        """Estimates [groups] and their noise, whose errors must be above 0."""
        self.z, self.noise = z, noise

    def spread(self, confidence: float) -> Spread:
        """The range of the true values, with its upward bias removed and an interval.

        A still group showed no noise, so nothing is taken off for it: its error is a bound on what was not seen.
        """
        estimate, seen = float(np.ptp(self.z)), self._seen
        floor = float(np.ptp(seen.noise.normal, axis=1).mean())
        low, high = self.interval(confidence)
        tied = tie(self.z, self.z, self.noise.error, estimate, TIE)
        excess = float(np.ptp(tied + seen.noise.normal, axis=1).mean() - estimate)
        equality = min(1.0, seen.p_exceeds(0.0) / EQUAL)
        debiased = min(estimate - equality * floor - (1.0 - equality) * excess, high)
        return Spread(
            estimate=estimate,
            debiased=max(debiased, low) if low > 0.0 else debiased,
            low=low,
            high=high,
            floor=floor,
            floor_high=float(np.quantile(np.ptp(self.noise.heavy, axis=1), confidence)),
        )

    def p_exceeds(self, limit: float) -> float:
        """The p-value of "the true range is at most the limit": small where the estimates speak against it."""
        simulated = self._simulated(self.z, limit, TIE_TEST)
        return float((1 + np.count_nonzero(simulated >= self._observed(limit))) / (1 + simulated.size))

    def interval(self, confidence: float) -> tuple[float, float]:
        """All spans under which the estimates are not among the most unusual 1 - confidence of simulated ones.

        What was not seen of still groups makes the lower end cautious. It did not scatter the estimates, though: taken
        for noise, it would make many groups that agree look too much alike for any span. So the upper end is found
        with the noise that was seen, and then allows each pair with a still group the difference that the test of a
        limit allows it.
        """

        def too_far_apart(span: float) -> float:
            middle, allowed = _middle(self._simulated(self.z, span, TIE), confidence)
            return self._observed(span) - middle - allowed

        drawn_in = shrink(self.z, self.noise.error)

        def too_close(span: float) -> float:
            middle, allowed = _middle(self._seen._simulated(drawn_in, span, TIE), confidence)
            return middle - self._observed(span) - allowed

        estimate, error = float(np.ptp(self.z)), float(self.noise.error.max())
        far = estimate + 4 * error
        for _ in range(_ROUNDS):
            if too_close(far) > 0:
                break
            far *= 1.5
        low = min(_last_above(too_far_apart, far, _PRECISION * error), estimate)
        high = _last_above(lambda span: -too_close(span), far, _PRECISION * error)
        return low, max(low, high, self._unseen(confidence))

    def _unseen(self, confidence: float) -> float:
        """The largest |z_i - z_j| + t * sqrt(s_i**2 + s_j**2) of pairs with a still group; 0 without one."""
        z, error, freedom = self.z, self.noise.error, self.noise.freedom
        i, j = _pairs(z.size)
        i, j = i[self.noise.still[i]], j[self.noise.still[i]]
        t = stdtrit(np.minimum(freedom[i], freedom[j]), confidence)
        return float((np.abs(z[i] - z[j]) + t * np.hypot(error[i], error[j])).max(initial=0.0))

    def _observed(self, span: float) -> float:
        return float(excess_ratio(self.z[None], self.noise.error, span)[0])

    def _simulated(self, inner: Floats, span: float, within: float) -> Floats:
        """The statistic of simulated estimates whose true range is `span`; the rest as in `tie`.   -> [draws]"""
        error = self.noise.error
        true = tie(self.z, inner, error, span, within)
        if true.size > _FEW:
            return excess_ratio(true + self.noise.heavy, error, span)
        i, j = _pairs(true.size)
        offset = (true[i] - true[j] - span) / (error[i] + error[j])
        return (self._apart + offset[:, None]).max(axis=0)

    @cached_property
    def _seen(self) -> "RangeTest":
        """The same estimates with the noise that the episodes showed."""
        return RangeTest(self.z, self.noise.seen()) if self.noise.still.any() else self

    @cached_property
    def _apart(self) -> Floats:
        """(heavy_i - heavy_j) / (s_i + s_j) of all pairs: found once, used for every span.   [pairs, draws]"""
        error, heavy = self.noise.error, self.noise.heavy
        i, j = _pairs(error.size)
        return ((heavy[:, i] - heavy[:, j]) / (error[i] + error[j])).T.copy()


def draws_for(groups: int, tail: float) -> int:
    """How many draws to take when quantiles with this probability beyond them are asked for."""
    return 2 * int(max(min(_DRAWS, max(1000, _MOST / groups)), _TAIL / tail) / 2)


def draw_noise(directions: Floats, error: Floats, freedom: Floats, *, draws: int, seed: int) -> Noise:
    """An even number of draws of the noise of estimates, with their standard errors and the directions' correlation.

    Directions [episodes, groups] are each episode's deviations, scaled so that each group's have length 1. All 0 marks
    a still group, whose draws are independent normal ones. Fewer degrees of freedom make heavier tails.
    """
    episodes, groups = directions.shape
    rng = np.random.default_rng(seed)
    still = np.asarray((directions == 0).all(axis=0))
    if episodes <= groups:
        half = _standard_normal(rng, draws // 2, episodes) @ directions
    else:
        values, vectors = np.linalg.eigh(directions.T @ directions)
        half = _standard_normal(rng, draws // 2, groups) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    half = np.where(still, _standard_normal(rng, draws // 2, groups), half) * error
    finite = np.broadcast_to(np.where(still, 1.0, freedom), half.shape)
    heavy = half * np.where(still, 1.0, np.sqrt(finite / rng.chisquare(finite)))
    normal = np.where(still, 0.0, half)
    return Noise(
        error=error,
        normal=np.concatenate([normal, -normal]),
        heavy=np.concatenate([heavy, -heavy]),
        freedom=freedom,
        still=still,
    )


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
    total = weight.sum()
    mean = np.average(z, weights=weight)
    excess = (weight * (z - mean) ** 2).sum() - (z.size - 1)
    variance = max(0.0, excess * total / (weight * (total - weight)).sum())  # no difference of nearly equal numbers
    return mean + (z - mean) * np.sqrt(variance / (variance + error**2))


def _pairs(groups: int) -> tuple[Any, Any]:
    """All ordered pairs of different groups."""
    i, j = np.nonzero(~np.eye(groups, dtype=bool))
    return i, j


def _middle(simulated: Floats, confidence: float) -> tuple[float, float]:
    """The median, and how far from it this share of the values lie at most."""
    middle = float(np.median(simulated))
    return middle, float(np.quantile(np.abs(simulated - middle), confidence))


def _last_above(function: Callable[[float], float], end: float, precision: float) -> float:
    """Where a function that starts above 0 at 0 falls below it before `end`; 0 or `end` if it never is or does."""
    from scipy.optimize import brentq  # a third of a second to import, needed only here

    if function(0.0) <= 0:
        return 0.0
    if function(end) >= 0:
        return end
    return cast("float", brentq(function, 0.0, end, xtol=precision, maxiter=1000, disp=False))


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


def _standard_normal(rng: np.random.Generator, draws: int, size: int) -> Floats:
    """Standard normal draws whose mean square is exactly 1 in each column, which steadies quantiles."""
    raw = rng.standard_normal((draws, size))
    return raw / np.sqrt((raw**2).mean(axis=0))
