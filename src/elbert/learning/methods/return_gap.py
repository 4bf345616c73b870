"""Equal returns instead of equal rates: a different notion of fairness (Satija et al. 2023).

A group's return is the benefit that it is given over an episode, whatever was due to it. Where groups differ in size or
in need, equal returns and equal rates exclude each other; this method is here to show by how much.
"""

from dataclasses import replace
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp

from elbert.learning.estimates import Estimates, Window
from elbert.learning.methods.base import Clock, Method
from elbert.learning.methods.duals import Dual, DualRate, any_ended
from elbert.learning.methods.lagrangian import weighed_cost
from elbert.learning.settings import Setting, Settings


class ReturnGap(Method):
    """max eta_R subject to (max_g eta_S,g - min_g eta_S,g) / mean_g eta_S,g <= max_gap.

    Satija et al. bound the differences of the groups' returns themselves. Returns here are supplies, whose units differ
    from world to world, so the gap is relative to their mean. Their deep algorithm is another than ours: the multiplier
    is that of `lagrangian`, so that only the notion differs. The last policy is the final one.
    """

    name: ClassVar[str] = "return-gap"
    uses: ClassVar[tuple[str, ...]] = ("eta_discount",)

    max_gap: Annotated[float, Setting("largest gap of the groups' returns, as part of their mean", low=0)] = 0.05
    dual_rate: DualRate = 0.03

    @classmethod
    def adapted(cls, settings: Settings) -> Settings:
        """The sum is not standardised: where reward and gap balance each other there is nothing to learn."""
        return replace(settings, standardise="none")

    def start(self, criteria: int, groups: int) -> Dual:
        """nu = 0 for each criterion."""
        del groups
        return Dual.at(jnp.zeros(criteria, jnp.float32))

    def advance(self, state: Dual, estimates: Estimates, done: Window, clock: Clock) -> Dual:
        """nu <- max(0, nu + Adam(gap - max_gap))."""
        del clock
        moved = state.ascended(gap(estimates.eta.supply) - self.max_gap, self.dual_rate, any_ended(done))
        return moved._replace(value=jnp.maximum(moved.value, 0.0))

    def advantage(self, estimates: Estimates, state: Dual) -> jax.Array:
        """As `lagrangian`, with A_gap,c = sum_g dgap_c/deta_S,g A_S,g for the bias's advantage.   -> [...]"""
        slope = jax.grad(lambda supply: jnp.sum(gap(supply)))(estimates.eta.supply)
        cost = jnp.einsum("...cg,cg->...c", estimates.supply, slope)
        return weighed_cost(estimates, cost, state.value) / (1.0 + jnp.sum(state.value))

    def metrics(self, state: Dual) -> dict[str, jax.Array]:
        """The multipliers."""
        return {"multiplier": state.value}


def gap(supply: Any) -> jax.Array:
    """(max - min) / mean over groups; 0 where nobody is given anything.   [criteria, groups] -> [criteria]"""
    mean = jnp.mean(supply, axis=-1)
    some = mean > 0
    spread = jnp.max(supply, axis=-1) - jnp.min(supply, axis=-1)
    return jnp.where(some, spread / jnp.where(some, mean, 1.0), 0.0)
