"""Rates over the latest rollouts, older ones fading, and how noisy they are."""

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from elbert.fairness.rates import ratio
from elbert.learning.estimates import Window

FEWEST_ROLLOUTS = 1.5
"""Effective rollouts below which nothing is known about the noise: one alone does not differ from itself."""


class Square(NamedTuple):
    """The squared bias with its noise taken off.   [criteria] each"""

    debiased: jax.Array  # may be negative: cut off at 0 it would be biased upwards
    noise: jax.Array  # what equal groups would show by chance
    known: jax.Array  # bool: whether two groups at least can be compared


class RateTracker(NamedTuple):
    """Totals of rollouts, older ones fading, and what the noise of the rates is made from.   [criteria, groups] each"""

    supply: jax.Array
    demand: jax.Array
    squares: tuple[jax.Array, ...]  # of the rollouts' S**2, S D, D**2, their weights squared
    weight: jax.Array  # sum of weights of the rollouts with demand
    weights: jax.Array  # sum of their squared weights

    @staticmethod
    def nothing(criteria: int, groups: int) -> "RateTracker":
        """Before the first rollout."""
        none = jnp.zeros((criteria, groups), jnp.float32)
        return RateTracker(supply=none, demand=none, squares=(none, none, none), weight=none, weights=none)

    def faded(self, keep: float | jax.Array, done: Window) -> "RateTracker":
        """With the episodes that ended in one more rollout.

        A rollout in which a group was neglected can have a hundred times its usual demand and would outweigh all that
        follow it. So earlier totals keep at most the weight that rollouts with as much demand D as this one would have
        together, D keep / (1 - keep).
        """
        supply, demand = done.supply, done.demand
        most = demand * keep / (1 - keep) / jnp.maximum(self.demand, 1e-8)
        kept = jnp.where(demand > 0, jnp.minimum(keep, most), 1.0)
        products = supply**2, supply * demand, demand**2
        counted = (demand > 0).astype(jnp.float32)
        return RateTracker(
            supply=kept * self.supply + supply,
            demand=kept * self.demand + demand,
            squares=tuple(kept**2 * old + new for old, new in zip(self.squares, products, strict=True)),
            weight=kept * self.weight + counted,
            weights=kept**2 * self.weights + counted,
        )

    def rates(self) -> tuple[jax.Array, jax.Array, jax.Array]:
        """z = S / D, the variance of its noise, and whether both are known; 0 where not.   [criteria, groups] each

        The variance is n / (n - 1) sum_i w_i**2 (S_i - z D_i)**2 / D**2 (delta method; rollouts i with weights w_i, n
        = (sum w)**2 / sum w**2). Rollouts differ by the chance of their episodes and by the steps that the policy makes
        to and fro between them: neither can be pushed away.
        """
        z = ratio(self.supply, self.demand, otherwise=0.0)
        supply, both, demand = self.squares
        count = self.weight**2 / jnp.maximum(self.weights, 1e-8)
        known = count > FEWEST_ROLLOUTS
        few = jnp.where(known, count / jnp.where(known, count - 1.0, 1.0), 0.0)
        variance = few * (supply - 2 * z * both + z**2 * demand) / jnp.where(self.demand > 0, self.demand, 1.0) ** 2
        return z, jnp.maximum(variance, 0.0), known

    def squared_bias(self) -> Square:
        """range(z)**2 - n with n = E[range(noise)**2].

        It has the mean of the squared bias where 2 groups are compared or all are equal, else a little less.
        """
        z, variance, known = self.rates()
        count = jnp.sum(known, axis=-1)
        table = jnp.asarray(_range_squared(z.shape[-1]))
        noise = table[count] * jnp.sum(variance, axis=-1) / jnp.maximum(count, 1)
        return Square(jnp.where(count > 1, spread_of(z, known) ** 2 - noise, 0.0), noise, count > 1)


def spread_of(values: jax.Array, mask: jax.Array) -> jax.Array:
    """max - min of the values under the mask.   [..., groups] -> [...]"""
    return jnp.max(jnp.where(mask, values, -jnp.inf), axis=-1) - jnp.min(jnp.where(mask, values, jnp.inf), axis=-1)


@cache
def _range_squared(groups: int) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    """E[range**2] of 0, 1, ..., `groups` independent standard normal numbers: 0, 0, 2, 3.65 ... by simulation."""
    draws = np.random.default_rng(0).standard_normal((20_000, groups))
    rows = [np.mean(np.ptp(draws[:, :k], axis=1) ** 2) if k > 1 else 0.0 for k in range(groups + 1)]
    if groups >= 2:
        rows[2] = 2.0
    return np.asarray(rows, np.float32)
