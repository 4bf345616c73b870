"""What is trained on: a compiled world, or a user's Gymnasium environment, told apart here and nowhere else."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from elbert.envs import World, WorldEnv, WorldVectorEnv, make_world
from elbert.envs.gym_infos import vector_benefits
from elbert.envs.gym_wrappers import autoreset_mode
from elbert.errors import InvalidInputError
from elbert.learning.distributions import Distribution, distribution_for

SingleEnv: TypeAlias = gymnasium.Env[Any, Any]
Environment: TypeAlias = str | World | SingleEnv | gymnasium.vector.VectorEnv[Any, Any, Any] | Callable[[], SingleEnv]
"""A name, a world, one environment, a function that makes one, or a vector environment."""


@dataclass(frozen=True)
class Shape:
    """What a learner must know of a problem."""

    observation: int  # numbers in one observation
    actions: Distribution
    criteria: tuple[str, ...]
    groups: int


@dataclass(frozen=True)
class WorldProblem:
    """A world: everything is compiled."""

    world: World
    name: str

    @property
    def shape(self) -> Shape:
        """Read from the world."""
        names = tuple(criterion.name for criterion in self.world.benefit.criteria)
        size = int(np.prod(self.world.observation_space.shape))
        return Shape(size, distribution_for(self.world.action_space), names, self.world.groups)


@dataclass(frozen=True)
class HostProblem:
    """A user's environment: stepped by Gymnasium, learned from by the same compiled update."""

    env: gymnasium.vector.VectorEnv[Any, Any, Any]
    name: str
    shape: Shape

    @classmethod
    def of(cls, env: gymnasium.vector.VectorEnv[Any, Any, Any], name: str) -> "HostProblem":
        """Ask the environment for its groups and criteria by one step, which belongs to no episode that counts."""
        distribution = distribution_for(env.single_action_space)
        size = int(gymnasium.spaces.flatdim(env.single_observation_space))
        env.reset(seed=0)
        *_, terminated, truncated, info = env.step(env.action_space.sample())
        ended = np.asarray(terminated) | np.asarray(truncated)
        none = np.zeros(env.num_envs, bool)
        benefits = vector_benefits(info, mode=autoreset_mode(env), ended=ended, ended_before=none)
        criteria, groups = benefits.supply.shape[1:]
        names = ("benefit rate",) if criteria == 1 else tuple(f"criterion {c}" for c in range(criteria))
        return cls(env, name, Shape(size, distribution, names, groups))


@contextlib.contextmanager
def opened(
    env: Environment, copies: int, parameters: dict[str, Any] | None = None
) -> Iterator[WorldProblem | HostProblem]:
    """The problem behind whatever a user calls an environment; what was made here is closed again."""
    if isinstance(env, str):
        yield WorldProblem(make_world(env, **(parameters or {})), env)
        return
    if parameters:
        raise InvalidInputError(
            f"Parameters {sorted(parameters)} were given beside an environment that is already made. Set them when "
            "making it."
        )
    if isinstance(env, World):
        yield WorldProblem(env, type(env).__name__)
    elif isinstance(env, WorldVectorEnv):
        yield WorldProblem(env.world, type(env.world).__name__)
    elif isinstance(env, gymnasium.vector.VectorEnv):
        yield HostProblem.of(env, _name(env))
    elif isinstance(env, gymnasium.Env):
        inner = env.unwrapped
        if isinstance(inner, WorldEnv) and _only_housekeeping(env):
            yield WorldProblem(inner.world, type(inner.world).__name__)
        else:
            yield HostProblem.of(gymnasium.vector.SyncVectorEnv([lambda: env]), _name(env))
    elif callable(env):
        vector = gymnasium.vector.SyncVectorEnv([partial(_made, env)] * copies, autoreset_mode=AutoresetMode.SAME_STEP)
        try:
            yield HostProblem.of(vector, _name(vector.envs[0]))
        finally:
            vector.close()
    else:
        raise InvalidInputError(
            f"The environment is {env!r}. Give the name of a world, a World, a Gymnasium environment, a function that "
            "makes one, or a vector environment."
        )


def _made(make: Callable[[], Any]) -> SingleEnv:
    """What the user's function makes, if it is an environment."""
    env = make()
    if not isinstance(env, gymnasium.Env):
        raise InvalidInputError(
            f"The function {getattr(make, '__name__', make)!r} made {type(env).__name__}. Let it return a Gymnasium "
            "environment; a world or a vector environment is given as it is, not by a function."
        )
    return env


def _only_housekeeping(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether the wrappers around a world are those that `gymnasium.make` adds, which change nothing."""
    kinds = (gymnasium.wrappers.OrderEnforcing, gymnasium.wrappers.PassiveEnvChecker)
    while isinstance(env, gymnasium.Wrapper):
        if not isinstance(env, kinds):
            return False
        env = env.env
    return True


def _name(env: Any) -> str:
    inner = env.unwrapped
    if isinstance(inner, gymnasium.vector.SyncVectorEnv):
        inner = inner.envs[0].unwrapped
    return type(inner).__name__
