"""The textbook's answer to a limit: PPO on the Lagrangian, its multiplier by dual ascent (Ray et al. 2019)."""

from dataclasses import replace
from typing import ClassVar

import jax
import jax.numpy as jnp

from elbert.learning.estimates import Estimates, Window
from elbert.learning.methods.base import Clock
from elbert.learning.methods.duals import Dual, DualRate, any_ended, hard_bias
from elbert.learning.methods.limited import Limited
from elbert.learning.methods.weighing import bias_advantage, standardised
from elbert.learning.settings import Settings


class Lagrangian(Limited):
    """max over policies, min over nu >= 0, of eta_R - sum_c nu_c (b_c - max_bias).

    b_c is the hard bias of the latest episodes as they are; nothing is smoothed, foreseen or taken off. As in Ray et
    al. (2019) the sum of both advantages is divided by 1 + nu and not standardised again, and Adam moves the
    multiplier. They write it as a softplus; here it is cut off at 0, and the bias's advantage is scaled as the reward's
    is, so that one rate serves all worlds.
    """

    name: ClassVar[str] = "lagrangian"

    dual_rate: DualRate = 0.03

    @classmethod
    def adapted(cls, settings: Settings) -> Settings:
        """The sum is not standardised: where reward and bias balance each other there is nothing to learn."""
        return replace(settings, standardise="none")

    def start(self, criteria: int, groups: int) -> Dual:
        """nu = 0 for each criterion."""
        del groups
        return Dual.at(jnp.zeros(criteria, jnp.float32))

    def advance(self, state: Dual, estimates: Estimates, done: Window, clock: Clock) -> Dual:
        """nu <- max(0, nu + Adam(b - max_bias))."""
        del clock
        excess = hard_bias(estimates.eta)[0] - self.max_bias
        moved = state.ascended(excess, self.dual_rate, any_ended(done))
        return moved._replace(value=jnp.maximum(moved.value, 0.0))

    def advantage(self, estimates: Estimates, state: Dual) -> jax.Array:
        """(A_R / dev(A_R) - sum_c nu_c A_b,c / dev(A_b,c)) / (1 + sum_c nu_c).   -> [...]"""
        return weighed_bias(estimates, state.value) / (1.0 + jnp.sum(state.value))

    def metrics(self, state: Dual) -> dict[str, jax.Array]:
        """The multipliers."""
        return {"multiplier": state.value}


def weighed_bias(estimates: Estimates, multiplier: jax.Array) -> jax.Array:
    """A_R / dev(A_R) - sum_c nu_c A_b,c / dev(A_b,c) with the hard bias of the latest episodes.   -> [...]"""
    return weighed_cost(estimates, bias_advantage(estimates, hard_bias(estimates.eta)[1]), multiplier)


def weighed_cost(estimates: Estimates, cost: jax.Array, multiplier: jax.Array) -> jax.Array:
    """A_R - sum_c nu_c A_c, both standardised.   [..., criteria], [criteria] -> [...]"""
    reward, costs = (standardised(signal, estimates.counted) for signal in (estimates.reward, cost))
    return reward - costs @ multiplier
