"""From a rollout to estimates: advantages of every signal, and episode totals eta.

Signals share the last axis: reward, then the supplies and then the demands of all criteria and groups, K = 1 + 2 C M.
Nothing here knows a network, a world or a method.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from elbert.fairness.rates import Totals
from elbert.learning import rollouts
from elbert.learning.rollouts import Running, Window


class Estimates(NamedTuple):
    """What a method turns into one advantage. Leading axes: time and copies, or one minibatch."""

    reward: jax.Array  # [...] advantage of the reward
    supply: jax.Array  # [..., criteria, groups] advantage of each supply
    demand: jax.Array  # [..., criteria, groups] advantage of each demand
    eta: Totals  # [criteria, groups] each: expected totals of an episode
    bias_before: jax.Array  # [...] bias of the running episode before the step
    bias_after: jax.Array  # [...] and after it
    counted: jax.Array  # [...] 1, or 0 where a copy was only reset: such a row says nothing


class Estimated(NamedTuple):
    """What a rollout says under the present critic."""

    estimates: Estimates
    observed: jax.Array  # [T, N, observation] normalised
    values: jax.Array  # [T, N, signals] in the signals' own units
    targets: jax.Array  # [T, N, signals] what the values should have been
    running: Running
    window: Window
    done: Window  # episodes that ended in this rollout


def signals_of(reward: jax.Array, supply: jax.Array, demand: jax.Array) -> jax.Array:
    """Reward, supplies and demands along one axis. [...], [..., C, M], [..., C, M] -> [..., 1 + 2 C M]"""
    lead = reward.shape
    return jnp.concatenate([reward[..., None], supply.reshape(*lead, -1), demand.reshape(*lead, -1)], axis=-1)


def split_signals(signals: jax.Array, criteria: int, groups: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The way back: [..., 1 + 2 C M] -> [...], [..., C, M], [..., C, M]"""
    lead, count = signals.shape[:-1], criteria * groups
    supply, demand = signals[..., 1 : 1 + count], signals[..., 1 + count :]
    return signals[..., 0], supply.reshape(*lead, criteria, groups), demand.reshape(*lead, criteria, groups)


def advantages(
    signals: jax.Array,  # [T, N, K] x_t
    values: jax.Array,  # [T, N, K] V(o_t)
    next_values: jax.Array,  # [T, N, K] V(o'_t)
    terminal: jax.Array,  # [T, N]
    ended: jax.Array,  # [T, N]
    *,
    gamma: float,
    gae_lambda: float,
) -> jax.Array:
    """A_t = delta_t + gamma lambda (1 - ended_t) A_t+1, delta_t = x_t + gamma (1 - terminal_t) V(o'_t) - V(o_t).

    Generalised advantage estimation of all signals x at once (Schulman et al. 2016). o'_t is what followed the step,
    before any reset, so that an episode that was merely cut off is continued by its value: only after a `terminal`
    step is there none. Where an episode `ended`, the next row belongs to another one.
    """
    delta = signals + gamma * jnp.where(terminal[..., None], 0.0, next_values) - values
    keep = gamma * gae_lambda * (1.0 - ended.astype(delta.dtype))

    def back(later: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        difference, kept = now
        advantage = difference + kept[:, None] * later
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros_like(delta[0]), (delta, keep), reverse=True, unroll=rollouts.UNROLL)[1]
