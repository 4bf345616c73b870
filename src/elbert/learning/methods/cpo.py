"""Constrained policy optimisation: the best step within a trust region that keeps the limit (Achiam et al. 2017).

With the slopes g of the reward and b of the bias, the Fisher matrix H and the excess c = bias - max_bias, a step x is

    max g.x   subject to   c + b.x <= 0,   x.H x / 2 <= region,

solved through its dual; where no step in the region keeps the limit, the bias alone is lowered. A line search shortens
the step until what was linearised holds. The critics learn by gradient steps as in every other method.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse.linalg import cg

from elbert.fairness.rates import Totals, ratio
from elbert.learning.estimates import Estimates, Window
from elbert.learning.methods.base import Clock, Compared
from elbert.learning.methods.duals import hard_bias
from elbert.learning.methods.limited import Limited
from elbert.learning.methods.weighing import standardised
from elbert.learning.settings import Setting, Settings

SOLVER_STEPS = 10  # of conjugate gradients
SHORTER = 0.8  # by which the line search shortens a step ...
TRIES = 10  # ... this many times, before it leaves the policy as it is
TINY = 1e-12


class Step(NamedTuple):
    """A step before the line search."""

    x: jax.Array  # [weights]
    multiplier: jax.Array  # [] nu of the limit
    recovers: jax.Array  # [] bool: it lowers the bias alone


class CPOState(NamedTuple):
    """What is carried from one iteration to the next."""

    left: jax.Array  # [] factor on the learning rates of the other methods, which fall to 0
    multiplier: jax.Array  # [criteria] of the latest step
    taken: jax.Array  # [criteria] part of the step that the line search left
    recovers: jax.Array  # [criteria] 1 where the step lowered the bias alone


class CPO(Limited):
    """A step in a trust region, with the linearised bias as its cost.

    As published: the dual, conjugate gradients, recovery, line search. Ours: the Fisher matrix is the mean of (d log
    pi)**2 over the actions taken; with several criteria the one that exceeds the limit most is the cost; the region
    shrinks as the learning rate of other methods does, so that the last policies are as quiet as theirs.
    """

    name: ClassVar[str] = "cpo"
    takes_steps: ClassVar[bool] = True
    ignores: ClassVar[tuple[str, ...]] = ("standardise", "standardise_over", "clip", "entropy_weight", "divergence")

    region: Annotated[float, Setting("mean divergence that one step may have", low=0, open_low=True)] = 0.03
    damping: Annotated[float, Setting("what is added to the diagonal of the Fisher matrix", low=0)] = 0.1

    @classmethod
    def adapted(cls, settings: Settings) -> Settings:
        """Its step knows no bonus for entropy, and `region` says how far it goes."""
        return replace(super().adapted(settings), entropy_weight=0.0, divergence=0.0)

    def start(self, criteria: int, groups: int) -> CPOState:
        """No step taken."""
        del groups
        return CPOState(jnp.ones((), jnp.float32), *(jnp.zeros(criteria, jnp.float32),) * 3)

    def advance(self, state: CPOState, estimates: Estimates, done: Window, clock: Clock) -> CPOState:
        """How much of the training is left."""
        del estimates, done
        return state._replace(left=jnp.asarray(clock.left, jnp.float32))

    def advantage(self, estimates: Estimates, state: CPOState) -> jax.Array:
        """The reward's own: the bias is a constraint of the step.   -> [...]"""
        del state
        return estimates.reward

    def loss(self, new: Compared, advantage: jax.Array, clip: float) -> jax.Array:
        """Nothing: gradient steps are for the critics.   -> [...]"""
        del advantage, clip
        return jnp.zeros_like(new.ratio)

    def stepped(
        self,
        policy: Any,
        state: CPOState,
        estimates: Estimates,
        log_prob: Callable[[Any], jax.Array],
        change: Callable[[Any], Totals],
    ) -> tuple[Any, CPOState]:
        """The policy after the step, and the state with its multiplier."""
        flat, restored = ravel_pytree(policy)
        counted, eta = estimates.counted, estimates.eta
        count = jnp.maximum(jnp.sum(counted), 1.0)
        advantage = standardised(estimates.reward, counted)
        biases, slope = hard_bias(eta)
        worst = jnp.arange(len(biases)) == jnp.argmax(biases)
        excess, rates = jnp.max(biases) - self.max_bias, ratio(eta.supply, eta.demand, otherwise=0.0)

        def log_probs(point: jax.Array) -> jax.Array:
            return log_prob(restored(point)) * counted

        def reward(point: jax.Array) -> jax.Array:
            return jnp.sum(jnp.exp(log_probs(point) - before) * advantage * counted) / count

        def cost(point: jax.Array) -> jax.Array:  # how far the bias moves, to first order
            moved = change(restored(point))
            return jnp.sum(jnp.where(worst[:, None], slope * (moved.supply - rates * moved.demand), 0.0))

        def divergence(point: jax.Array) -> jax.Array:
            log_ratio = log_probs(point) - before
            return jnp.sum((jnp.expm1(log_ratio) - log_ratio) * counted) / count

        before, pull = jax.vjp(log_probs, flat)
        push = jax.linear_transpose(pull, before)

        def fisher(x: jax.Array) -> jax.Array:
            return pull(push((x,))[0])[0] / count + self.damping * x

        present = reward(flat)
        region = self.region * state.left**2  # a step is as long as the root of this
        step = best_step(jax.grad(reward)(flat), jax.grad(cost)(flat), excess, fisher, region)

        def tried(part: jax.Array) -> jax.Array:
            point = flat + part * step.x
            near = divergence(point) <= region
            better = (excess > 0) | (reward(point) >= present)  # beyond the limit reward may be lost
            return near & better & (cost(point) <= jnp.maximum(-excess, 0.0))

        parts = SHORTER ** jnp.arange(TRIES)
        fits = jax.lax.map(tried, parts)
        part = jnp.where(jnp.any(fits), parts[jnp.argmax(fits)], 0.0)
        shown = (jnp.where(worst, x, 0.0) for x in (step.multiplier, part, step.recovers))
        return restored(flat + part * step.x), CPOState(state.left, *shown)

    def metrics(self, state: CPOState) -> dict[str, jax.Array]:
        """Of the latest step: its multiplier, the part that was taken, and whether it lowered the bias alone."""
        return {"multiplier": state.multiplier, "taken": state.taken, "recovers": state.recovers}


def best_step(
    g: jax.Array, b: jax.Array, c: jax.Array, fisher: Callable[[jax.Array], jax.Array], region: jax.Array
) -> "Step":
    """argmax of g.x subject to c + b.x <= 0 and x.H x / 2 <= region.

    x = (H^-1 g - nu H^-1 b) / scale. With q = g.H^-1 g, r = g.H^-1 b, s = b.H^-1 b the dual is, for nu > 0,
    (q - r**2 / s) / (2 scale) + scale (region - c**2 / (2 s)) - r c / s with nu = (r + scale c) / s, and for nu = 0
    q / (2 scale) + scale region. Each is least at a scale that is brought to where nu has its sign. Where c**2 / s > 2
    region the boundary of the limit does not meet the region: inside the limit it is passed over; outside, x lowers
    the bias alone.
    """
    towards_g, towards_b = (cg(fisher, x, maxiter=SOLVER_STEPS)[0] for x in (g, b))
    q, r, s = g @ towards_g, g @ towards_b, b @ towards_b
    felt = s > TINY  # a bias that no step changes is no constraint
    s = jnp.where(felt, s, 1.0)
    reach = 2 * region - c**2 / s
    lost, passed = felt & (reach <= 0) & (c > 0), ~felt | ((reach <= 0) & (c <= 0))
    away = jnp.where(jnp.abs(c) > TINY, c, -TINY)
    edge = -r / away  # nu > 0 above it if c > 0, below it otherwise
    low, high = jnp.where(c > 0, jnp.maximum(edge, TINY), TINY), jnp.where(c > 0, jnp.inf, edge)
    low_free, high_free = jnp.where(c > 0, TINY, jnp.maximum(edge, TINY)), jnp.where(c > 0, edge, jnp.inf)
    rest, length = jnp.maximum(q - r**2 / s, 0.0), jnp.maximum(reach, TINY)
    bound = jnp.clip(jnp.sqrt(rest / length), low, jnp.maximum(high, low))
    unbound = jnp.sqrt(q / (2 * region))
    free = jnp.clip(unbound, low_free, jnp.maximum(high_free, low_free))
    value_bound = jnp.where(high > low, rest / (2 * bound) + bound * length / 2 - r * c / s, jnp.inf)
    value_free = jnp.where(high_free > low_free, q / (2 * free) + free * region, jnp.inf)
    takes_bound = ~passed & (value_bound <= value_free)
    scale = jnp.where(passed, unbound, jnp.where(takes_bound, bound, free))
    nu = jnp.where(takes_bound, jnp.maximum((r + scale * c) / s, 0.0), 0.0)
    step = (towards_g - nu * towards_b) / jnp.maximum(scale, TINY)
    recovery = -jnp.sqrt(2 * region / s) * towards_b
    return Step(jnp.where(lost, recovery, step), jnp.where(lost, 0.0, nu), lost)
