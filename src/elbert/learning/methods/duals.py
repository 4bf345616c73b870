"""Multipliers that follow how far a limit is exceeded: dual ascent, whatever is limited."""

from abc import abstractmethod
from dataclasses import replace
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from elbert.fairness.rates import Totals, bias
from elbert.learning.estimates import Estimates, Window
from elbert.learning.methods.base import Clock, Method
from elbert.learning.methods.weighing import filled_rates, standardised
from elbert.learning.settings import Setting, Settings

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


class DualAscent(Method):
    """PPO on a Lagrangian whose multipliers nu Adam moves, one for each criterion: max eta_R - sum_c nu_c excess_c.

    As in Ray et al. (2019) the sum of the advantages is divided by 1 + nu and not standardised again, and Adam moves
    the multiplier. They write it as a softplus; here it is cut off at 0, and the cost's advantage is scaled as the
    reward's is, so that one rate serves all worlds. Subclasses say what is limited.
    """

    ignores: ClassVar[tuple[str, ...]] = ("standardise",)

    dual_rate: eqx.AbstractVar[float]

    @classmethod
    def adapted(cls, settings: Settings) -> Settings:
        """The sum is not standardised: where reward and cost balance each other there is nothing to learn."""
        return replace(settings, standardise="none")

    @abstractmethod
    def excess(self, eta: Totals) -> jax.Array:
        """By how much each limit is exceeded.   -> [criteria]"""

    @abstractmethod
    def cost(self, estimates: Estimates) -> jax.Array:
        """The advantage of what is limited.   -> [..., criteria]"""

    def start(self, criteria: int, groups: int) -> Dual:
        """nu = 0 for each criterion."""
        del groups
        return Dual.at(jnp.zeros(criteria, jnp.float32))

    def advance(self, state: Dual, estimates: Estimates, done: Window, clock: Clock) -> Dual:
        """nu <- max(0, nu + Adam(excess))."""
        del clock
        moved = state.ascended(self.excess(estimates.eta), self.dual_rate, any_ended(done))
        return moved._replace(value=jnp.maximum(moved.value, 0.0))

    def advantage(self, estimates: Estimates, state: Dual) -> jax.Array:
        """(A_R - sum_c nu_c A_c) / (1 + sum_c nu_c), all standardised.   -> [...]"""
        return weighed_cost(estimates, self.cost(estimates), state.value) / (1.0 + jnp.sum(state.value))

    def metrics(self, state: Dual) -> dict[str, jax.Array]:
        """The multipliers."""
        return {"multiplier": state.value}


def weighed_cost(estimates: Estimates, cost: jax.Array, multiplier: jax.Array) -> jax.Array:
    """A_R - sum_c nu_c A_c, both standardised.   [..., criteria], [criteria] -> [...]"""
    reward, costs = (standardised(signal, estimates.counted) for signal in (estimates.reward, cost))
    return reward - costs @ multiplier
