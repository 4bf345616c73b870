"""What an iteration showed: levels of reward and fairness, losses, and whether everything is still a number."""

from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from elbert.fairness.rates import DEFAULT_BETA, bias, soft_bias
from elbert.learning.estimates import Estimated
from elbert.learning.methods.base import Method
from elbert.learning.methods.weighing import filled_rates
from elbert.learning.networks import Weights
from elbert.learning.rollouts import Rollout

Losses: TypeAlias = dict[str, jax.Array]
"""What a gradient step showed, under the names of `Metrics`."""


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
    method: dict[str, jax.Array]  # what the method shows, [criteria] each
    finite: jax.Array  # [len(CAUSES)] bool: whether each of `CAUSES` is all finite


CAUSES = ("observations", "rewards", "supply", "demand", "values", "advantages", "losses", "gradients", "weights")
"""What can be the first to become infinite or NaN, in the order in which one leads to the next."""
GIVEN_CAUSES = CAUSES[:4]  # by the environment


def metrics_of(
    rollout: Rollout, estimated: Estimated, losses: Losses, weights: Weights, method: Method, method_state: Any
) -> Metrics:
    """The metrics of an iteration; losses are of the last epoch."""
    eta, values, targets = estimated.estimates.eta, estimated.values, estimated.targets
    counted = estimated.estimates.counted
    count = jnp.maximum(jnp.sum(counted), 1.0)
    rates = filled_rates(eta.supply, eta.demand)
    steady = rates - jnp.max(rates, axis=-1, keepdims=True)  # the soft bias is the same, and cannot overflow
    last = jax.tree.map(lambda x: jnp.mean(x[-1]), losses)
    spread = jnp.var(targets[..., 0])
    unexplained = jnp.var(targets[..., 0] - values[..., 0]) / jnp.where(spread > 0, spread, 1.0)
    causes = (
        *(rollout.observation, rollout.reward, rollout.supply, rollout.demand),
        *(values, targets),
        *((losses["policy_loss"], losses["value_loss"]), losses["gradient_norm"], weights),
    )
    return Metrics(
        reward=jnp.sum(rollout.reward * counted) / count,
        supply=jnp.sum(rollout.supply * counted[..., None, None], axis=(0, 1)) / count,
        demand=jnp.sum(rollout.demand * counted[..., None, None], axis=(0, 1)) / count,
        rates=jnp.where(eta.demand > 0, rates, jnp.nan),
        bias=jnp.max(bias(rates)),
        soft_bias=jnp.max(soft_bias(steady, beta=getattr(method, "beta", DEFAULT_BETA))),
        episodes=estimated.done.episodes,
        **last,
        explained_variance=jnp.where(spread > 0, 1 - unexplained, 0.0),
        method=method.metrics(method_state),
        finite=jnp.stack([_all_finite(cause) for cause in causes]),
    )


def _all_finite(tree: Any) -> jax.Array:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]))
