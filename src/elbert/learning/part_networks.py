"""Networks that score each part of a problem with the same weights: permuting the parts permutes what they say.

    e_i = f(W_1 [o_i, c_i, o])                                 of part i: o_i is observed, c_i is known; o concerns all
    e_i = f(W_k [e_i, mean over all, mean over neighbours])    for every further hidden layer

The actor has numbers for each part, from e_i. The critic has values for each group, from the mean over its parts. The
parts themselves are not learned: they are an argument, and the networks hold nothing but weights.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from elbert.envs.parts import Parts
from elbert.learning.layers import ACTIVATIONS, linear
from elbert.learning.neighbours import neighbour_mean
from elbert.learning.part_actions import PartActions

DENSE_SHARES = 2**20
"""Up to this many groups times parts, a matrix product takes the means over groups; above it, they are added up."""


class PartEncoder(eqx.Module):
    """From an observation to a row of numbers for each part."""

    layers: tuple[eqx.nn.Linear, ...]
    activation: str = eqx.field(static=True)

    def __init__(
        self, key: jax.Array, parts: Parts, observation: int, hidden: tuple[int, ...], activation: str
    ) -> None:
        """Orthogonal weights of gain sqrt 2. A single width is used twice, so that parts get to know of each other."""
        widths = list(hidden) if len(hidden) > 1 else [*hidden, *hidden]
        seen = parts.observed.shape[1] + parts.features.shape[1] + len(parts.others(observation))
        mixed = 2 if parts.edges is None else 3
        inputs = [seen, *(mixed * width for width in widths[:-1])]
        layers = zip(jax.random.split(key, len(widths)), inputs, widths, strict=True)
        self.layers = tuple(linear(*layer, gain=2**0.5) for layer in layers)
        self.activation = activation

    def __call__(self, parts: Parts, observation: jax.Array) -> jax.Array:
        """[observation] -> [parts, width]"""
        activation, (first, *further) = ACTIVATIONS[self.activation], self.layers
        own, known, shared = jnp.split(first.weight, _ends(parts), axis=1)
        others = observation[parts.others(observation.shape[0])]
        x = part_rows(parts, observation) @ own.T + jnp.asarray(parts.standardised) @ known.T
        x = activation(x + _of_all(first, shared, others))
        for layer in further:
            own, common, *near = jnp.split(layer.weight, 2 if parts.edges is None else 3, axis=1)
            mixed = x @ own.T + _of_all(layer, common, jnp.mean(x, axis=0))
            x = activation(mixed + neighbour_mean(parts, x) @ near[0].T if near else mixed)
        return x


def _ends(parts: Parts) -> list[int]:
    """Where a part's own numbers and its features end among the inputs of the first layer."""
    own = parts.observed.shape[1]
    return [own, own + parts.features.shape[1]]


def _of_all(layer: eqx.nn.Linear, weight: jax.Array, shared: jax.Array) -> jax.Array:
    """What all parts have in common, as a row to add to each. [outputs, n], [n] -> [1, outputs]"""
    assert layer.bias is not None
    return (weight @ shared + layer.bias)[None]


def part_rows(parts: Parts, observation: jax.Array) -> jax.Array:
    """What is observed of each part. [observation] -> [parts, n]"""
    places = parts.observed
    inside = observation[: places.size]
    if np.array_equal(places.reshape(-1), np.arange(places.size)):  # part by part: nothing has to be gathered
        return inside.reshape(places.shape)
    if np.array_equal(places.T.reshape(-1), np.arange(places.size)):  # number by number
        return inside.reshape(places.shape[::-1]).T
    return observation[places]


def group_mean(group: np.ndarray, groups: int, x: jax.Array) -> jax.Array:
    """Mean over the parts of each group. [parts], [parts, n] -> [groups, n]"""
    if np.array_equal(group, np.arange(groups)):
        return x
    share = (1.0 / np.bincount(group, minlength=groups)).astype(np.float32)
    if groups * len(group) <= DENSE_SHARES:
        mask = np.arange(groups)[:, None] == group[None]
        return jnp.asarray(np.where(mask, share[:, None], np.float32(0))) @ x
    return jax.ops.segment_sum(x, group, groups) * share[:, None]


class PartActor(eqx.Module):
    """The numbers of a distribution over actions, from rows for each part."""

    encoder: PartEncoder
    head: eqx.nn.Linear  # numbers of each part
    rest: eqx.nn.Linear | None  # numbers that belong to no part, from the mean over all

    def __call__(self, parts: Parts, observation: jax.Array) -> jax.Array:
        """[observation] -> [numbers]"""
        rows = self.encoder(parts, observation)
        numbers = jax.vmap(self.head)(rows).reshape(-1)
        return numbers if self.rest is None else jnp.concatenate([numbers, self.rest(jnp.mean(rows, axis=0))])


class PartCritic(eqx.Module):
    """A value for each signal: of the reward from the mean over all parts, of a group's benefits from its parts too."""

    encoder: PartEncoder
    reward: eqx.nn.Linear
    benefits: eqx.nn.Linear  # supply and demand of each criterion, for one group; for all if parts have no group
    gain: jax.Array  # [signals] in which the signals' scales differ
    shift: jax.Array  # [signals]
    groups: int = eqx.field(static=True)

    def __call__(self, parts: Parts, observation: jax.Array) -> jax.Array:
        """[observation] -> [signals]"""
        rows = self.encoder(parts, observation)
        every = jnp.mean(rows, axis=0)
        if parts.group is None:
            benefits = self.benefits(every)
        else:
            mean = group_mean(parts.group, self.groups, rows)  # [groups, width]
            both = jnp.concatenate([mean, jnp.broadcast_to(every[None], mean.shape)], axis=1)
            benefits = jax.vmap(self.benefits)(both).T.reshape(-1)  # supplies of all criteria and groups, then demands
        return self.gain * jnp.concatenate([self.reward(every), benefits]) + self.shift

    def rescaled(self, ratio: jax.Array, shift: jax.Array) -> "PartCritic":
        """The same values in another scale: ratio * value + shift. [signals] each"""
        moved = (self.gain * ratio, self.shift * ratio + shift)
        return eqx.tree_at(lambda critic: (critic.gain, critic.shift), self, moved)


def part_networks(
    keys: tuple[jax.Array, jax.Array],
    parts: Parts,
    actions: PartActions,
    *,
    observation: int,
    hidden: tuple[int, ...],
    activation: str,
    criteria: int,
    groups: int,
) -> tuple[PartActor, PartCritic]:
    """Actor and critic with fresh weights, each from its key."""
    width, signals = hidden[-1], 2 * criteria * groups
    key_encoder, key_head, key_rest = jax.random.split(keys[0], 3)
    actor = PartActor(
        encoder=PartEncoder(key_encoder, parts, observation, hidden, activation),
        head=linear(key_head, width, actions.each, 0.01),
        rest=linear(key_rest, width, actions.rest, 0.01) if actions.rest else None,
    )
    key_encoder, key_reward, key_benefits = jax.random.split(keys[1], 3)
    sizes = (width, signals) if parts.group is None else (2 * width, 2 * criteria)
    critic = PartCritic(
        encoder=PartEncoder(key_encoder, parts, observation, hidden, activation),
        reward=linear(key_reward, width, 1, 1.0),
        benefits=linear(key_benefits, *sizes, 1.0),
        gain=jnp.ones(1 + signals, jnp.float32),
        shift=jnp.zeros(1 + signals, jnp.float32),
        groups=groups,
    )
    return actor, critic
