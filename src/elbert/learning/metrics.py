"""What an iteration showed: levels of reward and fairness, losses, and whether everything is still a number."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from elbert.fairness.rates import bias, soft_bias
from elbert.learning.advantages import known_rates
from elbert.learning.estimates import Estimates, Rollout, Running, Window
from elbert.learning.multiplier import Dual
from elbert.learning.networks import Weights


class Metrics(NamedTuple):
    """What one iteration showed."""

    reward: jax.Array  # [] mean per step, of the world (not of the method)
    supply: jax.Array  # [criteria, groups] mean per step
    demand: jax.Array  # [criteria, groups] mean per step
    rates: jax.Array  # [criteria, groups] eta_S / eta_D; NaN without demand
    bias: jax.Array  # [] the largest over criteria
    soft_bias: jax.Array  # [] the largest over criteria
    episodes: jax.Array  # [] that ended in this rollout
    policy_loss: jax.Array  # []
    value_loss: jax.Array  # [] mean over signals in their scale; their sum for separate critics
    entropy: jax.Array  # []
    kl: jax.Array  # [] of the old policy from the new one, E[(ratio - 1) - log ratio]
    clip_fraction: jax.Array  # []
    gradient_norm: jax.Array  # []
    explained_variance: jax.Array  # [] of the reward's value
    mu: jax.Array  # [criteria] relative multiplier of a limit on the bias; 1 without one
    price: jax.Array  # [criteria] reward of an episode per unit of bias; 0 without a limit
    limited_bias: jax.Array  # [criteria] the bias as the limit's controller sees it
    finite: jax.Array  # [len(CAUSES)] bool: whether each of `CAUSES` is all finite


CAUSES = ("observations", "rewards", "supply", "demand", "values", "advantages", "losses", "gradients", "weights")
"""What can be the first to become infinite or NaN, in the order in which one leads to the next."""


class Estimated(NamedTuple):
    """What a rollout says under the present critic."""

    estimates: Estimates
    observed: jax.Array  # [T, N, observation] normalised
    values: jax.Array  # [T, N, signals] in the signals' own units
    targets: jax.Array  # [T, N, signals] what the values should have been
    running: Running
    window: Window
    done: Window  # episodes that ended in this rollout


class Losses(NamedTuple):
    """Of one gradient step."""

    policy: jax.Array
    value: jax.Array
    entropy: jax.Array
    kl: jax.Array
    clip_fraction: jax.Array
    gradient_norm: jax.Array


def metrics_of(rollout: Rollout, known: Estimated, losses: Losses, weights: Weights, dual: Dual, beta: Any) -> Metrics:
    """The metrics of an iteration; losses are of the last epoch, beta is the temperature of the soft bias."""
    eta, values, targets = known.estimates.eta, known.values, known.targets
    counted = known.estimates.counted
    count = jnp.maximum(jnp.sum(counted), 1.0)
    rates = known_rates(eta)
    steady = rates - jnp.max(rates, axis=-1, keepdims=True)
    last = jax.tree.map(lambda x: jnp.mean(x[-1]), losses)
    spread = jnp.var(targets[..., 0])
    unexplained = jnp.var(targets[..., 0] - values[..., 0]) / jnp.where(spread > 0, spread, 1.0)
    finite = [
        rollout.observation,
        rollout.reward,
        rollout.supply,
        rollout.demand,
        values,
        targets,
        (losses.policy, losses.value),
        losses.gradient_norm,
        weights,
    ]
    return Metrics(
        jnp.sum(rollout.reward * counted) / count,
        jnp.sum(rollout.supply * counted[..., None, None], axis=(0, 1)) / count,
        jnp.sum(rollout.demand * counted[..., None, None], axis=(0, 1)) / count,
        jnp.where(eta.demand > 0, rates, jnp.nan),
        jnp.max(bias(rates)),
        jnp.max(soft_bias(steady, beta=beta)),
        known.done.episodes,
        last.policy,
        last.value,
        last.entropy,
        last.kl,
        last.clip_fraction,
        last.gradient_norm,
        jnp.where(spread > 0, 1 - unexplained, 0.0),
        dual.mu,
        dual.price,
        dual.bias,
        jnp.stack([_finite(part) for part in finite]),
    )


def _finite(tree: Any) -> jax.Array:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]))
