"""The contract of a Supply-Demand MDP: pure functions that also say who received a benefit and who was due one.

A world is a frozen pytree of parameters with two pure functions:

    state, observation = world.reset(key)
    state, step = world.step(key, state, action)

Both can be jitted, vmapped over keys, states and actions, and vmapped over the world itself, because its parameters
are its leaves. A step past the end of an episode is not guarded against here: the caller resets.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp

from elbert.fairness.notions import Notion


class TimeStep(NamedTuple):
    """What one step shows. `terminated` is an end of the world's own making; `truncated` is the horizon."""

    observation: jax.Array  # [...] of the observation space, after the step
    reward: jax.Array  # []
    supply: jax.Array  # [criteria, groups] benefit given in this step
    demand: jax.Array  # [criteria, groups] benefit due in this step
    terminated: jax.Array  # [] bool
    truncated: jax.Array  # [] bool


class World(eqx.Module):
    """A Supply-Demand MDP. Every state has a field `time`, the steps taken in this episode."""

    horizon: eqx.AbstractVar[jax.Array]  # [] steps after which an episode is truncated

    @abstractmethod
    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """The state at the start of an episode, and its observation."""

    @abstractmethod
    def step(self, key: jax.Array, state: Any, action: jax.Array) -> tuple[Any, TimeStep]:
        """The state after an action, and what the step showed."""

    @property
    @abstractmethod
    def groups(self) -> int:
        """How many groups the benefits are counted for."""

    @property
    @abstractmethod
    def benefit(self) -> Notion:
        """The notion that says what supply and demand are."""

    @property
    @abstractmethod
    def observation_space(self) -> gymnasium.spaces.Box:
        """What observations can be."""

    @property
    @abstractmethod
    def action_space(self) -> gymnasium.Space[Any]:
        """What actions can be."""

    def is_truncated(self, time: jax.Array, terminated: jax.Array | bool = False) -> jax.Array:
        """time >= horizon, for an episode that did not end by itself."""
        return (time >= self.horizon) & ~jnp.asarray(terminated)
