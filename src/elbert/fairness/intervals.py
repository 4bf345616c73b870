"""Benefit rates from episodes, with intervals.

The rate of a group is the ratio of its totals over all episodes, z = sum_e S_e / sum_e D_e. Supply and demand of one
episode depend on each other, so the interval is that of a ratio, never that of a share of a fixed number of people.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import stdtrit

from elbert.errors import InvalidInputError
from elbert.fairness.arrays import ArrayLike, as_array
from elbert.fairness.episodes import EpisodeTotals, Floats, NotEstimable, count

IntervalMethod: TypeAlias = Literal["delta", "jackknife", "bootstrap"]
INTERVAL_METHODS: tuple[IntervalMethod, ...] = ("delta", "jackknife", "bootstrap")

DEFAULT_RESAMPLES = 10_000
_CHUNK = 2**22
"""Resampled episodes held at once: bounds memory, has no effect on the result."""


@dataclass(frozen=True)
class RateEstimates:
    """Rates of all groups under all criteria; what is not estimable is NaN here and named in `unknown`."""

    rate: Floats  # [criteria, groups]
    standard_error: Floats  # [criteria, groups]
    low: Floats  # [criteria, groups]
    high: Floats  # [criteria, groups]
    compared: np.ndarray[Any, np.dtype[np.bool_]]  # [criteria, groups] groups with enough data to be compared
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

    - "delta": z +- t * sd(u) / sqrt(E), with Student's t on E - 1 degrees of freedom.
    - "jackknife": around the bias-corrected E z - (E - 1) mean(z_-e), with the spread of the leave-one-out rates z_-e.
    - "bootstrap": episodes drawn with replacement, studentised: the quantiles of (z* - z) / se* replace Student's.

    An interval needs demand in at least two episodes. Where the notion bounds rates by 1, so are the intervals.
    """
    check_confidence(confidence)
    if method not in INTERVAL_METHODS:
        raise InvalidInputError(f"method is {method!r}. Give one of {', '.join(INTERVAL_METHODS)}.")
    supply, demand = totals.supply, totals.demand
    total_demand = demand.sum(axis=0)
    known = total_demand > 0
    rate = np.divide(supply.sum(axis=0), total_demand, out=np.full(known.shape, np.nan), where=known)
    with_demand = (demand > 0).sum(axis=0)
    spread_known = known & (with_demand >= 2)
    if method == "delta":
        error, low, high = _delta(supply, demand, rate, confidence)
    elif method == "jackknife":
        error, low, high = _jackknife(supply, demand, rate, spread_known, confidence)
    else:
        error, low, high = _bootstrap(supply, demand, rate, confidence, resamples, seed)
    bound = np.where(np.asarray(totals.bounded), 1.0, np.inf)[:, None]
    low, high = np.clip(low, 0.0, bound), np.clip(high, 0.0, bound)
    spread_known &= np.isfinite(low) & np.isfinite(high)
    for values in (error, low, high):
        values[~spread_known] = np.nan
    unknown = [*totals.unknown_rates()]
    for c, g in np.argwhere(known & ~spread_known):
        reason = (
            f"demand in {count(int(with_demand[c, g]), 'episode')} of {totals.episodes}; at least 2 are needed"
            if with_demand[c, g] < 2
            else f"demand in only {with_demand[c, g]} of {totals.episodes} episodes, too few to resample"
        )
        unknown.append(NotEstimable(totals.criteria[c], totals.groups[g], "interval", reason))
    compared = known & ((with_demand >= 2) | (totals.episodes == 1))
    return RateEstimates(rate, error, low, high, compared, tuple(unknown))


def rate_residuals(supply: Floats, demand: Floats, rate: Floats) -> Floats:
    """u_e = (S_e - z D_e) / mean(D): each episode's share in the error of the rate.   [episodes, ...] -> same"""
    mean = demand.mean(axis=0)
    return (supply - rate * demand) / np.where(mean > 0, mean, 1.0)


def mean_interval(values: ArrayLike, *, confidence: float = 0.95) -> MeanEstimate:
    """The mean of independent values +- t * sd / sqrt(n), with Student's t.   [episodes] -> numbers"""
    check_confidence(confidence)
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


def check_confidence(confidence: float) -> None:
    """Refuse a confidence that is not a probability strictly between 0 and 1, such as 95."""
    if not 0 < confidence < 1:
        raise InvalidInputError(f"confidence is {confidence}. Give a number between 0 and 1, such as 0.95.")


def _delta(supply: Floats, demand: Floats, rate: Floats, confidence: float) -> tuple[Floats, Floats, Floats]:
    episodes = supply.shape[0]
    if episodes < 2:
        return _nothing(rate)
    error = rate_residuals(supply, demand, rate).std(axis=0, ddof=1) / np.sqrt(episodes)
    half = stdtrit(episodes - 1, 0.5 + confidence / 2) * error
    return error, rate - half, rate + half


def _jackknife(
    supply: Floats, demand: Floats, rate: Floats, estimable: np.ndarray[Any, Any], confidence: float
) -> tuple[Floats, Floats, Floats]:
    episodes = supply.shape[0]
    if episodes < 2:
        return _nothing(rate)
    rest = demand.sum(axis=0) - demand
    left_out = np.divide(supply.sum(axis=0) - supply, rest, out=np.full(rest.shape, np.nan), where=estimable)
    centre = episodes * rate - (episodes - 1) * left_out.mean(axis=0)
    error = np.sqrt((episodes - 1) * left_out.var(axis=0))
    half = stdtrit(episodes - 1, 0.5 + confidence / 2) * error
    return error, centre - half, centre + half


def _bootstrap(
    supply: Floats, demand: Floats, rate: Floats, confidence: float, resamples: int, seed: int
) -> tuple[Floats, Floats, Floats]:
    episodes = supply.shape[0]
    if resamples < 100:
        raise InvalidInputError(f"resamples is {resamples}. Give at least 100; quantiles of fewer mean little.")
    if episodes < 2:
        return _nothing(rate)
    error, _, _ = _delta(supply, demand, rate, confidence)
    shape, flat = rate.shape, rate.reshape(-1)
    s, d = supply.reshape(episodes, -1), demand.reshape(episodes, -1)
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
            spread = np.sqrt(square * episodes / (episodes - 1)) / sum_d
            studentised = (again - flat) / spread
        deviation[start : start + size] = np.where(again == flat, 0.0, studentised)
    upper, lower = _quantiles(deviation, [0.5 + confidence / 2, 0.5 - confidence / 2])
    with np.errstate(invalid="ignore"):
        low, high = rate - upper.reshape(shape) * error, rate - lower.reshape(shape) * error
    still = error == 0  # no variation: 0 times an undefined quantile is the rate itself
    return error, np.where(still, rate, low), np.where(still, rate, high)


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


def _nothing(rate: Floats) -> tuple[Floats, Floats, Floats]:
    return np.full(rate.shape, np.nan), np.full(rate.shape, np.nan), np.full(rate.shape, np.nan)
