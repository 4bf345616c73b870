"""Benefit rates from episodes, with intervals.

The rate of a group is the ratio of its totals over all episodes, z = sum_e S_e / sum_e D_e. Supply and demand of one
episode depend on each other, so the interval is that of a ratio, never that of a share of a fixed number of people.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import ndtri, stdtrit

from elbert.checks import as_number, as_whole
from elbert.errors import InvalidInputError
from elbert.fairness.arrays import ArrayLike, as_array
from elbert.fairness.episode_totals import EpisodeTotals, Floats, NotEstimable, count

IntervalMethod: TypeAlias = Literal["delta", "jackknife", "bootstrap"]
INTERVAL_METHODS: tuple[IntervalMethod, ...] = ("delta", "jackknife", "bootstrap")

DEFAULT_RESAMPLES = 10_000
MAX_CONFIDENCE = 0.999
FEW_TO_RESAMPLE = 5
"""A bootstrap of a group needs demand in at least this many episodes."""

_ROUNDING = 1e-12
_CHUNK = 2**22
"""Resampled episodes held at once: bounds memory, has no effect on the result."""


Counts: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


class Pooled(NamedTuple):
    """Rates over all episodes and how each episode deviates from them."""

    rate: Floats  # [criteria, groups], NaN without demand
    residuals: Floats  # [episodes, criteria, groups] u_e = (S_e - z D_e) / mean(D)
    error: Floats  # [criteria, groups] standard error; for a still group an upper bound in its place
    with_demand: Counts  # [criteria, groups] episodes with demand
    active: Counts  # [criteria, groups] episodes with supply or demand: those that say something of the group
    compared: Mask  # [criteria, groups] enough data to be compared
    still: Mask  # [criteria, groups] the same rate in every episode with demand, two or more
    unseen: Floats  # [criteria, groups] share of episodes that may differ without any of them having been seen


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

    - "delta": z +- t * sqrt(sum_e u_e**2 * n / (n - 1)) / E, with Student's t on n - 1 degrees of freedom, where n of
      the E episodes have supply or demand of the group.
    - "jackknife": around the bias-corrected n z - (n - 1) mean(z_-e), with the spread of the leave-one-out rates z_-e.
    - "bootstrap": episodes drawn with replacement, studentised: the quantiles of (z* - z) / se* replace Student's.

    An interval needs demand in at least two episodes, a bootstrap in five. A group whose rate was the same in all n
    episodes shows no spread to measure: a share of up to 1 - (1 - confidence)**(1/n) of episodes could differ without
    any having been seen, and its interval allows for that. Where the notion bounds rates by 1, so are the intervals.
    """
    check_statistics(confidence, seed)
    as_whole(resamples, "resamples", "a whole number of at least 100; quantiles of fewer mean little", low=100)
    if method not in INTERVAL_METHODS:
        raise InvalidInputError(f"method is {method!r}. Give one of {', '.join(INTERVAL_METHODS)}.")
    pooled = pool(totals, confidence=confidence)
    estimable = pooled.with_demand >= 2
    if method == "jackknife":
        error, low, high = _jackknife(totals, pooled, confidence)
    elif method == "bootstrap":
        error, low, high = _bootstrap(totals, pooled, confidence, resamples, seed)
    else:
        error, low, high = _around(pooled.rate, pooled.error, pooled.active, confidence)
    error = np.where(pooled.still, pooled.error, error)
    low = np.where(pooled.still, pooled.rate * (1 - pooled.unseen), low)
    high = np.where(pooled.still, pooled.rate + pooled.unseen * _headroom(totals, pooled.rate), high)
    bound = np.where(np.asarray(totals.bounded), 1.0, np.inf)[:, None]
    low, high = np.clip(low, 0.0, bound), np.clip(high, 0.0, bound)
    known = estimable & np.isfinite(low) & np.isfinite(high)
    unknown = [*totals.unknown_rates()]
    for c, g in np.argwhere((pooled.with_demand > 0) & ~known):
        enough = 2 if method != "bootstrap" else FEW_TO_RESAMPLE
        few = f"demand in {count(int(pooled.with_demand[c, g]), 'episode')} of {totals.episodes}; {enough} are needed"
        alike = "resampled episodes vary too little to tell; use the delta method"
        reason = few if pooled.with_demand[c, g] < enough else alike
        unknown.append(NotEstimable(totals.criteria[c], totals.groups[g], "interval", reason))
    error, low, high = (np.where(known, values, np.nan) for values in (error, low, high))
    return RateEstimates(pooled.rate, error, low, high, tuple(unknown))


def pool(totals: EpisodeTotals, *, confidence: float) -> Pooled:
    """z = sum_e S_e / sum_e D_e, the residuals u_e = (S_e - z D_e) / mean(D) and the standard error they give."""
    supply, demand = totals.supply, totals.demand
    total = demand.sum(axis=0)
    known = total > 0
    rate = np.divide(supply.sum(axis=0), total, out=np.full(known.shape, np.nan), where=known)
    expected = np.where(known, rate, 0.0) * demand
    rounding = np.abs(supply - expected) <= _ROUNDING * (supply + expected)
    mean = np.where(known, total / totals.episodes, 1.0)
    residuals = np.where(rounding, 0.0, supply - expected) / mean
    with_demand, n = (demand > 0).sum(axis=0), ((demand > 0) | (supply > 0)).sum(axis=0)
    few = np.maximum(n, 2)
    error = np.sqrt((residuals**2).sum(axis=0) * few / (few - 1)) / totals.episodes
    still = (with_demand >= 2) & ~(residuals != 0).any(axis=0)
    unseen = 1 - (1 - confidence) ** (1 / np.maximum(n, 1))
    reach = np.maximum(rate, _headroom(totals, rate))
    error = np.where(still, unseen * reach / ndtri(0.5 + confidence / 2), error)
    compared = known & ((with_demand >= 2) | (totals.episodes == 1))
    return Pooled(rate, residuals, error, with_demand, n, compared, still, unseen)


def _headroom(totals: EpisodeTotals, rate: Floats) -> Floats:
    """How far above its rate a still group's unseen episodes may lie: up to 1 if bounded, else as far as below it."""
    bounded = np.asarray(totals.bounded)[:, None]
    return np.where(bounded, 1 - rate, np.fmax(rate, 1 - rate))


def mean_interval(values: ArrayLike, *, confidence: float = 0.95) -> MeanEstimate:
    """The mean of independent values +- t * sd / sqrt(n), with Student's t.   [episodes] -> numbers"""
    check_statistics(confidence, 0)
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


def check_statistics(confidence: float, seed: int) -> None:
    """Refuse a confidence that is not a probability (such as 95) or beyond what simulation supports, and odd seeds."""
    need = f"a number above 0 and at most {MAX_CONFIDENCE}, such as 0.95"
    as_number(confidence, "confidence", need, low=np.nextafter(0, 1), high=MAX_CONFIDENCE)
    as_whole(seed, "seed", "a whole number of at least 0", low=0)


def _around(centre: Floats, error: Floats, n: Any, confidence: float) -> tuple[Floats, Floats, Floats]:
    """Centre +- t * error, with Student's t on n - 1 degrees of freedom."""
    half = stdtrit(np.maximum(n - 1, 1), 0.5 + confidence / 2) * error
    return error, centre - half, centre + half


def _jackknife(totals: EpisodeTotals, pooled: Pooled, confidence: float) -> tuple[Floats, Floats, Floats]:
    n = np.maximum(pooled.active, 2)
    some = ((totals.demand > 0) | (totals.supply > 0)) & (pooled.with_demand >= 2)
    rest = totals.demand.sum(axis=0) - totals.demand
    left_out = np.divide(totals.supply.sum(axis=0) - totals.supply, rest, out=np.zeros(rest.shape), where=some)
    middle = left_out.sum(axis=0) / n
    error = np.sqrt((n - 1) / n * np.where(some, (left_out - middle) ** 2, 0.0).sum(axis=0))
    return _around(n * pooled.rate - (n - 1) * middle, error, n, confidence)


def _bootstrap(
    totals: EpisodeTotals, pooled: Pooled, confidence: float, resamples: int, seed: int
) -> tuple[Floats, Floats, Floats]:
    episodes, shape, flat = totals.episodes, pooled.rate.shape, pooled.rate.reshape(-1)
    scale = np.where(pooled.with_demand > 0, totals.demand.mean(axis=0), 1.0)
    s, d = (np.reshape(x / scale, (episodes, -1)) for x in (totals.supply, totals.demand))
    moments = np.concatenate([s, d, s * s, s * d, d * d], axis=1)
    rng = np.random.default_rng(seed)
    deviation = np.empty((resamples, flat.size))
    chunk = max(1, _CHUNK // episodes)
    for start in range(0, resamples, chunk):
        size = min(chunk, resamples - start)
        drawn = rng.integers(0, episodes, (size, episodes)) + episodes * np.arange(size)[:, None]
        weight = np.bincount(drawn.ravel(), minlength=size * episodes).reshape(size, episodes).astype(float)
        sum_s, sum_d, sum_ss, sum_sd, sum_dd = np.split(weight @ moments, 5, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            again = sum_s / sum_d
            square = np.maximum(sum_ss - 2 * again * sum_sd + again**2 * sum_dd, 0.0)
            spread = np.sqrt(square * episodes / max(episodes - 1, 1)) / sum_d
            studentised = (again - flat) / spread
        deviation[start : start + size] = np.where(again == flat, 0.0, studentised)
    upper, lower = _quantiles(deviation, [0.5 + confidence / 2, 0.5 - confidence / 2])
    enough = pooled.with_demand >= FEW_TO_RESAMPLE
    with np.errstate(invalid="ignore"):
        low, high = (np.where(enough, pooled.rate - q.reshape(shape) * pooled.error, np.nan) for q in (upper, lower))
    return pooled.error, low, high


def _quantiles(values: Floats, probabilities: list[float]) -> Floats:
    """Quantiles down the columns; a resample without demand in a column is left out of that column."""
    missing = np.isnan(values).any(axis=0)
    result = np.full((len(probabilities), values.shape[1]), np.nan)
    with np.errstate(invalid="ignore"):
        result[:, ~missing] = np.quantile(values[:, ~missing], probabilities, axis=0)
        for column in np.flatnonzero(missing):
            present = values[~np.isnan(values[:, column]), column]
            if present.size > values.shape[0] // 2:
                result[:, column] = np.quantile(present, probabilities)
    return result
