"""Multipliers that follow how far a limit is exceeded: dual ascent, as methods with a limit share it."""

from typing import Annotated, Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax

from elbert.fairness.rates import Totals, bias
from elbert.learning.estimates import Window
from elbert.learning.methods.weighing import filled_rates
from elbert.learning.settings import Setting

DualRate: TypeAlias = Annotated[float, Setting("step size of the multipliers, by Adam", low=0, open_low=True)]


class Dual(NamedTuple):
    """Numbers that climb, and what Adam remembers of their slopes."""

    value: Any  # pytree of arrays
    memory: Any

    @classmethod
    def at(cls, value: Any) -> "Dual":
        """Before the first step."""
        return cls(value, optax.adam(1.0).init(value))

    def ascended(self, slope: Any, rate: Any, when: jax.Array) -> "Dual":
        """One step of Adam up the slope (Kingma and Ba 2015), where there is something to go by; a rate for each leaf.

        Ray et al. (2019) move the multiplier of PPO in this way. Adam's steps do not depend on the unit of the slope.
        """
        changes, memory = optax.adam(1.0).update(jax.tree.map(jnp.negative, slope), self.memory)
        moved = Dual(jax.tree.map(lambda x, change, step: x + step * change, self.value, changes, rate), memory)
        return jax.tree.map(lambda new, old: jnp.where(when, new, old), moved, self)


def any_ended(done: Window) -> jax.Array:
    """Whether episodes ended in this rollout, so that there is something new to go by.   -> []"""
    return done.episodes > 0


def hard_bias(eta: Totals) -> tuple[jax.Array, jax.Array]:
    """b_c = max_g z_g - min_g z_g of the totals, and db_c/dz_g: 1 for the highest, -1 for the lowest.

    [criteria], [criteria, groups]. A group without demand moves nothing.
    """
    rates = filled_rates(eta.supply, eta.demand)
    return jnp.asarray(bias(rates)), jax.grad(lambda z: jnp.sum(jnp.asarray(bias(z))))(rates)
