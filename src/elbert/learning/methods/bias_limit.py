"""A limit on the bias in place of a coefficient: maximise reward subject to bias <= max_bias.

The Lagrangian of the constrained problem (Xu et al. 2024, equation 2) is eta_R - sum_c lambda_c (b_c - max_bias), one
multiplier for each criterion c. Its gradient has the advantage A_R - sum_c lambda_c A_b,c with the linearised bias

    A_b,c = sum_g db_c/dz_g (A_S,g / eta_D,g - eta_S,g A_D,g / eta_D,g**2)

A multiplier in units of reward would need a new scale for every environment. Here lambda = mu dev(A_R) / dev(A_b):
mu says how many deviations of the reward's advantage one deviation of the bias's weighs, and 1 is a fair start
everywhere. A controller moves mu after every rollout, by proportional and integral control of its logarithm (after
Stooke et al. 2020, who control lambda itself), so that it stays positive and crosses orders of magnitude in a few
dozen iterations:

    rollout -> totals of whole episodes -> x, n -> error e -> I, mu -> advantage
    e = clip(x / max_bias**2 - aim, -1, 2) / (1 + n / max_bias**2),   I <- I + gain e,   mu = exp(I + proportional e)

x is the squared bias with its noise n taken off (`RateTracker`): the bias of a few episodes is biased upwards, and a
controller that believed it would push for ever. The error is linear in x and not in its root, whose mean would be too
small. Where n is large compared with the limit the error says little, and moves mu little. Which groups are ahead is
judged by the very latest episodes: judged by older ones, the policy would still be pushed when it has arrived.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from elbert.errors import InvalidInputError
from elbert.fairness.rates import Totals, ratio, soft_bias
from elbert.learning.estimates import Estimates, Window
from elbert.learning.methods.base import Clock, Method
from elbert.learning.methods.rate_tracker import RateTracker, spread_of
from elbert.learning.methods.weighing import DemandWeight, demand_advantage, deviation_of, filled_rates, linearised
from elbert.learning.settings import Setting, Settings


@dataclass(frozen=True)
class Controller:
    """The numbers of the controller; docs/learning.md says what they are for, and what training without each showed."""

    keep: float = 0.8  # weight that earlier totals keep from one rollout to the next
    keep_recent: float = 0.5  # weight that earlier totals keep for the slopes, which must follow the policy
    aim: float = 0.5  # part of the squared limit to aim at: at the limit itself nothing could be confirmed
    integral: float = 15.0  # the integral gains integral / iterations from an error of 1 ...
    integral_most: float = 0.2  # ... but at most this in one iteration of a short training
    integral_least: float = 0.3  # part of that gain that is left when the learning rate has fallen to 0
    proportional: float = 0.5  # gain of the present error
    smooth: float = 3.0  # beta * size of the soft bias behind the slopes: smaller differences fade
    keep_moved: float = 0.8  # weight of earlier changes in what one iteration changes
    keep_price: float = 0.95  # weight of earlier prices in the price that is reported

    def gain(self, clock: Clock) -> jax.Array:
        """What the integral gains from an error of 1 in this iteration.   -> []"""
        pace = min(self.integral / clock.iterations, self.integral_most)
        return pace * jnp.maximum(clock.left, self.integral_least)


@dataclass(frozen=True)
class Choice:
    """How the final policy is chosen among the last ones: each is judged in fresh episodes by the test of the limit."""

    candidates: int = 6  # number of policies, at equal distances, the final one among them
    last_part: float = 0.2  # the last part of the training that they come from
    episodes_part: float = 0.5  # part of the default protocol's episodes that each is judged on
    steps_part: float = 0.1  # in worlds, where steps are cheap, also this part of the training's steps
    fewest_episodes: int = 10  # of each in a user's environment, where all together take no more steps than training


class LimitState(NamedTuple):
    """What the controller carries from one iteration to the next."""

    lasting: RateTracker  # for the bias
    recent: RateTracker  # for the slopes
    last: Totals  # [criteria, groups] of the latest rollout with demand
    moved: jax.Array  # [criteria] how far the groups' rates move apart or together from one rollout to the next
    integral: jax.Array  # [criteria] I
    mu: jax.Array  # [criteria] relative multiplier
    bias: jax.Array  # [criteria] sign(x) sqrt(|x|)
    price: jax.Array  # [criteria] reward of an episode per unit of bias, older values fading


class BiasLimit(Method):
    """Maximise reward subject to bias <= max_bias: ELBERT-PO with a multiplier that is found during training."""

    name: ClassVar[str] = "elbert-po"
    uses: ClassVar[tuple[str, ...]] = ("eta_discount",)

    max_bias: Annotated[float, Setting("largest bias to be allowed, in place of alpha", low=0, open_low=True)]
    demand_weight: DemandWeight = ()
    controller: Controller = eqx.field(static=True, default=Controller())
    choice: Choice = eqx.field(static=True, default=Choice())

    @classmethod
    def check_given(cls, given: Mapping[str, Any], preset: Mapping[str, Any]) -> None:
        """A limit weighs the signals by itself."""
        del preset
        if given.get("standardise") == "per-signal":
            raise InvalidInputError(
                "standardise is per-signal, which has no effect beside max_bias: a limit weighs the signals by itself. "
                "Leave it out."
            )

    def check_fit(self, settings: Settings, given: Mapping[str, Any], *, groups: int, horizon: int | None) -> None:
        """Whole episodes must end, or there are no rates to control."""
        del given, groups
        if horizon is None:
            return
        if settings.rollout * settings.iterations < horizon:
            raise InvalidInputError(
                f"max_bias needs whole episodes, and none of {horizon} steps ends in {settings.iterations} rollouts of "
                f"{settings.rollout}. Give more steps, or fewer copies, or a world with a shorter horizon."
            )
        if settings.reset_each_rollout and settings.rollout < horizon:
            raise InvalidInputError(
                f"max_bias needs whole episodes, and with reset_each_rollout none of {horizon} steps ends in a "
                f"rollout of {settings.rollout}. Give rollout={horizon} or more, or reset_each_rollout=False."
            )

    def adapted(self, settings: Settings) -> Settings:
        """A preset may standardise signal by signal; here the sum is standardised."""
        return replace(settings, standardise="combined") if settings.standardise == "per-signal" else settings

    @property
    def policy_choice(self) -> Choice:
        """Which policy is kept is decided by the test of the limit."""
        return self.choice

    def start(self, criteria: int, groups: int) -> LimitState:
        """Before the first iteration mu = 1."""
        none, each = jnp.zeros((criteria, groups), jnp.float32), jnp.zeros(criteria, jnp.float32)
        nothing = RateTracker.nothing(criteria, groups)
        return LimitState(
            lasting=nothing,
            recent=nothing,
            last=Totals(none, none),
            moved=each,
            integral=each,
            mu=jnp.ones(criteria, jnp.float32),
            bias=each,
            price=each,
        )

    def advance(self, state: LimitState, estimates: Estimates, done: Window, clock: Clock) -> LimitState:
        """Take in the episodes of a rollout and move the multipliers; prices fade with those of earlier ones."""
        after = self.controlled(state, done, gain=self.controller.gain(clock))
        price = limited_advantage(estimates, self.slopes(after), jnp.exp(after.integral))[1]
        keep = jnp.where(clock.iteration == 0, 0.0, self.controller.keep_price)
        return after._replace(price=keep * state.price + (1 - keep) * price)

    def controlled(self, state: LimitState, done: Window, *, gain: jax.Array) -> LimitState:
        """The state with the episodes of one more rollout and the multipliers moved."""
        c, square_limit = self.controller, self.max_bias**2
        lasting = state.lasting.faded(c.keep, done)
        square, noise, known = lasting.squared_bias()
        error = jnp.where(known, jnp.clip(square / square_limit - c.aim, -1.0, 2.0), 0.0) / (1.0 + noise / square_limit)
        ended = jnp.sum(done.demand, axis=-1) > 0  # between episodes the integral waits
        integral = state.integral + jnp.where(ended, gain * error, 0.0)
        has_demand = done.demand > 0
        return state._replace(
            lasting=lasting,
            recent=state.recent.faded(c.keep_recent, done),
            last=Totals(
                jnp.where(has_demand, done.supply, state.last.supply),
                jnp.where(has_demand, done.demand, state.last.demand),
            ),
            moved=self._moved(state, done),
            integral=integral,
            mu=jnp.exp(integral + c.proportional * error),
            bias=jnp.sign(square) * jnp.sqrt(jnp.abs(square)),
        )

    def slopes(self, state: LimitState) -> jax.Array:
        """db_c/dz_g of the soft bias at the latest rates; 0 where demand is none.   [criteria, groups]

        beta = smooth / max(max_bias, moved): differences of the size of the limit count, or of what one iteration
        changes if that is more. A policy that is always pushed with full force swings for ever.
        """
        recent = state.recent
        rates = filled_rates(recent.supply, recent.demand)
        beta = self.controller.smooth / jnp.maximum(self.max_bias, state.moved)[:, None]  # [criteria, 1]
        slope = jax.grad(lambda z: jnp.sum(jnp.asarray(soft_bias(beta * z, beta=1.0)) / beta[:, 0]))(rates)
        return jnp.where(recent.demand > 0, slope, 0.0)

    def advantage(self, estimates: Estimates, state: LimitState) -> jax.Array:
        """A_R / dev(A_R) - sum_c mu_c s_c A_b,c / dev(A_b,c) + sum_g w_g A_D,g / dev(A_R).   -> [...]"""
        combined, _ = limited_advantage(estimates, self.slopes(state), state.mu)
        demanded = demand_advantage(estimates, self.demand_weight)
        return combined + demanded / deviation_of(estimates.reward, estimates.counted)

    def metrics(self, state: LimitState) -> dict[str, jax.Array]:
        """The multipliers, their prices, and the bias as the controller sees it."""
        return {"mu": state.mu, "price": state.price, "limited_bias": state.bias}

    def warning(self, state: LimitState) -> str:
        """Episodes of a user's environment may be longer than the training."""
        if np.any(state.lasting.weight):
            return ""
        return (
            "No episode with demand ended during the training: max_bias had no effect. Give more steps or fewer copies."
        )

    def _moved(self, state: LimitState, done: Window) -> jax.Array:
        """range_g(z_g - the z_g of the rollout before), smoothed; noise is part of it.   -> [criteria]"""
        both = (done.demand > 0) & (state.last.demand > 0)
        now, before = (ratio(total.supply, total.demand, otherwise=0.0) for total in (done, state.last))
        spread = spread_of(now - before, both)
        keep = self.controller.keep_moved
        smooth = jnp.where(state.moved > 0, keep * state.moved + (1 - keep) * spread, spread)
        return jnp.where(jnp.sum(both, axis=-1) > 1, smooth, state.moved)


def limited_advantage(estimates: Estimates, slope: jax.Array, mu: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A_R / dev(A_R) - sum_c mu_c s_c A_b,c / dev(A_b,c), and the prices lambda_c.   -> [...], [criteria]

    s_c = sum_g |slope_g| / 2 is 1 where two groups make up the whole bias and falls to 0 as all rates become equal.
    The price is the reward of an episode that one unit of bias is worth, mu_c s_c**2 dev(A_R) / dev(A_b,c).
    """
    bias = bias_advantage(estimates, slope)
    size = jnp.sum(jnp.abs(slope), axis=-1) / 2
    dev_reward, dev_bias = (deviation_of(signal, estimates.counted) for signal in (estimates.reward, bias))
    weight = mu * size / dev_bias
    return estimates.reward / dev_reward - bias @ weight, weight * size * dev_reward


def bias_advantage(estimates: Estimates, slope: jax.Array) -> jax.Array:
    """A_b,c = sum_g slope_g (A_S,g / eta_D,g - eta_S,g A_D,g / eta_D,g**2).   -> [..., criteria]"""
    weights = linearised(estimates.eta, slope)
    return jnp.einsum("...cg,cg->...c", estimates.supply, weights.supply) - jnp.einsum(
        "...cg,cg->...c", estimates.demand, weights.demand
    )
