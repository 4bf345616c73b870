"""A limit on the bias in place of a coefficient: maximise reward subject to bias <= limit.

The Lagrangian of the constrained problem (Xu et al. 2024, equation 2) is eta_R - sum_c lambda_c (b_c - limit), one
multiplier for each criterion c. Its gradient has the advantage A_R - sum_c lambda_c A_b,c with the linearised bias

    A_b,c = sum_g db_c/dz_g (A_S,g / eta_D,g - eta_S,g A_D,g / eta_D,g**2)

A multiplier in units of reward would need a new scale for every environment. Here lambda = mu dev(A_R) / dev(A_b):
mu says how many deviations of the reward's advantage one deviation of the bias's weighs, and 1 is a fair start
everywhere. mu follows the bias by proportional and integral control of its logarithm (after Stooke et al. 2020, who
control lambda itself), so that it stays positive and crosses orders of magnitude in a few dozen iterations:

    e = clip(x / limit**2 - AIM, -1, 2) / (1 + n / limit**2),   I <- I + gain e,   mu = exp(I + PROPORTIONAL e)

The bias of a few episodes is biased upwards: a controller that believes it pushes for ever. x is the squared bias in
the totals of the latest rollouts, older ones fading, less n, what their differences from one another would show by
chance: these are the noise of the episodes and the policy's own steps to and fro, which pushing harder makes larger.
Where n is large beside the limit, more rollouts are taken, and an error that says little moves mu little. The error is
linear in x and not in a root of it, whose mean would be too small. Which groups are ahead is judged by the very latest
episodes: with old ones the policy would still be pushed when it is there.
"""

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from elbert.fairness.rates import Totals, soft_bias
from elbert.learning.estimates import Estimates, Window

KEEP, KEEP_LONG, KEEP_RECENT = 0.8, 0.95, 0.5
"""Weight that the totals of earlier episodes keep from one iteration to the next: for the bias, for the bias where that
would show more noise than the limit, for the slopes."""

PART = 0.2
"""The part of the iterations so far that the longer memory reaches back at most: how it began does not count."""

AIM = 0.5
"""Part of the squared limit that is aimed at: a policy at the limit itself could not be told from one beyond it."""

INTEGRAL, PROPORTIONAL = 15.0, 0.5
"""Of the control. What the integral gains from an error of 1 is INTEGRAL / iterations, so that it can move by as much
in a short training as in a long one, but never more than INTEGRAL_MOST at a time."""

INTEGRAL_MOST, INTEGRAL_LEAST = 0.2, 0.3
"""The gain at most, and the part of it that is left when the learning rate has fallen to 0."""

FEWEST = 1.5
"""One rollout alone says nothing about its noise: the multipliers wait for more."""

LEAST, MOST = -4.0, 3.0
"""The logarithm of mu stays between these. Beyond, only one of the two would be followed: the reward, or the bias,
which is as low where all are served equally badly."""

SMOOTH = 3.0
"""beta * size of the soft bias whose slope is used: differences of the size of the limit, or of what one iteration
changes if that is more, count; smaller ones fade. A policy that is always pushed with full force swings for ever."""

KEEP_MOVED = 0.8
"""Weight of earlier changes in what one iteration changes."""


class Seen(NamedTuple):
    """Totals of rollouts, older ones fading, and what the noise of the rates is made from.   [criteria, groups] each"""

    supply: jax.Array
    demand: jax.Array
    squares: tuple[jax.Array, jax.Array, jax.Array]  # of the rollouts' S**2, S D, D**2, their weights squared
    weight: jax.Array  # sum of weights of the rollouts with demand
    weights: jax.Array  # sum of their squared weights

    @staticmethod
    def nothing(criteria: int, groups: int) -> "Seen":
        """Before the first rollout."""
        none = jnp.zeros((criteria, groups), jnp.float32)
        return Seen(none, none, (none, none, none), none, none)

    def faded(self, keep: float | jax.Array, done: Window) -> "Seen":
        """With the episodes that ended in one more rollout.

        A rollout in which a group was neglected can have a hundred times its usual demand and would outweigh all that
        follow it: earlier totals keep at most the weight that rollouts with as much demand D as this one would have
        together, D keep / (1 - keep).
        """
        supply, demand = done.supply, done.demand
        most = demand * keep / (1 - keep) / jnp.maximum(self.demand, 1e-8)
        kept = jnp.where(demand > 0, jnp.minimum(keep, most), 1.0)
        products = supply**2, supply * demand, demand**2
        one = (demand > 0).astype(jnp.float32)
        squares = tuple(kept**2 * old + new for old, new in zip(self.squares, products, strict=True))
        return Seen(
            kept * self.supply + supply,
            kept * self.demand + demand,
            (squares[0], squares[1], squares[2]),
            kept * self.weight + one,
            kept**2 * self.weights + one,
        )

    def rates(self) -> tuple[jax.Array, jax.Array, jax.Array]:
        """z = S / D, the variance of its noise, and whether both are known; 0 where not.   [criteria, groups] each

        The variance is n / (n - 1) sum_i w_i**2 (S_i - z D_i)**2 / D**2 (delta method; rollouts i with weights w_i, n
        = (sum w)**2 / sum w**2). Rollouts differ by the chance of their episodes and by the steps that the policy makes
        to and fro between them: neither can be pushed away.
        """
        due = jnp.where(self.demand > 0, self.demand, 1.0)
        z = jnp.where(self.demand > 0, self.supply / due, 0.0)
        supply, both, demand = self.squares
        count = self.weight**2 / jnp.maximum(self.weights, 1e-8)
        known = count > FEWEST
        few = jnp.where(known, count / jnp.where(known, count - 1.0, 1.0), 0.0)
        variance = few * (supply - 2 * z * both + z**2 * demand) / due**2
        return z, jnp.maximum(variance, 0.0), known


class Dual(NamedTuple):
    """What the controller carries from one iteration to the next."""

    seen: Seen  # for the bias
    longer: Seen  # for the bias where there is much noise
    recent: Seen  # for the slopes
    last: Totals  # [criteria, groups] of the latest rollout with demand
    moved: jax.Array  # [criteria] how far the groups' rates move apart or together from one rollout to the next
    integral: jax.Array  # [criteria] I
    mu: jax.Array  # [criteria] relative multiplier
    bias: jax.Array  # [criteria] sign(x) sqrt(|x|)
    price: jax.Array  # [criteria] reward of an episode per unit of bias, older values fading


def start(criteria: int, groups: int) -> Dual:
    """Before the first iteration: mu = 1."""
    none = jnp.zeros((criteria, groups), jnp.float32)
    each = jnp.zeros(criteria, jnp.float32)
    seen = Seen.nothing(criteria, groups)
    return Dual(seen, seen, seen, Totals(none, none), each, each, jnp.ones(criteria, jnp.float32), each, each)


def controlled(dual: Dual, done: Window, *, limit: jax.Array, gain: jax.Array, iteration: jax.Array) -> Dual:
    """Take in the episodes of a rollout and move the multipliers. `gain` is the integral's; iterations count from 0."""
    keep_long = jnp.clip(1.0 - 1.0 / (PART * (iteration + 1)), KEEP, KEEP_LONG)
    seen, longer = dual.seen.faded(KEEP, done), dual.longer.faded(keep_long, done)
    recent = dual.recent.faded(KEEP_RECENT, done)
    short, long = squared_bias(seen), squared_bias(longer)
    square, noise, known = (jnp.where(short[1] > limit**2, b, a) for a, b in zip(short, long, strict=True))
    new = jnp.sum(done.demand, axis=-1) > 0
    bias = jnp.sign(square) * jnp.sqrt(jnp.abs(square))
    error = jnp.where(known, jnp.clip(square / limit**2 - AIM, -1.0, 2.0), 0.0) / (1.0 + noise / limit**2)
    integral = jnp.clip(dual.integral + jnp.where(new, gain * error, 0.0), LEAST, MOST)
    mu = jnp.exp(jnp.clip(integral + PROPORTIONAL * error, LEAST, MOST))
    due = done.demand > 0
    last = Totals(*(jnp.where(due, new, old) for new, old in zip(done[:2], dual.last, strict=True)))
    return dual._replace(
        seen=seen,
        longer=longer,
        recent=recent,
        last=last,
        moved=_moved(dual, done),
        integral=integral,
        mu=mu,
        bias=bias,
    )


def _moved(dual: Dual, done: Window) -> jax.Array:
    """range_g(z_g - the z_g of the rollout before), smoothed; noise is part of it.   -> [criteria]"""
    both = (done.demand > 0) & (dual.last.demand > 0)
    now, before = (
        jnp.where(both, supply / jnp.where(both, demand, 1.0), 0.0)
        for supply, demand in (done[:2], (dual.last.supply, dual.last.demand))
    )
    change = now - before
    spread = jnp.max(jnp.where(both, change, -jnp.inf), axis=-1) - jnp.min(jnp.where(both, change, jnp.inf), axis=-1)
    smooth = jnp.where(dual.moved > 0, KEEP_MOVED * dual.moved + (1 - KEEP_MOVED) * spread, spread)
    return jnp.where(jnp.sum(both, axis=-1) > 1, smooth, dual.moved)


def squared_bias(seen: Seen) -> tuple[jax.Array, jax.Array, jax.Array]:
    """x = range(z)**2 - n with n = E[range(noise)**2]; n; whether they are known.   -> [criteria] each

    Below 0 where the rates differ less than noise alone would make them: cut off at 0 it would be biased upwards. x has
    the mean of the squared bias where 2 groups are compared or all are equal, else a little less.
    """
    z, variance, known = seen.rates()
    count = jnp.sum(known, axis=-1)
    spread = jnp.max(jnp.where(known, z, -jnp.inf), axis=-1) - jnp.min(jnp.where(known, z, jnp.inf), axis=-1)
    table = jnp.asarray(_range_squared(z.shape[-1]))
    noise = table[count] * jnp.sum(variance, axis=-1) / jnp.maximum(count, 1)
    return jnp.where(count > 1, spread**2 - noise, 0.0), noise, count > 1


def slopes(dual: Dual, limit: jax.Array) -> jax.Array:
    """db_c/dz_g of the soft bias at the latest rates, beta = SMOOTH / max(limit, moved); 0 where demand is none.

    [criteria, groups]
    """
    rates, known = dual.recent.rates()[0], dual.recent.demand > 0
    count = jnp.maximum(jnp.sum(known, axis=-1, keepdims=True), 1)
    filled = jnp.where(known, rates, jnp.sum(rates, axis=-1, keepdims=True) / count)
    beta = SMOOTH / jnp.maximum(limit, dual.moved)[:, None]  # [criteria, 1]
    slope = jax.grad(lambda z: jnp.sum(jnp.asarray(soft_bias(beta * z, beta=1.0)) / beta[:, 0]))(filled)
    return jnp.where(known, slope, 0.0)


def limited_advantage(estimates: Estimates, slope: jax.Array, mu: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A_R / dev(A_R) - sum_c mu_c s_c A_b,c / dev(A_b,c), and the prices lambda_c.   -> [...], [criteria]

    s_c = sum_g |slope_g| / 2 is 1 where two groups make up the whole bias and falls to 0 as all rates become equal.
    The price is the reward of an episode that one unit of bias is worth, mu_c s_c**2 dev(A_R) / dev(A_b,c).
    """
    eta, counted = estimates.eta, estimates.counted
    bias = linearised(estimates.supply, estimates.demand, eta, slope)
    size = jnp.sum(jnp.abs(slope), axis=-1) / 2
    dev_reward, dev_bias = deviation(estimates.reward[..., None], counted)[0], deviation(bias, counted)
    weight = mu * size / dev_bias
    return estimates.reward / dev_reward - bias @ weight, weight * size * dev_reward


def linearised(supply: jax.Array, demand: jax.Array, eta: Totals, slope: jax.Array) -> jax.Array:
    """A_b,c = sum_g slope_g (A_S,g / eta_D,g - eta_S,g A_D,g / eta_D,g**2).   [..., criteria, groups] -> [..., c]"""
    known = eta.demand > 0
    due = jnp.where(known, eta.demand, 1.0)
    for_supply, for_demand = jnp.where(known, slope / due, 0.0), jnp.where(known, slope * eta.supply / due**2, 0.0)
    return jnp.einsum("...cg,cg->...c", supply, for_supply) - jnp.einsum("...cg,cg->...c", demand, for_demand)


def deviation(x: jax.Array, counted: jax.Array) -> jax.Array:
    """Over the samples that count. [..., n], [...] -> [n]"""
    axes = tuple(range(counted.ndim))
    weight = (counted / jnp.maximum(jnp.sum(counted), 1.0))[..., None]
    mean = jnp.sum(weight * x, axis=axes, keepdims=True)
    return jnp.sqrt(jnp.sum(weight * (x - mean) ** 2, axis=axes)) + 1e-8


@cache
def _range_squared(groups: int) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    """E[range**2] of 0 to so many independent standard normal numbers: 0, 0, 2, 3.65 ... by simulation."""
    draws = np.random.default_rng(0).standard_normal((20_000, groups))
    rows = [np.mean(np.ptp(draws[:, :k], axis=1) ** 2) if k > 1 else 0.0 for k in range(groups + 1)]
    if groups >= 2:
        rows[2] = 2.0
    return np.asarray(rows, np.float32)
