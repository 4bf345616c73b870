"""FOCOPS: the best policy near the old one has a closed form, and the new one is fitted to it (Zhang et al. 2020).

Within a trust region around pi_old the constrained problem is solved by pi* ~ pi_old exp((A - nu A_C) / temperature).
A gradient step of KL(pi || pi*) has, state by state, the slope of

    KL(pi || pi_old) - r (A - nu A_C) / temperature,   r = pi / pi_old,

and states in which pi has left the region, KL(pi || pi_old) > region, have no part in it.
"""

from dataclasses import replace
from typing import Annotated, ClassVar

import jax
import jax.numpy as jnp

from elbert.learning.estimates import Estimates, Window
from elbert.learning.methods.base import Clock, Compared
from elbert.learning.methods.duals import any_ended, hard_bias, weighed_cost
from elbert.learning.methods.limited import Limited
from elbert.learning.methods.weighing import bias_advantage
from elbert.learning.settings import Setting, Settings


class FOCOPS(Limited):
    """First-order constrained optimisation in policy space, with the linearised bias as its cost.

    As published: both advantages standardised, the loss above, nu <- clip(nu + rate * excess, 0, most). Ours: the
    excess is (b - max_bias) / max_bias, so that one rate serves all limits; epochs, minibatches and learning rate are
    the preset's, as for every method here; policies that draw several parts at once take KL of the first draw times
    the number of draws.
    """

    name: ClassVar[str] = "focops"
    needs_divergence: ClassVar[bool] = True
    ignores: ClassVar[tuple[str, ...]] = ("standardise", "clip")

    temperature: Annotated[float, Setting("how close to the old policy the best one is", low=0, open_low=True)] = 1.5
    region: Annotated[float, Setting("divergence from the old policy beyond which nothing is learned", low=0)] = 0.02
    multiplier_rate: Annotated[float, Setting("step size of the multiplier", low=0, open_low=True)] = 0.1
    largest_multiplier: Annotated[float, Setting("where the multiplier stops", low=0)] = 2.0

    @classmethod
    def adapted(cls, settings: Settings) -> Settings:
        """The sum is not standardised again: the temperature is in units of the reward's advantage."""
        return replace(settings, standardise="none")

    def start(self, criteria: int, groups: int) -> jax.Array:
        """nu = 0 for each criterion."""
        del groups
        return jnp.zeros(criteria, jnp.float32)

    def advance(self, state: jax.Array, estimates: Estimates, done: Window, clock: Clock) -> jax.Array:
        """nu <- clip(nu + rate (b - max_bias) / max_bias, 0, most)."""
        del clock
        excess = hard_bias(estimates.eta)[0] / self.max_bias - 1.0
        moved = jnp.clip(state + self.multiplier_rate * excess, 0.0, self.largest_multiplier)
        return jnp.where(any_ended(done), moved, state)

    def advantage(self, estimates: Estimates, state: jax.Array) -> jax.Array:
        """A_R - sum_c nu_c A_b,c, both standardised.   -> [...]"""
        return weighed_cost(estimates, bias_advantage(estimates, hard_bias(estimates.eta)[1]), state)

    def loss(self, new: Compared, advantage: jax.Array, clip: float) -> jax.Array:
        """KL(pi || pi_old) - r A / temperature within the region, 0 outside.   -> [...]"""
        del clip
        inside = jax.lax.stop_gradient(new.divergence) <= self.region
        return jnp.where(inside, new.divergence - new.ratio * advantage / self.temperature, 0.0)

    def metrics(self, state: jax.Array) -> dict[str, jax.Array]:
        """The multipliers."""
        return {"multiplier": state}
