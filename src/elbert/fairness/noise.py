"""Noise of several estimates together, drawn from how the episodes scatter."""

from typing import Any, NamedTuple

import numpy as np

from elbert.fairness.episode_totals import Floats

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


def draws_for(groups: int, tail: float) -> int:
    """How many draws to take when quantiles with this probability beyond them are asked for."""
    return 2 * int(max(min(_DRAWS, max(1000, _MOST / groups)), _TAIL / tail) / 2)


def draw_noise(directions: Floats, error: Floats, freedom: Floats, *, draws: int, seed: int) -> Noise:
    """Draws of the noise of estimates whose deviations per episode are known.   [episodes, groups] -> [draws, groups]

    Args:
        directions: each episode's deviation, scaled so that each group's have length 1. All 0 marks a still group: its
            draws are independent normal ones with the error given.
        error: standard errors, [groups]. Draws have these and the directions' correlation.
        freedom: Student's degrees of freedom of each error, [groups]; fewer make heavier tails.
        draws: how many, an even number.
        seed: seed of the draws.
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


def _standard_normal(rng: np.random.Generator, draws: int, size: int) -> Floats:
    """Standard normal draws whose mean square is exactly 1 in each column, which steadies quantiles."""
    raw = rng.standard_normal((draws, size))
    return raw / np.sqrt((raw**2).mean(axis=0))
