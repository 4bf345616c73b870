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
    e = clip((x - aim t) / (t + n), -1, 2),   I <- I + gain e,   mu = exp(I + proportional e)

x is the squared bias with its noise n taken off (`RateTracker`): the bias of a few episodes is biased upwards, and a
controller that believed it would push for ever. The error is linear in x and not in its root, whose mean would be too
small. t = max_bias**2 + (k m)**2 is what is tolerated: m is what one iteration changes, which no push prevents, and k
falls from 1 to 0 before the last part of the training. Where n is large compared with t, the error says little.

What a policy does is not only seen in the next rollout but foreseen from the last one (`Learner.change`): the totals of
earlier rollouts are moved along with every update, so that many of them can be averaged without lagging behind, and
before every epoch the slopes db_c/dz_g are those that the update so far has led to. How much of it is believed depends
on how much of it came true (`Foresight`).
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from elbert.fairness.rates import Totals, ratio, soft_bias
from elbert.learning.estimates import Estimates, Window
from elbert.learning.methods.base import Clock
from elbert.learning.methods.limited import Limited
from elbert.learning.methods.rate_tracker import Foresight, RateTracker, shifted, spread_of
from elbert.learning.methods.weighing import DemandWeight, bias_advantage, demand_advantage, deviation_of, filled_rates


@dataclass(frozen=True)
class Controller:
    """The numbers of the controller; docs/learning.md says what they are for, and what training without each showed."""

    keep: tuple[float, float] = (0.8, 0.95)  # weight that earlier totals keep: if nothing can be foreseen, if all can
    keep_recent: tuple[float, float] = (0.5, 0.9)  # the same for the slopes, which must follow the policy
    keep_part: float = 0.12  # in short trainings, what is kept makes up no more than this part of the iterations
    keep_belief: float = 0.9  # weight of earlier rollouts in how much of what was foreseen came true
    last_part: float = 0.4  # of the training, before which what one iteration moves is tolerated, and in which ...
    margin: float = 2.0  # ... the aim falls from the limit to this many deviations of the noise below it
    least_margin: float = 0.1  # part of the limit that it falls by at the least
    stiffness: float = 4.0  # by what errors are multiplied at the end, so that small ones are corrected in time
    least_aim: float = 0.5  # part of the limit to aim at, at the least
    integral: float = 15.0  # the integral gains integral / iterations from an error of 1 ...
    integral_most: float = 0.2  # ... but at most this in one iteration of a short training
    integral_least: float = 0.3  # part of that gain that is left when the learning rate has fallen to 0
    integral_ends: tuple[float, float] = (-2.0, 1.0)  # where it stops: a louder bias would only drown the reward
    proportional: float = 0.5  # gain of the present error
    smooth: float = 3.0  # beta * size of the soft bias behind the slopes: smaller differences fade
    keep_moved: float = 0.8  # weight of earlier changes in what one iteration changes

    def gain(self, clock: Clock) -> jax.Array:
        """What the integral gains from an error of 1 in this iteration.   -> []"""
        pace = min(self.integral / clock.iterations, self.integral_most)
        return pace * jnp.maximum(clock.left, self.integral_least)

    def kept(self, ends: tuple[float, float], belief: jax.Array, clock: Clock) -> jax.Array:
        """The weight that earlier totals keep, between two ends.   [criteria] -> [criteria, 1]"""
        most = max(1.0 - 1.0 / (self.keep_part * clock.iterations), 0.0)
        return jnp.minimum(ends[0] + (ends[1] - ends[0]) * belief, most)[:, None]

    def tolerance_at(self, clock: Clock) -> jax.Array:
        """The part of what one iteration moves that is tolerated: 1, falling to 0 until the last part.   -> []"""
        return jnp.clip(1.0 - clock.iteration / clock.iterations / (1.0 - self.last_part), 0.0, 1.0)

    def margin_at(self, clock: Clock) -> jax.Array:
        """By how many deviations of the noise to aim below the limit: 0, rising in the last part.   -> []

        The last policies differ in how close they come to the limit, so that one can be chosen among them.
        """
        return self.margin * self._late(clock)

    def stiffness_at(self, clock: Clock) -> jax.Array:
        """By what an error is multiplied: 1, rising in the last part, where little is left to be corrected.   -> []"""
        return 1.0 + (self.stiffness - 1.0) * self._late(clock)

    def _late(self, clock: Clock) -> jax.Array:
        """How much of the last part is over.   -> []"""
        left = 1.0 - clock.iteration / clock.iterations
        return jnp.clip(1.0 - left / self.last_part, 0.0, 1.0)


class LimitState(NamedTuple):
    """What the controller carries from one iteration to the next."""

    lasting: RateTracker  # for the bias
    recent: RateTracker  # for the slopes
    foresight: Foresight  # how far changes of the rates can be foreseen
    last: Totals  # [criteria, groups] of the latest rollout with demand
    moved: jax.Array  # [criteria] how far the groups' rates move apart or together from one rollout to the next
    integral: jax.Array  # [criteria] I
    mu: jax.Array  # [criteria] relative multiplier
    bias: jax.Array  # [criteria] sign(x) sqrt(|x|)


class BiasLimit(Limited):
    """Maximise reward subject to bias <= max_bias: ELBERT-PO with a multiplier that is found during training."""

    name: ClassVar[str] = "elbert-po"
    foresees: ClassVar[bool] = True

    demand_weight: DemandWeight = ()
    controller: Controller = eqx.field(static=True, default=Controller())

    def start(self, criteria: int, groups: int) -> LimitState:
        """Before the first iteration mu = 1."""
        none, each = jnp.zeros((criteria, groups), jnp.float32), jnp.zeros(criteria, jnp.float32)
        nothing = RateTracker.nothing(criteria, groups)
        return LimitState(
            lasting=nothing,
            recent=nothing,
            foresight=Foresight.none(criteria, groups),
            last=Totals(none, none),
            moved=each,
            integral=each,
            mu=jnp.ones(criteria, jnp.float32),
            bias=each,
        )

    def advance(self, state: LimitState, estimates: Estimates, done: Window, clock: Clock) -> LimitState:
        """Take in the episodes of a rollout and move the multipliers."""
        del estimates
        return self.controlled(state, done, clock=clock)

    def controlled(self, state: LimitState, done: Window, *, clock: Clock) -> LimitState:
        """The state with the episodes of one more rollout and the multipliers moved."""
        c = self.controller
        tolerated = self.max_bias**2 + (state.moved * c.tolerance_at(clock)) ** 2
        gain, margin, foresight = c.gain(clock), c.margin_at(clock), state.foresight.checked(c.keep_belief, done)
        belief = foresight.belief
        lasting = state.lasting.faded(c.kept(c.keep, belief, clock), done)
        square, noise, known = lasting.squared_bias()
        below = jnp.maximum(margin * jnp.sqrt(noise) / self.max_bias, c.least_margin * margin / c.margin)
        aim = jnp.maximum(1.0 - below, c.least_aim) ** 2
        excess = c.stiffness_at(clock) * (square - aim * tolerated) / (tolerated + noise)
        error = jnp.where(known, jnp.clip(excess, -1.0, 2.0), 0.0)
        ended = jnp.sum(done.demand, axis=-1) > 0  # between episodes the integral waits
        integral = jnp.clip(state.integral + jnp.where(ended, gain * error, 0.0), *c.integral_ends)
        has_demand = done.demand > 0
        return state._replace(
            lasting=lasting,
            recent=state.recent.faded(c.kept(c.keep_recent, belief, clock), done),
            foresight=foresight,
            last=Totals(
                jnp.where(has_demand, done.supply, state.last.supply),
                jnp.where(has_demand, done.demand, state.last.demand),
            ),
            moved=self._moved(state, done),
            integral=integral,
            mu=jnp.exp(integral + c.proportional * error),
            bias=jnp.sign(square) * jnp.sqrt(jnp.abs(square)),
        )

    def foreseen(self, state: LimitState, change: Totals) -> LimitState:
        """What was seen of earlier policies, as this one would have shown it."""
        believed = Totals(*(state.foresight.belief[:, None] * part for part in change))
        return state._replace(
            lasting=state.lasting.foreseen(believed),
            recent=state.recent.foreseen(believed),
            last=shifted(state.last, believed),
            foresight=state.foresight.noted(state.lasting, change),
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
        combined = limited_advantage(estimates, self.slopes(state), state.mu)
        demanded = demand_advantage(estimates, self.demand_weight)
        return combined + demanded / deviation_of(estimates.reward, estimates.counted)

    def metrics(self, state: LimitState) -> dict[str, jax.Array]:
        """The multipliers, and the bias as the controller sees it."""
        return {"belief": state.foresight.belief, "mu": state.mu, "limited_bias": state.bias}

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


def limited_advantage(estimates: Estimates, slope: jax.Array, mu: jax.Array) -> jax.Array:
    """A_R / dev(A_R) - sum_c mu_c s_c A_b,c / dev(A_b,c).   -> [...]

    s_c = sum_g |slope_g| / 2 is 1 where two groups make up the whole bias and falls to 0 as all rates become equal.
    """
    bias = bias_advantage(estimates, slope)
    size = jnp.sum(jnp.abs(slope), axis=-1) / 2
    dev_reward, dev_bias = (deviation_of(signal, estimates.counted) for signal in (estimates.reward, bias))
    return estimates.reward / dev_reward - bias @ (mu * size / dev_bias)
