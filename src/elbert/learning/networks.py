"""The networks: an actor, and a critic that values every signal (reward, supplies, demands).

A `Model` holds what never changes (shapes, the kind of distribution); what is learned is a pytree of arrays, `Weights`,
that goes in and comes out of pure functions.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from elbert.learning.distributions import Distribution
from elbert.learning.settings import Settings

LARGEST_OBSERVATION = 10.0  # normalised observations are clipped here: a rare outlier must not throw a policy off
SMALLEST_DEVIATION = 1e-4  # a number that varies less than this is not stretched to deviation 1
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"tanh": jnp.tanh, "relu": jax.nn.relu}


@dataclass(frozen=True)
class Shape:
    """What a learner must know of a problem."""

    observation: int  # numbers in one observation
    actions: Distribution
    criteria: tuple[str, ...]
    groups: int

    @property
    def benefits(self) -> tuple[int, int]:
        """The number of criteria and of groups."""
        return len(self.criteria), self.groups

    @property
    def signals(self) -> int:
        """The reward, and supply and demand of every criterion and group."""
        return 1 + 2 * math.prod(self.benefits)


class Network(eqx.Module):
    """Linear layers with an activation between them."""

    layers: tuple[eqx.nn.Linear, ...]
    activation: str = eqx.field(static=True)

    def __init__(self, key: jax.Array, sizes: tuple[int, ...], activation: str, head_gain: float) -> None:
        """Orthogonal weights of gain sqrt 2, of the gain given for the last layer; biases 0."""
        gains = [2**0.5] * (len(sizes) - 2) + [head_gain]
        layers = zip(jax.random.split(key, len(gains)), sizes[:-1], sizes[1:], gains, strict=True)
        self.layers, self.activation = tuple(_linear(*layer) for layer in layers), activation

    def __call__(self, x: jax.Array) -> jax.Array:
        """[inputs] -> [outputs]"""
        for layer in self.layers[:-1]:
            x = ACTIVATIONS[self.activation](layer(x))
        return self.layers[-1](x)


class Weights(NamedTuple):
    """What is learned by gradients."""

    actor: Network  # observation -> numbers of the distribution
    log_std: jax.Array  # [n] log deviations of a Gaussian policy; [0] for choices
    critic: Network  # observation -> a head per signal; or a stack of networks, the signals in front of every array


class Moments(NamedTuple):
    """Running mean and squared deviations (Chan et al. 1983): exact over everything seen."""

    seen: jax.Array  # [] how many
    mean: jax.Array  # [n]
    squares: jax.Array  # [n] sum of squared deviations from the mean

    @classmethod
    def unseen(cls, numbers: int) -> "Moments":
        """Before the first observation."""
        zeros = jnp.zeros(numbers, jnp.float32)
        return cls(jnp.zeros((), jnp.float32), zeros, zeros)

    def moved(self, observations: jax.Array) -> "Moments":
        """The moments with these observations included. [..., n]"""
        new = observations.reshape(-1, observations.shape[-1])
        count = jnp.asarray(new.shape[0], jnp.float32)
        mean = jnp.mean(new, axis=0)
        squares = jnp.sum((new - mean[None]) ** 2, axis=0)
        total, apart = self.seen + count, mean - self.mean
        between = apart**2 * self.seen * count / total
        return Moments(total, self.mean + apart * count / total, self.squares + squares + between)

    def factors(self) -> jax.Array:
        """1 / deviation; 1 for a number that hardly varies. [n]"""
        deviation = jnp.sqrt(self.squares / jnp.maximum(self.seen, 1.0))
        return 1 / jnp.where(deviation > SMALLEST_DEVIATION, deviation, 1.0)


class Scale(NamedTuple):
    """Each signal's location and size, in which the critic's heads count."""

    mean: jax.Array  # [signals]
    deviation: jax.Array  # [signals]

    @classmethod
    def unit(cls, signals: int) -> "Scale":
        """Mean 0 and deviation 1."""
        return cls(jnp.zeros(signals, jnp.float32), jnp.ones(signals, jnp.float32))

    def moved(self, targets: jax.Array, counted: jax.Array, keep: jax.Array) -> "Scale":
        """Mean and deviation of the targets that count, of which the old ones keep a part. [T, N, signals], [T, N]"""
        weight = (counted / jnp.maximum(jnp.sum(counted), 1.0))[..., None]
        mean = keep * self.mean + (1 - keep) * jnp.sum(weight * targets, axis=(0, 1))
        old = self.deviation**2 + (self.mean - mean) ** 2
        new = jnp.sum(weight * (targets - mean[None, None]) ** 2, axis=(0, 1))
        return Scale(mean, jnp.maximum(jnp.sqrt(keep * old + (1 - keep) * new), 1e-4))


class Model:
    """Shapes and functions of the networks. Models that compute the same are equal, so that JAX compiles them once."""

    def __init__(self, settings: Settings, shape: Shape) -> None:
        """The networks that learn a problem of this shape."""
        self.settings, self.shape, self.distribution = settings, shape, shape.actions
        layers = (settings.hidden, settings.activation, settings.critic, settings.normalise_observations)
        self._identity = (*layers, shape.observation, shape.signals, shape.actions)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def init(self, key: jax.Array) -> Weights:
        """Orthogonal weights (gain sqrt 2; 0.01 for the action head, 1 for value heads), zero biases."""
        key_actor, key_critic = jax.random.split(key)
        d, s, signals = self.distribution, self.settings, self.shape.signals
        trunk = (self.shape.observation, *s.hidden)
        actor = Network(key_actor, (*trunk, d.size), s.activation, 0.01)
        if s.critic == "shared":
            critic = Network(key_critic, (*trunk, signals), s.activation, 1.0)
        else:
            each = [Network(key, (*trunk, 1), s.activation, 1.0) for key in jax.random.split(key_critic, signals)]
            critic = jax.tree.map(lambda *parts: jnp.stack(parts), *each)
        log_std = jnp.full(d.size if d.learns_deviation else 0, math.log(s.initial_deviation), jnp.float32)
        return Weights(actor, log_std, critic)

    def policy(self, weights: Weights, observations: jax.Array) -> jax.Array:
        """The numbers of the distribution over actions. [batch, observation] -> [batch, numbers]"""
        numbers = jax.vmap(weights.actor)(observations)
        if not self.distribution.learns_deviation:
            return numbers
        log_std = jnp.broadcast_to(weights.log_std[None], numbers.shape)
        return jnp.concatenate([numbers, log_std], axis=-1)

    def scaled_values(self, weights: Weights, observations: jax.Array) -> jax.Array:
        """What the heads say, in each signal's scale. [batch, observation] -> [batch, signals]"""
        if self.settings.critic == "shared":
            return jax.vmap(weights.critic)(observations)
        return jax.vmap(lambda critic: jax.vmap(critic)(observations)[:, 0], out_axes=1)(weights.critic)

    def values(self, weights: Weights, scale: Scale, observations: jax.Array) -> jax.Array:
        """Values in the signals' own units. [T, N, observation] -> [T, N, signals]"""
        flat = observations.reshape(-1, observations.shape[-1])
        scaled = self.scaled_values(weights, flat).reshape(*observations.shape[:-1], -1)
        return scaled * scale.deviation[None, None] + scale.mean[None, None]

    def normalised(self, moments: Moments, observations: jax.Array) -> jax.Array:
        """(o - mean) / deviation, clipped; as they are where normalisation is off. [..., observation] -> same"""
        if not self.settings.normalise_observations:
            return observations
        row = (*(1,) * (observations.ndim - 1), -1)
        moved = (observations - moments.mean.reshape(row)) * moments.factors().reshape(row)
        return jnp.clip(moved, -LARGEST_OBSERVATION, LARGEST_OBSERVATION)

    @staticmethod
    def rescaled(weights: Weights, old: Scale, new: Scale) -> Weights:
        """The same values in another scale: the heads absorb the change (van Hasselt et al. 2016)."""
        head = weights.critic.layers[-1]
        assert head.bias is not None
        row = (-1, *(1,) * (head.bias.ndim - 1))
        ratio = (old.deviation / new.deviation).reshape(row)
        shift = ((old.mean - new.mean) / new.deviation).reshape(row)
        moved = (head.weight * ratio[..., None], head.bias * ratio + shift)
        critic = eqx.tree_at(lambda c: (c.layers[-1].weight, c.layers[-1].bias), weights.critic, moved)
        return weights._replace(critic=critic)


def _linear(key: jax.Array, inputs: int, outputs: int, gain: float) -> eqx.nn.Linear:
    layer = eqx.nn.Linear(inputs, outputs, key=key)
    weight = jax.block_until_ready(jax.nn.initializers.orthogonal(gain)(key, (outputs, inputs), jnp.float32))
    return eqx.tree_at(lambda one: (one.weight, one.bias), layer, (weight, jnp.zeros(outputs, jnp.float32)))
