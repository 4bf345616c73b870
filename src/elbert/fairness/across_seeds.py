"""Summaries across training seeds, where the unit is a whole training run."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from elbert.checks import as_whole
from elbert.errors import InvalidInputError
from elbert.fairness.arrays import ArrayLike, as_array
from elbert.fairness.rate_intervals import DEFAULT_RESAMPLES, check_statistics


@dataclass(frozen=True)
class SeedSummary:
    """The interquartile mean over seeds (and tasks) with its interval; no interval from one seed."""

    interquartile_mean: float
    low: float | None
    high: float | None
    seeds: int
    tasks: int


def interquartile_mean(scores: ArrayLike) -> float:
    """IQM = mean of the sorted scores x_(k+1) .. x_(n-k) with k = floor(n / 4): the middle half.

    Less swayed by one lucky or failed run than the mean, less noisy than the median (Agarwal et al., NeurIPS 2021).
    With fewer than four scores nothing is cut off and it is the mean.
    """
    from scipy.stats import trim_mean

    return float(trim_mean(_scores(scores).reshape(-1), 0.25))


def summarise_seeds(
    scores: ArrayLike, *, confidence: float = 0.95, resamples: int = DEFAULT_RESAMPLES, seed: int = 0
) -> SeedSummary:
    """IQM over [seeds] or [seeds, tasks]; interval = quantiles of the IQM over a stratified bootstrap.

    Seeds are drawn with replacement within each task, so that every task keeps its weight; the interval holds the
    middle `confidence` of the interquartile means so found. With three seeds it is a rough guide: it cannot reach
    beyond the scores it was given.
    """
    from scipy.stats import bootstrap, trim_mean

    check_statistics(confidence, seed)
    as_whole(resamples, "resamples", "a whole number of at least 100; quantiles of fewer mean little", low=100)
    array = _scores(scores)
    array = array[:, None] if array.ndim == 1 else array
    seeds, tasks = array.shape
    middle = interquartile_mean(array)
    if seeds == 1:
        return SeedSummary(middle, None, None, seeds, tasks)

    def statistic(*samples: Any, axis: int) -> Any:
        return trim_mean(np.concatenate(samples, axis=axis), 0.25, axis=axis)

    interval = bootstrap(
        tuple(array.T),
        statistic,
        n_resamples=resamples,
        batch=max(1, 2**22 // array.size),
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return SeedSummary(middle, float(interval.low), float(interval.high), seeds, tasks)


def _scores(scores: ArrayLike) -> Any:
    array = np.asarray(as_array(scores, "scores"), dtype=float)
    if array.ndim not in (1, 2) or array.size == 0:
        raise InvalidInputError(
            f"scores have shape {array.shape}. Give [seeds] or [seeds, tasks], at least one of each."
        )
    if not np.isfinite(array).all():
        raise InvalidInputError(
            f"{int((~np.isfinite(array)).sum())} of {array.size} scores are not finite. A failed run is a result too: "
            "say how it is to count."
        )
    return array
