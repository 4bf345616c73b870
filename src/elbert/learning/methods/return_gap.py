"""Equal returns instead of equal rates: a different notion of fairness (Satija et al. 2023).

A group's return is the benefit that it is given over an episode, whatever was due to it. Where groups differ in size or
in need, equal returns and equal rates exclude each other; this method is here to show by how much.
"""

from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp

from elbert.fairness.rates import Totals
from elbert.learning.estimates import Estimates
from elbert.learning.methods.duals import DualAscent, DualRate
from elbert.learning.settings import Setting


class ReturnGap(DualAscent):
    """max eta_R subject to (max_g eta_S,g - min_g eta_S,g) / mean_g eta_S,g <= max_gap.

    Satija et al. bound the differences of the groups' returns themselves. Returns here are supplies, whose units differ
    from world to world, so the gap is relative to their mean. Their deep algorithm is another than ours: the multiplier
    is that of `lagrangian`, so that only the notion differs. The last policy is the final one.
    """

    name: ClassVar[str] = "return-gap"
    uses: ClassVar[tuple[str, ...]] = ("eta_discount",)

    max_gap: Annotated[float, Setting("largest gap of the groups' returns, as part of their mean", low=0)] = 0.05
    dual_rate: DualRate = 0.03

    def excess(self, eta: Totals) -> jax.Array:
        """gap - max_gap.   -> [criteria]"""
        return gap(eta.supply) - self.max_gap

    def cost(self, estimates: Estimates) -> jax.Array:
        """A_gap,c = sum_g dgap_c/deta_S,g A_S,g.   -> [..., criteria]"""
        slope = jax.grad(lambda supply: jnp.sum(gap(supply)))(estimates.eta.supply)
        return jnp.einsum("...cg,cg->...c", estimates.supply, slope)


def gap(supply: Any) -> jax.Array:
    """(max - min) / mean over groups; 0 where nobody is given anything.   [criteria, groups] -> [criteria]"""
    mean = jnp.mean(supply, axis=-1)
    some = mean > 0
    spread = jnp.max(supply, axis=-1) - jnp.min(supply, axis=-1)
    return jnp.where(some, spread / jnp.where(some, mean, 1.0), 0.0)
