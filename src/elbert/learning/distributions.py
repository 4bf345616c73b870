"""What a policy's numbers mean: a distribution over actions for each kind of action space.

    noise  = distribution.noise(key, shape)            the randomness of an array of actions of this shape
    action = distribution.sample(numbers, noise)       or `mode`, the most probable one
    log p  = distribution.log_prob(numbers, action)    a density for real numbers

`numbers` are the outputs of the actor network, [..., size]; actions are [..., n]. Actions here count from 0; `to_env`
gives them as the action space wants them.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from elbert.errors import InvalidInputError
from elbert.learning.subsets import Subset

NO_LIMIT = 1e6  # from here on, a limit of an action stands for none: many boxes end at the largest float32


@dataclass(frozen=True)
class Categorical:
    """One or several independent choices: p = softmax(numbers) of each, the numbers of all one after the other."""

    sizes: tuple[int, ...]
    starts: tuple[int, ...]
    shape: tuple[int, ...]  # of an action in its space
    learns_deviation: ClassVar[bool] = False

    @property
    def size(self) -> int:
        """How many numbers of the network describe one distribution."""
        return sum(self.sizes)

    def _parts(self, numbers: jax.Array) -> list[jax.Array]:
        return jnp.split(numbers, np.cumsum(self.sizes)[:-1].tolist(), axis=-1)

    def noise(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """One uniform number per choice."""
        return jax.random.uniform(key, (*shape, len(self.sizes)), jnp.float32)

    def sample(self, numbers: jax.Array, noise: jax.Array) -> jax.Array:
        """Of each choice the first alternative whose cumulated probability exceeds the noise."""

        def draw(part: jax.Array, level: jax.Array) -> jax.Array:
            upto = jnp.cumsum(jax.nn.softmax(part), axis=-1)
            return jnp.sum(upto[..., :-1] <= level[..., None] * upto[..., -1:], axis=-1, dtype=jnp.int32)

        return jnp.stack([draw(part, noise[..., i]) for i, part in enumerate(self._parts(numbers))], axis=-1)

    def mode(self, numbers: jax.Array) -> jax.Array:
        """Of each choice the alternative with the largest number."""
        return jnp.stack([jnp.argmax(part, axis=-1).astype(jnp.int32) for part in self._parts(numbers)], axis=-1)

    def log_prob(self, numbers: jax.Array, action: jax.Array) -> jax.Array:
        """sum of log softmax(numbers)[action] over choices.   -> [...]"""

        def chosen(part: jax.Array, choice: jax.Array) -> jax.Array:
            mask = jax.nn.one_hot(choice, part.shape[-1], dtype=bool)
            return jnp.sum(jnp.where(mask, jax.nn.log_softmax(part), 0.0), axis=-1)

        return sum((chosen(part, action[..., i]) for i, part in enumerate(self._parts(numbers))), jnp.zeros(()))

    def described(self, numbers: jax.Array) -> tuple[jax.Array, ...]:
        """p = softmax(numbers) of each choice.   -> [..., alternatives] each"""
        return tuple(jax.nn.softmax(part) for part in self._parts(numbers))

    def entropy(self, numbers: jax.Array) -> jax.Array:
        """-sum p log p, added up over choices.   -> [...]"""
        log_ps = (jax.nn.log_softmax(part) for part in self._parts(numbers))
        return sum((-jnp.sum(jnp.exp(log_p) * log_p, axis=-1) for log_p in log_ps), jnp.zeros(()))

    def divergence(self, numbers: jax.Array, others: jax.Array) -> jax.Array:
        """KL(p || q) = sum p (log p - log q), added up over choices; q is what the other numbers mean.   -> [...]"""
        pairs = zip(self._parts(numbers), self._parts(others), strict=True)
        logs = ((jax.nn.log_softmax(one), jax.nn.log_softmax(other)) for one, other in pairs)
        return sum((jnp.sum(jnp.exp(p) * (p - q), axis=-1) for p, q in logs), jnp.zeros(()))

    def to_env(self, action: Any) -> Any:
        """Counted from where the space starts, in the shape of the space."""
        moved = action + np.asarray(self.starts, np.int32).reshape(*(1,) * (action.ndim - 1), -1)
        return moved.reshape(*moved.shape[:-1], *self.shape)


class Normal(NamedTuple):
    """Independent normal distributions."""

    mean: Any
    deviation: Any


@dataclass(frozen=True)
class Gaussian:
    """Real numbers: independent normal distributions, clipped to the space's limits on the way to the environment.

    The network gives the means and a separate parameter the log deviations: numbers = [means, log deviations].
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    shape: tuple[int, ...]
    learns_deviation: bool = True

    @property
    def size(self) -> int:
        """Means, as many as an action has numbers."""
        return len(self.low)

    @property
    def start(self) -> np.ndarray[Any, Any]:
        """Where means start: in the middle between two limits, else at 0.   [n]"""
        low, high = np.asarray(self.low), np.asarray(self.high)
        bounded = np.maximum(np.abs(low), np.abs(high)) < NO_LIMIT
        return np.where(bounded, (np.where(bounded, low, 0) + np.where(bounded, high, 0)) / 2, 0).astype(np.float32)

    def noise(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """Standard normal numbers."""
        return jax.random.normal(key, (*shape, self.size), jnp.float32)

    def sample(self, numbers: jax.Array, noise: jax.Array) -> jax.Array:
        """mean + deviation * noise, not yet clipped."""
        mean, log_std = jnp.split(numbers, 2, axis=-1)
        return mean + jnp.exp(log_std) * noise

    def mode(self, numbers: jax.Array) -> jax.Array:
        """The mean."""
        return jnp.split(numbers, 2, axis=-1)[0]

    def log_prob(self, numbers: jax.Array, action: jax.Array) -> jax.Array:
        """Of the action before it is clipped.   -> [...]"""
        mean, log_std = jnp.split(numbers, 2, axis=-1)
        z = (action - mean) * jnp.exp(-log_std)
        return jnp.sum(-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi), axis=-1)

    def described(self, numbers: jax.Array) -> "Normal":
        """The parameters, in the shape of the space.   -> [..., *shape] each"""
        mean, log_std = (part.reshape(*part.shape[:-1], *self.shape) for part in jnp.split(numbers, 2, axis=-1))
        return Normal(mean, jnp.exp(log_std))

    def entropy(self, numbers: jax.Array) -> jax.Array:
        """sum of log deviation + log(2 pi e) / 2.   -> [...]"""
        log_std = jnp.split(numbers, 2, axis=-1)[1]
        return jnp.sum(log_std + 0.5 * np.log(2 * np.pi * np.e), axis=-1)

    def divergence(self, numbers: jax.Array, others: jax.Array) -> jax.Array:
        """KL(p || q), q being what the other numbers mean, of the actions before they are clipped.   -> [...]"""
        (mean, log_std), (centre, log_width) = (jnp.split(x, 2, axis=-1) for x in (numbers, others))
        squares = (jnp.exp(2 * log_std) + (mean - centre) ** 2) * jnp.exp(-2 * log_width)
        return jnp.sum(log_width - log_std + 0.5 * (squares - 1.0), axis=-1)

    def to_env(self, action: Any) -> Any:
        """Clipped to the limits, in the shape of the space."""
        row = (*(1,) * (action.ndim - 1), -1)
        low, high = (np.asarray(side, np.float32).reshape(row) for side in (self.low, self.high))
        clipped = jnp.clip(action, low, high) if isinstance(action, jax.Array) else np.clip(action, low, high)
        return clipped.reshape(*clipped.shape[:-1], *self.shape)


Distribution: TypeAlias = Categorical | Gaussian | Subset


def distribution_for(space: gymnasium.Space[Any]) -> Distribution:
    """The distribution over the actions of a space; refuses kinds of spaces that have none here."""
    spaces = gymnasium.spaces
    if isinstance(space, spaces.Discrete):
        return Categorical((int(space.n),), (int(space.start),), ())
    if isinstance(space, spaces.MultiDiscrete):
        starts = np.broadcast_to(space.start, space.nvec.shape)
        return Categorical(tuple(map(int, space.nvec.ravel())), tuple(map(int, starts.ravel())), space.nvec.shape)
    if isinstance(space, spaces.MultiBinary):
        choices = int(np.prod(space.shape))
        return Categorical((2,) * choices, (0,) * choices, space.shape)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return Gaussian(tuple(map(float, space.low.ravel())), tuple(map(float, space.high.ravel())), space.shape)
    raise InvalidInputError(
        f"The action space is {space}. Policies here act in Discrete, MultiDiscrete, MultiBinary and Box spaces of "
        "real numbers: wrap the environment so that its actions are of one of these kinds."
    )
