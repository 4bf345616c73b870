"""Rates over the latest rollouts, older ones fading, and how noisy they are."""

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from elbert.fairness.rates import Totals, ratio
from elbert.learning.estimates import Window

LEAST_DEMAND = 0.1
"""Part of its demand that a group keeps at least where a change is foreseen, whose first order knows no bounds."""
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
    squares: jax.Array  # of the rollouts' S - z D, by weights squared
    weight: jax.Array  # sum of weights of the rollouts with demand
    weights: jax.Array  # sum of their squared weights

    @property
    def totals(self) -> Totals:
        """Supply and demand."""
        return Totals(self.supply, self.demand)

    @staticmethod
    def nothing(criteria: int, groups: int) -> "RateTracker":
        """Before the first rollout."""
        none = jnp.zeros((criteria, groups), jnp.float32)
        return RateTracker(supply=none, demand=none, squares=none, weight=none, weights=none)

    def faded(self, keep: float | jax.Array, done: Window) -> "RateTracker":
        """With the episodes that ended in one more rollout.

        A rollout in which a group was neglected can have a hundred times its usual demand and would outweigh all that
        follow it. So earlier totals keep at most the weight that rollouts with as much demand D as this one would have
        together, D keep / (1 - keep).
        """
        supply, demand = done.supply, done.demand
        most = demand * keep / (1 - keep) / jnp.maximum(self.demand, 1e-8)
        kept = jnp.where(demand > 0, jnp.minimum(keep, most), 1.0)
        counted = (demand > 0).astype(jnp.float32)
        total, due = kept * self.supply + supply, kept * self.demand + demand
        after = ratio(total, due, otherwise=0.0)
        before = ratio(self.supply, self.demand, otherwise=after)
        return RateTracker(
            supply=total,
            demand=due,
            squares=kept**2 * self.squares + (supply - before * demand) * (supply - after * demand),
            weight=kept * self.weight + counted,
            weights=kept**2 * self.weights + counted,
        )

    def foreseen(self, change: Totals) -> "RateTracker":
        """As if the policy that adds this supply and demand, per unit of demand, had acted all the time."""
        return self._replace(**shifted(self.totals, change)._asdict())

    def rates(self) -> tuple[jax.Array, jax.Array, jax.Array]:
        """z = S / D, the variance of its noise, and whether both are known; 0 where not.   [criteria, groups] each

        The variance is n / (n - 1) sum_i w_i**2 (S_i - z D_i)**2 / D**2 (delta method; rollouts i with weights w_i, n
        = (sum w)**2 / sum w**2). As z moves with the policy, each square is that of its time: (S_i - z D_i) with the
        rate before rollout i times that with the rate after it (Welford 1962).
        """
        z = ratio(self.supply, self.demand, otherwise=0.0)
        count = self.weight**2 / jnp.maximum(self.weights, 1e-8)
        known = count > FEWEST_ROLLOUTS
        few = jnp.where(known, count / jnp.where(known, count - 1.0, 1.0), 0.0)
        variance = few * self.squares / jnp.where(self.demand > 0, self.demand, 1.0) ** 2
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


class Foresight(NamedTuple):
    """How much of what was foreseen came true.

    What is foreseen from the samples that a policy was just trained on is too good: it fits their noise too. The
    belief is the slope of a regression through the origin of what the rates did on what was foreseen, both relative to
    the mean over groups.
    """

    before: jax.Array  # [criteria, groups] rates before the latest change
    expected: jax.Array  # [criteria, groups] rates if all came true
    seen: jax.Array  # [criteria] sum over rollouts of (what happened) * (what was foreseen), older ones fading
    foreseen: jax.Array  # [criteria] sum of (what was foreseen)**2

    @staticmethod
    def none(criteria: int, groups: int) -> "Foresight":
        """Before the first rollout."""
        none, each = jnp.zeros((criteria, groups), jnp.float32), jnp.zeros(criteria, jnp.float32)
        return Foresight(before=none, expected=none, seen=each, foreseen=each)

    @property
    def belief(self) -> jax.Array:
        """From 0, none of it, to 1, all of it.   [criteria]"""
        return jnp.clip(ratio(self.seen, self.foreseen, otherwise=0.5), 0.0, 1.0)

    def noted(self, tracker: "RateTracker", change: Totals) -> "Foresight":
        """With what is foreseen now."""
        before, after = tracker.totals, shifted(tracker.totals, change)
        rates = (ratio(total.supply, total.demand, otherwise=0.0) for total in (before, after))
        return self._replace(before=next(rates), expected=next(rates))

    def checked(self, keep: float, done: Window) -> "Foresight":
        """With what the next rollout showed."""
        has_demand = done.demand > 0
        count = jnp.maximum(jnp.sum(has_demand, axis=-1, keepdims=True), 1)

        def relative(rates: jax.Array) -> jax.Array:
            change = jnp.where(has_demand, rates - self.before, 0.0)
            return jnp.where(has_demand, change - jnp.sum(change, axis=-1, keepdims=True) / count, 0.0)

        shown, expected = relative(ratio(done.supply, done.demand, otherwise=0.0)), relative(self.expected)
        return self._replace(
            seen=keep * self.seen + jnp.sum(shown * expected, axis=-1),
            foreseen=keep * self.foreseen + jnp.sum(expected**2, axis=-1),
        )


def shifted(totals: Totals, change: Totals) -> Totals:
    """Totals with this change of both per unit of demand, neither below what can be.   [criteria, groups] each"""
    factor = jnp.maximum(1.0 + change.demand, LEAST_DEMAND)
    return Totals(jnp.maximum(totals.supply + change.supply * totals.demand, 0.0), totals.demand * factor)


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
