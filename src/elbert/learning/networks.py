"""The networks: an actor, and a critic that values every signal (reward, supplies, demands).

A `Model` holds what never changes (shapes, the kind of distribution); what is learned is a pytree of arrays, `Weights`,
that goes in and comes out of pure functions.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from elbert.envs.parts import Parts
from elbert.errors import InvalidInputError
from elbert.learning.distributions import Distribution, Gaussian
from elbert.learning.layers import ACTIVATIONS, linear
from elbert.learning.part_actions import check_parts, part_actions
from elbert.learning.part_networks import PartActor, PartCritic, part_networks
from elbert.learning.recurrent import RecurrentActor
from elbert.learning.settings import Settings

LARGEST_OBSERVATION = 10.0  # normalised observations are clipped here: a rare outlier must not throw a policy off
SMALLEST_DEVIATION = 1e-4  # a number that varies less than this is not stretched to deviation 1
PARTS_AT_ONCE = 2**16  # rows of parts that are computed side by side: beyond, memory would grow with the batch ...
PARTS_TOGETHER = 2**14  # ... so that they are computed by this many, which a processor's cache can hold


@dataclass(frozen=True)
class Shape:
    """What a learner must know of a problem."""

    observation: int  # numbers in one observation
    actions: Distribution
    criteria: tuple[str, ...]
    groups: int
    parts: Parts | None = None  # that it is made of, where they are declared
    state: int = 0  # numbers of the simulator's state that the critic sees; 0 where it sees the observation
    carried: int = 0  # numbers that a policy with a learned memory carries along; 0 for others

    @property
    def benefits(self) -> tuple[int, int]:
        """The number of criteria and of groups."""
        return len(self.criteria), self.groups

    @property
    def signals(self) -> int:
        """The reward, and supply and demand of every criterion and group."""
        return 1 + 2 * math.prod(self.benefits)

    @property
    def seen(self) -> int:
        """Numbers that a rollout holds of each step: what the actor sees, then the state for the critic."""
        return self.acts_on + self.state

    @property
    def acts_on(self) -> int:
        """Numbers that the actor sees: the observation, and what it carries along."""
        return self.observation + self.carried

    def seen_by(self, settings: Settings) -> "Shape":
        """The same as networks of these settings see it; refused if they need parts that do not fit.

        One network for everything sees no parts. Networks by parts draw several parts at once without replacement.
        """
        if settings.critic_sees == "state" and not self.state:
            raise InvalidInputError(
                'critic_sees is "state", but the environment shows no state: only worlds do that have the method '
                '`for_critic`. Give critic_sees = "observation".'
            )
        if settings.critic_sees == "state" and settings.policy == "parts":
            raise InvalidInputError(
                'critic_sees is "state", but with policy = "parts" the critic scores parts of the observation too. '
                'Give critic_sees = "observation", or policy = "mlp".'
            )
        if self.state and (settings.critic_sees == "observation" or settings.policy == "parts"):
            return replace(self, state=0).seen_by(settings)
        if settings.policy == "gru" and not settings.hidden:
            raise InvalidInputError('hidden is empty. Give at least one width with policy = "gru".')
        if settings.policy != "parts":
            return replace(self, parts=None, carried=settings.hidden[-1] if settings.policy == "gru" else 0)
        fitted = check_parts(self.parts, self.observation, self.actions, self.groups)
        if settings.critic != "shared":
            raise InvalidInputError(
                f'critic is "{settings.critic}", but policy = "parts" shares weights among parts and signals. Give '
                'critic = "shared", or policy = "mlp".'
            )
        if not settings.hidden:
            raise InvalidInputError('hidden is empty. Give at least one width with policy = "parts".')
        return replace(self, actions=fitted.distribution)


class Network(eqx.Module):
    """Linear layers with an activation between them."""

    layers: tuple[eqx.nn.Linear, ...]
    activation: str = eqx.field(static=True)

    def __init__(self, key: jax.Array, sizes: tuple[int, ...], activation: str, head_gain: float) -> None:
        """Orthogonal weights of gain sqrt 2, of the gain given for the last layer; biases 0."""
        gains = [2**0.5] * (len(sizes) - 2) + [head_gain]
        layers = zip(jax.random.split(key, len(gains)), sizes[:-1], sizes[1:], gains, strict=True)
        self.layers, self.activation = tuple(linear(*layer) for layer in layers), activation

    def __call__(self, x: jax.Array) -> jax.Array:
        """[inputs] -> [outputs]"""
        for layer in self.layers[:-1]:
            x = ACTIVATIONS[self.activation](layer(x))
        return self.layers[-1](x)

    def rescaled(self, ratio: jax.Array, shift: jax.Array) -> "Network":
        """The same values in another scale: the last layer absorbs the change. [outputs] each"""
        head = self.layers[-1]
        assert head.bias is not None
        row = (-1, *(1,) * (head.bias.ndim - 1))
        ratio, shift = ratio.reshape(row), shift.reshape(row)
        moved = (head.weight * ratio[..., None], head.bias * ratio + shift)
        return eqx.tree_at(lambda network: (network.layers[-1].weight, network.layers[-1].bias), self, moved)


class Weights(NamedTuple):
    """What is learned by gradients."""

    actor: Network | PartActor | RecurrentActor  # observation -> numbers of the distribution
    log_std: jax.Array  # [n] log deviations of a Gaussian policy, [each] of every part alike; [0] for choices
    critic: Network | PartCritic  # observation -> a head per signal; or a stack of networks, the signals in front


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

    def pooled(self, places: np.ndarray[Any, Any]) -> "Moments":
        """The same with the numbers in each column of places taken together, as parts share them. [parts, n]"""
        mean = jnp.mean(self.mean[places], axis=0, keepdims=True)
        squares = jnp.mean(self.squares[places] + self.seen * (self.mean[places] - mean) ** 2, axis=0, keepdims=True)
        means, sums = (jnp.broadcast_to(x, places.shape) for x in (mean, squares))
        return Moments(self.seen, self.mean.at[places].set(means), self.squares.at[places].set(sums))

    def for_parts(self, old: Parts, new: Parts, size: int) -> "Moments":
        """The same for an observation of this size that is made of other parts, which share what all old ones had."""
        pooled, others = self.pooled(old.observed), (old.others(self.mean.shape[0]), new.others(size))

        def placed(x: jax.Array) -> jax.Array:
            row = jnp.broadcast_to(x[old.observed[0]], new.observed.shape)
            return jnp.zeros(size, jnp.float32).at[new.observed].set(row).at[others[1]].set(x[others[0]])

        return Moments(self.seen, placed(pooled.mean), placed(pooled.squares))

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
        self.settings, self.shape = settings, shape.seen_by(settings)
        self.parts, self.distribution = self.shape.parts, self.shape.actions
        layers = (settings.hidden, settings.activation, settings.critic, settings.normalise_observations)
        values = shape.signals if self.parts is None else shape.benefits
        sizes = (self.shape.observation, self.shape.state, self.shape.carried)
        self._identity = (*layers, self.parts, *sizes, values, self.distribution)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def init(self, key: jax.Array) -> Weights:
        """Orthogonal weights (gain sqrt 2; 0.01 for the action head, 1 for value heads), zero biases.

        The biases of a Gaussian's means are where these start, so that a threshold in [0, 1] does not start at an end.
        """
        key_actor, key_critic = jax.random.split(key)
        d, s, signals = self.distribution, self.settings, self.shape.signals
        if self.parts is not None:
            return self._init_by_parts(self.parts, key_actor, key_critic)
        trunk = (self.shape.state or self.shape.acts_on, *s.hidden)
        if self.shape.carried:
            actor = RecurrentActor(key_actor, self.shape.observation, s.hidden, d.size, s.activation)
        else:
            actor = Network(key_actor, (self.shape.observation, *s.hidden, d.size), s.activation, 0.01)
        if isinstance(d, Gaussian):
            actor = eqx.tree_at(lambda network: _head(network).bias, actor, jnp.asarray(d.start))
        if s.critic == "shared":
            critic = Network(key_critic, (*trunk, signals), s.activation, 1.0)
        else:
            each = [Network(key, (*trunk, 1), s.activation, 1.0) for key in jax.random.split(key_critic, signals)]
            critic = jax.tree.map(lambda *parts: jnp.stack(parts), *each)
        return Weights(actor, self._log_std(d.size), critic)

    def _init_by_parts(self, parts: Parts, key_actor: jax.Array, key_critic: jax.Array) -> Weights:
        actions, s = part_actions(parts, self.distribution), self.settings
        assert actions is not None
        actor, critic = part_networks(
            (key_actor, key_critic),
            parts,
            actions,
            observation=self.shape.observation,
            hidden=s.hidden,
            activation=s.activation,
            criteria=len(self.shape.criteria),
            groups=self.shape.groups,
        )
        if isinstance(self.distribution, Gaussian):  # parts share their biases, so they start at their mean
            start = np.mean(self.distribution.start.reshape(parts.count, -1), axis=0)
            actor = eqx.tree_at(lambda actor: actor.head.bias, actor, jnp.asarray(start))
        return Weights(actor, self._log_std(actions.each), critic)

    def _log_std(self, size: int) -> jax.Array:
        learned = size if self.distribution.learns_deviation else 0
        return jnp.full(learned, math.log(self.settings.initial_deviation), jnp.float32)

    def policy(self, weights: Weights, observations: jax.Array, segment: int = 1) -> jax.Array:
        """The numbers of the distribution over actions. [batch, what it acts on, or more] -> [batch, numbers]

        A learned memory is followed along segments of so many rows, each from the memory that its first row has.
        """
        return self._numbers(weights, self._before_deviation(weights, observations, segment))

    def acted(self, weights: Weights, observations: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        """The same of single rows, and what is carried along from there; None where nothing is."""
        if not self.shape.carried:
            return self.policy(weights, observations), None
        assert isinstance(weights.actor, RecurrentActor)
        means, carried = jax.vmap(weights.actor)(*self._with_memory(observations))
        return self._numbers(weights, means), carried

    def _before_deviation(self, weights: Weights, observations: jax.Array, segment: int) -> jax.Array:
        if not self.shape.carried:
            return self._mapped(weights.actor, observations[:, : self.shape.observation])
        assert isinstance(weights.actor, RecurrentActor)
        rows = (x.reshape(-1, segment, x.shape[-1]) for x in self._with_memory(observations))
        numbers = jax.vmap(weights.actor.along)(*rows)
        return numbers.reshape(-1, numbers.shape[-1])

    def _with_memory(self, observations: jax.Array) -> tuple[jax.Array, jax.Array]:
        size, end = self.shape.observation, self.shape.acts_on
        return observations[:, :size], observations[:, size:end]

    def _numbers(self, weights: Weights, numbers: jax.Array) -> jax.Array:
        if not self.distribution.learns_deviation:
            return numbers
        log_std = weights.log_std if self.parts is None else jnp.tile(weights.log_std, self.parts.count)
        return jnp.concatenate([numbers, jnp.broadcast_to(log_std[None], numbers.shape)], axis=-1)

    def scaled_values(self, weights: Weights, observations: jax.Array) -> jax.Array:
        """What the heads say, in each signal's scale. [batch, observation and state] -> [batch, signals]"""
        observations = observations[:, self.shape.acts_on :] if self.shape.state else observations
        if self.settings.critic == "shared":
            return self._mapped(weights.critic, observations)
        return jax.vmap(lambda critic: jax.vmap(critic)(observations)[:, 0], out_axes=1)(weights.critic)

    def _mapped(self, network: Any, observations: jax.Array) -> jax.Array:
        """A network applied to each observation: many parts in several goes. [batch, observation] -> [batch, n]"""
        parts = self.parts
        if parts is None:
            return jax.vmap(network)(observations)

        def of_one(observation: jax.Array) -> jax.Array:
            return network(parts, observation)

        if observations.shape[0] * parts.count <= PARTS_AT_ONCE:
            return jax.vmap(of_one)(observations)
        together = max(1, PARTS_TOGETHER // parts.count)
        return jax.lax.map(jax.checkpoint(of_one), observations, batch_size=together)

    def values(self, weights: Weights, scale: Scale, observations: jax.Array) -> jax.Array:
        """Values in the signals' own units. [T, N, observation] -> [T, N, signals]"""
        flat = observations.reshape(-1, observations.shape[-1])
        scaled = self.scaled_values(weights, flat).reshape(*observations.shape[:-1], -1)
        return scaled * scale.deviation[None, None] + scale.mean[None, None]

    def normalised(self, moments: Moments, observations: jax.Array) -> jax.Array:
        """(o - mean) / deviation, clipped; as they are where normalisation is off. [..., observation] -> same

        Numbers of parts have the mean and deviation over all parts: otherwise a part would be seen by its place. What
        a policy carries along stays as it is.
        """
        if not self.settings.normalise_observations:
            return observations
        moments = moments if self.parts is None else moments.pooled(self.parts.observed)
        row, size = (*(1,) * (observations.ndim - 1), -1), observations.shape[-1]
        mean, factors = moments.mean[:size], moments.factors()[:size]  # who acts sees no state
        if self.shape.carried:
            place = np.arange(size)
            own = (place >= self.shape.observation) & (place < self.shape.acts_on)
            mean, factors = jnp.where(own, 0.0, mean), jnp.where(own, 1.0, factors)
        moved = (observations - mean.reshape(row)) * factors.reshape(row)
        return jnp.clip(moved, -LARGEST_OBSERVATION, LARGEST_OBSERVATION)

    @staticmethod
    def rescaled(weights: Weights, old: Scale, new: Scale) -> Weights:
        """The same values in another scale: the heads absorb the change (van Hasselt et al. 2016)."""
        ratio, shift = old.deviation / new.deviation, (old.mean - new.mean) / new.deviation
        return weights._replace(critic=weights.critic.rescaled(ratio, shift))


def _head(network: Network | RecurrentActor) -> eqx.nn.Linear:
    """The last layer."""
    return network.head if isinstance(network, RecurrentActor) else network.layers[-1]
