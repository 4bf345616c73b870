"""A policy acts: observations are normalised, the actor gives a distribution, an action is drawn from it."""

from functools import partial
from typing import NamedTuple

import jax

from elbert.learning.networks import Model, Moments, Scale, Weights


class Policy(NamedTuple):
    """What acts: the weights, and the moments by which observations are normalised."""

    weights: Weights
    moments: Moments


def act(
    model: Model, policy: Policy, observations: jax.Array, noise: jax.Array, *, deterministic: bool = False
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """Actions, or the most probable ones, their log p, and what is carried along. [N, n], [N, ...] -> [N, ...]

    They are as sampled; `Distribution.to_env` makes them the environment's. Where a memory is learned, it stands behind
    the observation; where none is, nothing is carried along: None.
    """
    numbers, carried = model.acted(policy.weights, model.normalised(policy.moments, observations))
    distribution = model.distribution
    action = distribution.mode(numbers) if deterministic else distribution.sample(numbers, noise)
    return action, distribution.log_prob(numbers, action), carried


@partial(jax.jit, static_argnums=0)
def numbers_from(model: Model, policy: Policy, observations: jax.Array) -> jax.Array:
    """The numbers of the distribution over actions, compiled. [N, observation] -> [N, numbers]"""
    return model.policy(policy.weights, model.normalised(policy.moments, observations))


@partial(jax.jit, static_argnums=0)
def values_from(model: Model, policy: Policy, scale: Scale, observations: jax.Array) -> jax.Array:
    """What the critic expects of every signal, in the signals' units. [N, observation] -> [N, signals]"""
    return model.values(policy.weights, scale, model.normalised(policy.moments, observations)[None])[0]


@partial(jax.jit, static_argnums=(0, 4))
def act_from_key(
    model: Model, policy: Policy, observations: jax.Array, key: jax.Array, deterministic: bool = False
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """`act` with noise drawn from a key, compiled."""
    noise = model.distribution.noise(key, (observations.shape[0],))
    return act(model, policy, observations, noise, deterministic=deterministic)
