"""Benefit rates from episodes, with intervals.

The rate of a group is the ratio of its totals over all episodes, z = sum_e S_e / sum_e D_e. Supply and demand of one
episode depend on each other, so the interval is that of a ratio, never that of a share of a fixed number of people.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import stdtrit

from elbert.checks import as_seed, as_whole
from elbert.errors import InvalidInputError
from elbert.fairness.arrays import ArrayLike, as_array
from elbert.fairness.episode_totals import EpisodeTotals, Floats, NotEstimable, count
from elbert.fairness.pooled_rates import Pooled, as_confidence, headroom, pool, power_of_two
from elbert.fairness.rates import ratio

IntervalMethod: TypeAlias = Literal["delta", "jackknife", "bootstrap"]
INTERVAL_METHODS: tuple[IntervalMethod, ...] = ("delta", "jackknife", "bootstrap")

DEFAULT_RESAMPLES = 10_000
MAX_RESAMPLES = 1_000_000
FEW_TO_RESAMPLE = 5
"""A bootstrap of a group needs demand in at least this many episodes."""

_CHUNK = 2**22
"""Resampled episodes held at once: bounds memory, has no effect on the result."""


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
    pooled: Pooled | None = None,
) -> RateEstimates:
    """z_g = sum_e S_g,e / sum_e D_g,e with a confidence interval.   [episodes, criteria, groups] -> [criteria, groups]

    The methods, each from the residuals u_e = (S_e - z D_e) / mean(D) or by resampling whole episodes:

    - "delta": z +- t * sqrt(sum_e u_e**2 * n / (n - 1)) / E, where n of the E episodes have supply or demand of the
      group. Student's t has n_eff - 1 degrees of freedom, with n_eff = (sum_e D_e)**2 / sum_e D_e**2.
    - "jackknife": around the bias-corrected n z - (n - 1) mean(z_-e), with the spread of the leave-one-out rates z_-e
      and the same t.
    - "bootstrap": episodes drawn with replacement, studentised: the quantiles of (z* - z) / se* replace Student's.

    An interval needs demand in at least two episodes, a bootstrap in five. A group whose rate was the same in all n
    episodes shows no spread to measure: a share of up to 1 - (1 - confidence)**(1/n) of episodes could differ without
    any having been seen, and its interval allows for that. Where the notion bounds rates by 1, so are the intervals.

    Args:
        totals: supply and demand per episode.
        method: "delta", "jackknife" or "bootstrap".
        confidence: of each interval, from 0.5 to 0.999.
        resamples: draws of the bootstrap.
        seed: seed of the bootstrap.
        pooled: `pool(totals, confidence=confidence)`, if you have it already.
    """
    confidence = as_confidence(confidence)
    as_seed(seed)
    need = f"a whole number from 100 (quantiles of fewer mean little) to {MAX_RESAMPLES}"
    as_whole(resamples, "resamples", need, low=100, high=MAX_RESAMPLES)
    if method not in INTERVAL_METHODS:
        raise InvalidInputError(f"method is {method!r}. Give one of {', '.join(INTERVAL_METHODS)}.")
    pooled = pool(totals, confidence=confidence) if pooled is None else pooled
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
        few = f"demand in {count(int(pooled.with_demand[c, g]), 'episode')} of {totals.episodes}; {enough} are needed"
        alike = f"episodes vary too little, or too much, for the {method} to tell; use the delta method"
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
    rng = np.random.default_rng(seed)
    deviation = np.empty((resamples, flat.size))
    chunk = max(1, _CHUNK // episodes)
    for start in range(0, resamples, chunk):
        size = min(chunk, resamples - start)
        drawn = rng.integers(0, episodes, (size, episodes)) + episodes * np.arange(size)[:, None]
        weight = np.bincount(drawn.ravel(), minlength=size * episodes).reshape(size, episodes).astype(float)
        sum_s, sum_d, sum_ss, sum_sd, sum_dd = np.split(weight @ moments, 5, axis=1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            again = sum_s / sum_d  # NaN where no drawn episode has demand
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
