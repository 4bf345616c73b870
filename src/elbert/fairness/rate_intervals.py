"""Benefit rates over all episodes, how the episodes scatter around them, and their intervals.

The rate of a group is the ratio of its totals over all episodes, z = sum_e S_e / sum_e D_e. Supply and demand of one
episode depend on each other, so the interval is that of a ratio, never that of a share of a fixed number of people.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import ndtri, stdtrit

from elbert.checks import as_number, as_seed, as_whole
from elbert.errors import InvalidInputError
from elbert.fairness.arrays import ArrayLike, as_array
from elbert.fairness.episode_totals import EpisodeTotals, Floats, NotEstimable, count
from elbert.fairness.rates import ratio

Counts: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
IntervalMethod: TypeAlias = Literal["delta", "jackknife", "bootstrap"]
INTERVAL_METHODS: tuple[IntervalMethod, ...] = ("delta", "jackknife", "bootstrap")

MIN_CONFIDENCE, MAX_CONFIDENCE = 0.5, 0.999
DEFAULT_RESAMPLES, MAX_RESAMPLES = 10_000, 1_000_000
FEW_TO_RESAMPLE = 5
"""A bootstrap of a group needs demand in at least this many episodes."""

FEW_EFFECTIVE, LARGE_SHARE = 10.0, 0.25
"""A group is reliable if its demand weighs as much as at least this many equal episodes, and no single episode carries
more than this share of it. Below that, intervals and verdicts err more often than they say (benchmarks/coverage.py)."""

_ROUNDING = 1e-12
_CHUNK = 2**22
"""Resampled episodes held at once: bounds memory, has no effect on the result."""


class Pooled(NamedTuple):
    """Rates over all episodes and how episodes deviate from them; every array is [criteria, groups] but `directions`.

    A *still* group had the same rate in every episode with demand. It shows no spread to measure, so its error is a
    bound on what may not have been seen, and has no degrees of freedom to lose.
    """

    rate: Floats  # sum_e S_e / sum_e D_e, NaN without demand
    directions: Floats  # [episodes, criteria, groups] residuals u_e / sqrt(1 - w_e), scaled to length 1
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


@dataclass(frozen=True)
class RateEstimates:
    """Rates of all groups under all criteria; what is not estimable is NaN here and named in `unknown`."""

    rate: Floats  # [criteria, groups]
    standard_error: Floats  # [criteria, groups]
    low: Floats  # [criteria, groups]
    high: Floats  # [criteria, groups]
    unknown: tuple[NotEstimable, ...]


class MeanEstimate(NamedTuple):
    """A mean over episodes with its interval; None where one episode is not enough."""

    mean: float
    low: float | None
    high: float | None


@lru_cache(maxsize=1)  # the parts of a report, and the tests of limits after it, share one pass over the totals
def pool(totals: EpisodeTotals, *, confidence: float) -> Pooled:
    """z = sum_e S_e / sum_e D_e, its standard error sqrt(sum_e u_e**2 / (1 - w_e)) / E, and n_eff.

    u_e = (S_e - z D_e) / mean(D) are the residuals and w_e = D_e / sum D the shares of the demand. An episode with a
    large share draws the rate towards itself, which makes its residual too small on average; 1 / (1 - w_e) mends that
    (CR2 of Bell and McCaffrey 2002). It is n / (n - 1) where n episodes have equal demand.
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
    share = ratio(demand, total, otherwise=0.0)
    drawn = np.sqrt(np.maximum(1 - share, _ROUNDING))
    residuals = deviation / mean / drawn / power_of_two(rate)  # squares of large or small rates would leave the floats
    squares = (residuals**2).sum(axis=0)
    with_demand, active = (demand > 0).sum(axis=0), ((demand > 0) | (supply > 0)).sum(axis=0)
    still = (with_demand >= 2) & (squares == 0)
    unseen = 1 - (1 - confidence) ** (1 / np.maximum(active, 1))
    error = np.sqrt(squares) / totals.episodes * power_of_two(rate)
    bound = unseen * np.maximum(rate, headroom(totals, rate)) / ndtri(0.5 + confidence / 2)
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


def estimate_rates(
    totals: EpisodeTotals,
    *,
    method: IntervalMethod = "delta",
    confidence: float = 0.95,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
) -> RateEstimates:
    """z_g = sum_e S_g,e / sum_e D_g,e with a confidence interval.   [episodes, criteria, groups] -> [criteria, groups]

    The methods, each from the residuals u_e = (S_e - z D_e) / mean(D) or by resampling whole episodes:

    - "delta": z +- t * sqrt(sum_e u_e**2 / (1 - w_e)) / E, where w_e is the episode's share of the demand. Student's t
      has n_eff - 1 degrees of freedom, with n_eff = (sum_e D_e)**2 / sum_e D_e**2.
    - "jackknife": around the bias-corrected n z - (n - 1) mean(z_-e), with the spread of the leave-one-out rates z_-e
      and the same t.
    - "bootstrap": episodes drawn with replacement, studentised: the quantiles of (z* - z) / se* replace Student's.

    An interval needs demand in at least two episodes, a bootstrap in five. A group whose rate was the same in all n
    episodes shows no spread to measure: a share of up to 1 - (1 - confidence)**(1/n) of episodes could differ without
    any having been seen, and its interval allows for that. Where the notion bounds rates by 1, so are the intervals.
    Arguments as in `benefit_report`.
    """
    confidence = as_confidence(confidence)
    as_seed(seed)
    need = f"a whole number from 100 (quantiles of fewer mean little) to {MAX_RESAMPLES}"
    as_whole(resamples, "resamples", need, low=100, high=MAX_RESAMPLES)
    if method not in INTERVAL_METHODS:
        raise InvalidInputError(f"method is {method!r}. Give one of {', '.join(INTERVAL_METHODS)}.")
    pooled = pool(totals, confidence=confidence)
    if method == "jackknife":
        error, low, high = _jackknife(totals, pooled, confidence)
    elif method == "bootstrap":
        error, low, high = _bootstrap(totals, pooled, confidence, resamples, seed)
    else:
        error, low, high = _around(pooled.rate, pooled.error, pooled.freedom, confidence)
    error = np.where(pooled.still, pooled.error, error)
    low = np.where(pooled.still, pooled.rate * (1 - pooled.unseen), low)
    high = np.where(pooled.still, pooled.rate + pooled.unseen * headroom(totals, pooled.rate), high)
    bound = np.where(np.asarray(totals.bounded), 1.0, np.inf)[:, None]
    low, high = np.clip(low, 0.0, bound), np.clip(high, 0.0, bound)
    estimable = (pooled.with_demand >= 2) & np.isfinite(low) & np.isfinite(high)
    unknown = [*totals.unknown_rates()]
    for c, g in np.argwhere((pooled.with_demand > 0) & ~estimable):
        enough = 2 if method != "bootstrap" else FEW_TO_RESAMPLE
        few = f"demand in {count(int(pooled.with_demand[c, g]), totals.unit)} of {totals.episodes}; {enough} are needed"
        alike = f"{totals.unit}s vary too little, or too much, for the {method} to tell; use the delta method"
        reason = few if pooled.with_demand[c, g] < enough else alike
        unknown.append(NotEstimable(totals.criteria[c], totals.groups[g], "interval", reason))
    error, low, high = (np.where(estimable, values, np.nan) for values in (error, low, high))
    return RateEstimates(rate=pooled.rate, standard_error=error, low=low, high=high, unknown=tuple(unknown))


def mean_interval(values: ArrayLike, *, confidence: float = 0.95) -> MeanEstimate:
    """The mean of independent values +- t * sd / sqrt(n), with Student's t.   [episodes] -> numbers"""
    confidence = as_confidence(confidence)
    array = np.asarray(as_array(values, "values"), dtype=float)
    if array.ndim != 1 or array.size == 0:
        raise InvalidInputError(f"values have shape {array.shape}. Give one number per episode, at least one.")
    if not np.isfinite(array).all():
        raise InvalidInputError(f"{int((~np.isfinite(array)).sum())} of {array.size} values are not finite.")
    mean = float(array.mean())
    if array.size == 1:
        return MeanEstimate(mean, None, None)
    half = float(stdtrit(array.size - 1, 0.5 + confidence / 2) * array.std(ddof=1) / np.sqrt(array.size))
    return MeanEstimate(mean, mean - half, mean + half)


def mean_ratio_interval(above: ArrayLike, below: ArrayLike, *, confidence: float = 0.95) -> MeanEstimate:
    """mean(y) / mean(x) of independent pairs (y, x), with Fieller's interval.   [pairs], [pairs] -> numbers

    The interval holds every r for which Student's t does not refute mean(y - r x) = 0: with v the variances of the
    means, (y - r x)**2 <= t**2 (v_y - 2 r v_xy + r**2 v_x). It has no ends where x could be 0 as well, and is None.
    """
    confidence = as_confidence(confidence)
    y, x = (np.asarray(as_array(values, "values"), dtype=float) for values in (above, below))
    if y.shape != x.shape or y.ndim != 1 or not (np.isfinite(y).all() and np.isfinite(x).all()):
        raise InvalidInputError(f"values have shapes {y.shape} and {x.shape}. Give as many finite numbers as others.")
    mean_y, mean_x = float(y.mean()), float(x.mean())
    ratio = mean_y / mean_x if mean_x else float("nan")
    if y.size == 1:
        return MeanEstimate(ratio, None, None)
    square = float(stdtrit(y.size - 1, 0.5 + confidence / 2)) ** 2
    (v_y, v_xy), (_, v_x) = np.cov(y, x) / y.size
    a, b, c = mean_x**2 - square * v_x, mean_x * mean_y - square * v_xy, mean_y**2 - square * v_y
    if a <= 0:
        return MeanEstimate(ratio, None, None)
    half = float(np.sqrt(max(b**2 - a * c, 0.0)))
    return MeanEstimate(ratio, float((b - half) / a), float((b + half) / a))


def _around(centre: Floats, error: Floats, freedom: Floats, confidence: float) -> tuple[Floats, Floats, Floats]:
    """Centre +- t * error, with Student's t on these degrees of freedom."""
    half = stdtrit(freedom, 0.5 + confidence / 2) * error
    return error, centre - half, centre + half


def _jackknife(totals: EpisodeTotals, pooled: Pooled, confidence: float) -> tuple[Floats, Floats, Floats]:
    n, unit = np.maximum(pooled.active, 2), power_of_two(pooled.rate)
    counted = ((totals.demand > 0) | (totals.supply > 0)) & (pooled.with_demand >= 2)
    supply, demand = (np.maximum(x.sum(axis=0) - x, 0.0) for x in (totals.supply, totals.demand))
    with np.errstate(over="ignore", invalid="ignore"):  # without its largest episode, a group may hardly have demand
        left_out = np.where(counted, ratio(supply, demand, otherwise=0.0), 0.0)
        middle = left_out.sum(axis=0) / n
        squares = np.where(counted, ((left_out - middle) / unit) ** 2, 0.0).sum(axis=0)
        error = np.sqrt((n - 1) / n * squares) * unit
        return _around(n * pooled.rate - (n - 1) * middle, error, pooled.freedom, confidence)


def _bootstrap(
    totals: EpisodeTotals, pooled: Pooled, confidence: float, resamples: int, seed: int
) -> tuple[Floats, Floats, Floats]:
    episodes, shape, unit = totals.episodes, pooled.rate.shape, power_of_two(pooled.rate)
    flat = (pooled.rate / unit).reshape(-1)
    scale = np.where(pooled.with_demand > 0, totals.demand.mean(axis=0), np.inf)
    s, d = (np.reshape(x / scale, (episodes, -1)) for x in (totals.supply / unit, totals.demand))
    moments = np.concatenate([s, d, s * s, s * d, d * d], axis=1)

    def rates_of(weight: Floats) -> tuple[Floats, Floats]:
        """Rates and errors if each episode counts this often; NaN where no episode that counts has demand."""
        sum_s, sum_d, sum_ss, sum_sd, sum_dd = np.split(weight @ moments, 5, axis=1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            rate = sum_s / sum_d
            square = np.maximum(sum_ss - 2 * rate * sum_sd + rate**2 * sum_dd, 0.0)
            return rate, np.sqrt(square * episodes / max(episodes - 1, 1)) / sum_d

    error = rates_of(np.ones((1, episodes)))[1].reshape(shape) * unit
    rng = np.random.default_rng(seed)
    deviation = np.empty((resamples, flat.size))
    chunk = max(1, _CHUNK // episodes)
    for start in range(0, resamples, chunk):
        size = min(chunk, resamples - start)
        drawn = rng.integers(0, episodes, (size, episodes)) + episodes * np.arange(size)[:, None]
        weight = np.bincount(drawn.ravel(), minlength=size * episodes).reshape(size, episodes).astype(float)
        again, spread = rates_of(weight)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            deviation[start : start + size] = np.where(again == flat, 0.0, (again - flat) / spread)
    upper, lower = _quantiles(deviation, [0.5 + confidence / 2, 0.5 - confidence / 2])
    enough = pooled.with_demand >= FEW_TO_RESAMPLE
    with np.errstate(invalid="ignore"):
        low, high = (np.where(enough, pooled.rate - q.reshape(shape) * error, np.nan) for q in (upper, lower))
    return error, low, high


def _quantiles(values: Floats, probabilities: list[float]) -> Floats:
    """Quantiles down the columns; a resample without demand in a column is left out of that column."""
    result = np.full((len(probabilities), values.shape[1]), np.nan)
    with np.errstate(invalid="ignore"):
        for place, column in enumerate(values.T):
            present = column[~np.isnan(column)]
            if present.size > column.size // 2:
                result[:, place] = np.quantile(present, probabilities)
    return result
