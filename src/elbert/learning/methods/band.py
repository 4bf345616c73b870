"""A limit as a band that every group's rate has to lie in: rho_c <= z_g <= rho_c + max_bias, with rho_c learned.

The bias is the smallest width of such a band, so this is the same problem without a maximum: nothing has to be
softened, and every group and side has a multiplier of its own. The Lagrangian

    eta_R - sum_g high_g (z_g - rho - max_bias) - sum_g low_g (rho - z_g)

is maximised over policies and rho and minimised over high, low >= 0. The exact programs of this package are written in
the same way.
"""

from dataclasses import replace
from typing import Annotated, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from elbert.learning.estimates import Estimates, Window
from elbert.learning.methods.base import Clock
from elbert.learning.methods.duals import any_ended
from elbert.learning.methods.limited import Limited
from elbert.learning.methods.weighing import deviation_of, filled_rates, linearised
from elbert.learning.settings import Setting, Settings


class BandState(NamedTuple):
    """The multipliers and where the band begins."""

    high: jax.Array  # [criteria, groups] of z_g <= rho + max_bias
    low: jax.Array  # [criteria, groups] of rho <= z_g
    rho: jax.Array  # [criteria]
    net: jax.Array  # [criteria, groups] what a rate costs now: both sides, with what their present violation adds
    begun: jax.Array  # [] bool: rho starts where the first rates are


class Band(Limited):
    """PPO with two multipliers per group, which weigh deviations of advantages.

    With dual ascent alone, policy and multipliers chase each other. As in the method of multipliers (Hestenes 1969,
    Powell 1969) a side weighs more while it is violated: max(0, high + stiffness * v), v = (z - rho - max_bias) /
    max_bias. A violation counts up to 2: beyond, the direction is all that matters.
    """

    name: ClassVar[str] = "band"
    ignores: ClassVar[tuple[str, ...]] = ("standardise",)

    side_rate: Annotated[float, Setting("step size of the multipliers", low=0, open_low=True)] = 0.1
    stiffness: Annotated[float, Setting("what a violation of the size of the limit adds to a multiplier", low=0)] = 0.5
    rho_rate: Annotated[float, Setting("step size of the band's beginning, in limits", low=0, open_low=True)] = 0.1

    @classmethod
    def adapted(cls, settings: Settings) -> Settings:
        """The sum is not standardised: where reward and limit balance each other there is nothing to learn."""
        return replace(settings, standardise="none")

    def start(self, criteria: int, groups: int) -> BandState:
        """All multipliers 0."""
        none = jnp.zeros((criteria, groups), jnp.float32)
        return BandState(none, none, jnp.zeros(criteria, jnp.float32), none, jnp.zeros((), bool))

    def advance(self, state: BandState, estimates: Estimates, done: Window, clock: Clock) -> BandState:
        """high += rate v_high, low += rate v_low, none below 0; rho follows the side that weighs more.

        A band that lies apart from the rates, or that covers more on one side than it needs, is first brought to where
        it violates less: to between the lowest rate and the highest minus max_bias.
        """
        del clock
        ended, has_demand = any_ended(done), estimates.eta.demand > 0
        rates = filled_rates(estimates.eta.supply, estimates.eta.demand)
        ends = jnp.min(rates, axis=-1), jnp.max(rates, axis=-1) - self.max_bias
        rho = jnp.where(state.begun, state.rho, (ends[0] + ends[1]) / 2)
        rho = jnp.clip(rho, jnp.minimum(*ends), jnp.maximum(*ends))
        place = (rates - rho[:, None]) / self.max_bias  # 0 at the lower end of the band, 1 at the upper
        over, short = (jnp.where(has_demand, jnp.clip(v, -1.0, 2.0), -1.0) for v in (place - 1.0, -place))
        high, low = (jnp.maximum(x + self.side_rate * v, 0.0) for x, v in ((state.high, over), (state.low, short)))
        stiff_high, stiff_low = (jnp.maximum(x + self.stiffness * v, 0.0) for x, v in ((high, over), (low, short)))
        both = jnp.sum(stiff_high + stiff_low, axis=-1)
        pull = jnp.sum(stiff_high - stiff_low, axis=-1) / jnp.where(both > 0, both, 1.0)
        moved = BandState(high, low, rho + self.rho_rate * self.max_bias * pull, stiff_high - stiff_low, ended)
        return jax.tree.map(lambda new, old: jnp.where(ended, new, old), moved, state)

    def advantage(self, estimates: Estimates, state: BandState) -> jax.Array:
        """(A_R / dev(A_R) - sum_g net_g A_z,g / dev(A_z)) / (1 + sum_g |net_g| / 2).   -> [...]

        A_z,g is the linearised rate of a group. dev(A_z) is the mean over groups, so that multipliers of different
        groups are in the same unit.
        """
        counted, weights = estimates.counted, linearised(estimates.eta, jnp.ones_like(state.net))
        given, due = (
            jnp.einsum("...cg,cg->...cg", signal, weight)
            for signal, weight in zip((estimates.supply, estimates.demand), weights, strict=True)
        )
        rates = given - due  # [..., criteria, groups]
        size = jnp.mean(deviation_of(rates, counted), axis=-1, keepdims=True)
        cost = jnp.einsum("...cg,cg->...", rates, state.net / size)
        both = estimates.reward / deviation_of(estimates.reward, counted) - cost
        return both / (1.0 + jnp.sum(jnp.abs(state.net)) / 2)

    def metrics(self, state: BandState) -> dict[str, jax.Array]:
        """Where the band begins, and what the multipliers of its two sides add up to."""
        return {"rho": state.rho, "multiplier": jnp.sum(state.high + state.low, axis=-1)}
