"""Memory: fading averages of what was observed so far, beside what is observed now.

    m <- m + (o - m) / span,   m = o at the start of an episode

One average for each span of steps. Where an observation is noise around something that moves slowly, such as counts
around a rate, a policy that sees both knows more than one that sees the present alone (Eberhard et al. 2025 compare
such traces with windows of observations). They are part of what is observed, so that every policy and every method can
have them, and nothing has to be learned through time.
"""

from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from elbert.envs.parts import Parts
from elbert.envs.world import Means, TimeStep, World
from elbert.fairness.notions import Notion


def remembered(observation: Any, spans: tuple[float, ...], before: Any = None) -> Any:
    """The observation with its averages behind it; `before` is the same of the step before, None at a start.

    [..., n], [..., n (1 + spans)] -> [..., n (1 + spans)] of NumPy or JAX, as given.
    """
    size, xp = observation.shape[-1], jnp if isinstance(observation, jax.Array) else np
    ends = [size * (k + 1) for k in range(len(spans))]
    old = [observation if before is None else before[..., end : end + size] for end in ends]
    averages = [each + (observation - each) / xp.float32(span) for each, span in zip(old, spans, strict=True)]
    return xp.concatenate([observation, *averages], axis=-1)


def parts_remembered(parts: Parts | None, size: int, spans: tuple[float, ...]) -> Parts | None:
    """The parts of an observation of this size, each with its averages too."""
    if parts is None:
        return None
    held = parts.arrays()
    places = [held["observed"] + size * k for k in range(1 + len(spans))]
    return Parts.from_arrays(held | {"observed": np.concatenate(places, axis=1)})


class RememberingState(NamedTuple):
    """The world's own state, and what was observed last with its averages."""

    own: Any
    seen: jax.Array  # [n (1 + spans)]


class Remembering(World, static=("spans",)):
    """A world whose observation holds averages of the earlier ones; in all else it is the world that it is made of."""

    world: World
    horizon: jax.Array
    spans: tuple[float, ...]

    def __init__(self, world: World, spans: tuple[float, ...]) -> None:
        """The world, and over how many steps each average reaches."""
        self.world, self.horizon, self.spans = world, world.horizon, spans

    @property
    def groups(self) -> int:
        """Those of the world."""
        return self.world.groups

    @property
    def benefit(self) -> Notion:
        """That of the world."""
        return self.world.benefit

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """What is observed, flat, and as much again for every span."""
        own = self.world.observation_space
        low, high = (np.tile(end.reshape(-1), 1 + len(self.spans)) for end in (own.low, own.high))
        return gymnasium.spaces.Box(low, high, dtype=np.float32)

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """That of the world."""
        return self.world.action_space

    @property
    def parts(self) -> Parts | None:
        """Those of the world, each with its averages."""
        return parts_remembered(self.world.parts, int(np.prod(self.world.observation_space.shape)), self.spans)

    def reset(self, key: jax.Array) -> tuple[RememberingState, jax.Array]:
        """Every average starts from the first observation."""
        own, observation = self.world.reset(key)
        seen = remembered(_flat(observation), self.spans)
        return RememberingState(own, seen), seen

    def step(self, key: jax.Array, state: RememberingState, action: jax.Array) -> tuple[RememberingState, TimeStep]:
        """The world's step; the averages take in what it shows."""
        own, step = self.world.step(key, state.own, action)
        seen = remembered(_flat(step.observation), self.spans, state.seen)
        return RememberingState(own, seen), step._replace(observation=seen)

    def for_critic(self, state: RememberingState) -> jax.Array | None:
        """What the world shows of its own state."""
        return self.world.for_critic(state.own)

    def means(self, state: RememberingState, action: jax.Array) -> Means | None:
        """Those of the world."""
        return self.world.means(state.own, action)


def _flat(observation: jax.Array) -> jax.Array:
    return jnp.asarray(observation, jnp.float32).reshape(-1)
