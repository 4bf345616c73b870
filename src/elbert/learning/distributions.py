"""What a policy's numbers mean: a distribution over actions for each kind of action space.

    noise  = distribution.noise(key, shape)          drawn ahead for a whole rollout
    action = distribution.sample(numbers, noise)
    log p  = distribution.log_prob(numbers, action)

`numbers` are the outputs of the actor network, [..., size]. Actions here count from 0; `to_env` gives them as the
action space wants them.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from elbert.errors import InvalidInputError


class Distribution(ABC):
    """A family of distributions over the actions of one space."""

    size: int  # how many numbers of the network describe one distribution
    learns_deviation: bool = False  # whether a vector of log deviations is a parameter beside the network

    @abstractmethod
    def noise(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """The randomness of an array of actions of this shape."""

    @abstractmethod
    def sample(self, numbers: jax.Array, noise: jax.Array) -> jax.Array:
        """An action from the noise."""

    @abstractmethod
    def mode(self, numbers: jax.Array) -> jax.Array:
        """The most probable action."""

    @abstractmethod
    def log_prob(self, numbers: jax.Array, action: jax.Array) -> jax.Array:
        """log p(action), a density for real numbers. [..., size], [...] -> [...]"""

    @abstractmethod
    def entropy(self, numbers: jax.Array) -> jax.Array:
        """-sum p log p.   [..., size] -> [...]"""

    @abstractmethod
    def to_env(self, action: Any) -> Any:
        """The action as the space wants it."""


@dataclass(frozen=True)
class Categorical(Distribution):
    """One of n choices: p = softmax(numbers)."""

    size: int
    start: int = 0

    def noise(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """One uniform number per action."""
        return jax.random.uniform(key, shape, jnp.float32)

    def sample(self, numbers: jax.Array, noise: jax.Array) -> jax.Array:
        """The first choice whose cumulated probability exceeds the noise."""
        upto = jnp.cumsum(jax.nn.softmax(numbers), axis=-1)
        return jnp.sum(upto[..., :-1] <= noise[..., None] * upto[..., -1:], axis=-1, dtype=jnp.int32)

    def mode(self, numbers: jax.Array) -> jax.Array:
        """The choice with the largest number."""
        return jnp.argmax(numbers, axis=-1).astype(jnp.int32)

    def log_prob(self, numbers: jax.Array, action: jax.Array) -> jax.Array:
        """log softmax(numbers)[action]"""
        chosen = jax.nn.one_hot(action, self.size, dtype=bool)
        return jnp.sum(jnp.where(chosen, jax.nn.log_softmax(numbers), 0.0), axis=-1)

    def entropy(self, numbers: jax.Array) -> jax.Array:
        """-sum p log p"""
        log_p = jax.nn.log_softmax(numbers)
        return -jnp.sum(jnp.exp(log_p) * log_p, axis=-1)

    def to_env(self, action: Any) -> Any:
        """Counted from where the space starts."""
        return action + self.start if self.start else action


@dataclass(frozen=True)
class MultiCategorical(Distribution):
    """Several independent choices; the numbers of all of them one after the other."""

    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    shape: tuple[int, ...]  # of an action in its space

    @property
    def size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """All choices of all parts."""
        return sum(self.sizes)

    def _parts(self, numbers: jax.Array) -> list[tuple[Categorical, jax.Array]]:
        parts = jnp.split(numbers, np.cumsum(self.sizes)[:-1].tolist(), axis=-1)
        return [(Categorical(size), part) for size, part in zip(self.sizes, parts, strict=True)]

    def noise(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """One uniform number per choice."""
        return jax.random.uniform(key, (*shape, len(self.sizes)), jnp.float32)

    def sample(self, numbers: jax.Array, noise: jax.Array) -> jax.Array:
        """Each choice from its own noise. [..., choices]"""
        return jnp.stack([d.sample(part, noise[..., i]) for i, (d, part) in enumerate(self._parts(numbers))], axis=-1)

    def mode(self, numbers: jax.Array) -> jax.Array:
        """The most probable of each choice. [..., choices]"""
        return jnp.stack([d.mode(part) for d, part in self._parts(numbers)], axis=-1)

    def log_prob(self, numbers: jax.Array, action: jax.Array) -> jax.Array:
        """The sum over choices."""
        return sum(
            (d.log_prob(part, action[..., i]) for i, (d, part) in enumerate(self._parts(numbers))), jnp.zeros(())
        )

    def entropy(self, numbers: jax.Array) -> jax.Array:
        """The sum over choices."""
        return sum((d.entropy(part) for d, part in self._parts(numbers)), jnp.zeros(()))

    def to_env(self, action: Any) -> Any:
        """Counted from where the space starts, in the shape of the space."""
        moved = action + np.asarray(self.starts, np.int32).reshape(*(1,) * (action.ndim - 1), -1)
        return moved.reshape(*moved.shape[:-1], *self.shape)


@dataclass(frozen=True)
class Gaussian(Distribution):
    """Real numbers: independent normal distributions, clipped to the space's limits on the way to the environment.

    The network gives the means and a parameter of its own the log deviations: numbers = [means, log deviations].
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    shape: tuple[int, ...]
    learns_deviation: bool = True

    @property
    def size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Means, as many as an action has numbers."""
        return len(self.low)

    def noise(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """Standard normal numbers. [..., n]"""
        return jax.random.normal(key, (*shape, self.size), jnp.float32)

    def sample(self, numbers: jax.Array, noise: jax.Array) -> jax.Array:
        """mean + deviation * noise, not yet clipped. [..., n]"""
        mean, log_std = jnp.split(numbers, 2, axis=-1)
        return mean + jnp.exp(log_std) * noise

    def mode(self, numbers: jax.Array) -> jax.Array:
        """The mean. [..., n]"""
        return jnp.split(numbers, 2, axis=-1)[0]

    def log_prob(self, numbers: jax.Array, action: jax.Array) -> jax.Array:
        """Of the action before it is clipped."""
        mean, log_std = jnp.split(numbers, 2, axis=-1)
        z = (action - mean) * jnp.exp(-log_std)
        return jnp.sum(-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi), axis=-1)

    def entropy(self, numbers: jax.Array) -> jax.Array:
        """sum of log deviation + log(2 pi e) / 2"""
        log_std = jnp.split(numbers, 2, axis=-1)[1]
        return jnp.sum(log_std + 0.5 * np.log(2 * np.pi * np.e), axis=-1)

    def to_env(self, action: Any) -> Any:
        """Clipped to the limits, in the shape of the space."""
        row = (*(1,) * (action.ndim - 1), -1)
        low, high = (np.asarray(side, np.float32).reshape(row) for side in (self.low, self.high))
        clipped = jnp.clip(action, low, high) if isinstance(action, jax.Array) else np.clip(action, low, high)
        return clipped.reshape(*clipped.shape[:-1], *self.shape)


def distribution_for(space: gymnasium.Space[Any]) -> Distribution:
    """The distribution over the actions of a space; refuses kinds of spaces that have none here."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return Categorical(int(space.n), int(space.start))
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        starts = np.broadcast_to(space.start, space.nvec.shape)
        return MultiCategorical(
            tuple(int(n) for n in space.nvec.ravel()), tuple(int(s) for s in starts.ravel()), space.nvec.shape
        )
    if isinstance(space, gymnasium.spaces.MultiBinary):
        choices = int(np.prod(space.shape))
        return MultiCategorical((2,) * choices, (0,) * choices, space.shape)
    if isinstance(space, gymnasium.spaces.Box) and np.issubdtype(space.dtype, np.floating):
        low, high = (tuple(float(x) for x in side.ravel()) for side in (space.low, space.high))
        return Gaussian(low, high, space.shape)
    raise InvalidInputError(
        f"The action space is {space}. Policies here act in Discrete, MultiDiscrete, MultiBinary and Box spaces of "
        "real numbers: wrap the environment so that its actions are of one of these kinds."
    )
