"""Simulators: the one place that knows which kind of environment it has."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode

from elbert.envs import World, WorldEnv, WorldVectorEnv, get_entry, plain_parameters
from elbert.envs.gym_returns import StrictEnv
from elbert.errors import InvalidInputError
from elbert.learning.simulators.base import Environment, Simulator, SingleEnv
from elbert.learning.simulators.base import Episodes as Episodes
from elbert.learning.simulators.compiled import CompiledSimulator
from elbert.learning.simulators.host import HostSimulator


@contextlib.contextmanager
def open_simulator(env: Environment, copies: int, parameters: dict[str, Any] | None = None) -> Iterator[Simulator]:
    """The simulator of whatever a user calls an environment; what was made here is closed again."""
    if isinstance(env, str):
        entry, given = get_entry(env), parameters or {}
        yield CompiledSimulator(entry.make(**given), entry.name, entry.name, plain_parameters(given))
        return
    if parameters:
        raise InvalidInputError(
            f"Parameters {sorted(parameters)} were given beside an environment that is already made. Set them when "
            "making it."
        )
    world = _world_of(env)
    if world is not None:
        yield CompiledSimulator(world, type(world).__name__, env)
    elif isinstance(env, gymnasium.vector.VectorEnv):
        yield HostSimulator(env, _name_of(env), env)
    elif isinstance(env, gymnasium.Env):
        yield HostSimulator(gymnasium.vector.SyncVectorEnv([lambda: StrictEnv(env)]), _name_of(env), env)
    elif callable(env):
        vector = gymnasium.vector.SyncVectorEnv([partial(_made, env)] * copies, autoreset_mode=AutoresetMode.SAME_STEP)
        try:
            yield HostSimulator(vector, _name_of(vector.envs[0]), env)
        finally:
            vector.close()
    else:
        raise InvalidInputError(
            f"The environment is {env!r}. Give the name of a world, a World, a Gymnasium environment, a function that "
            "makes one, or a vector environment."
        )


def _world_of(env: Any) -> World | None:
    """The world behind an environment whose steps can be compiled; None for everything else."""
    if isinstance(env, World):
        return env
    if isinstance(env, WorldVectorEnv):
        return env.world
    housekeeping = (gymnasium.wrappers.OrderEnforcing, gymnasium.wrappers.PassiveEnvChecker)
    while isinstance(env, housekeeping):  # what `gymnasium.make` adds, which changes nothing
        env = env.env
    return env.world if isinstance(env, WorldEnv) else None


def _made(make: Callable[[], Any]) -> SingleEnv:
    """What the user's function makes, if it is an environment."""
    env = make()
    if not isinstance(env, gymnasium.Env):
        raise InvalidInputError(
            f"The function {getattr(make, '__name__', make)!r} made {type(env).__name__}. Let it return a Gymnasium "
            "environment; a world or a vector environment is given as it is, not by a function."
        )
    return StrictEnv(env)


def _name_of(env: Any) -> str:
    inner = env.unwrapped
    if isinstance(inner, gymnasium.vector.SyncVectorEnv):
        inner = inner.envs[0].unwrapped
    return type(inner).__name__
