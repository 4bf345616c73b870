"""Simulators: the one place that knows which kind of environment it has."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode

from elbert.envs import World, WorldEnv, WorldVectorEnv, find_world, plain_parameters
from elbert.envs.gym_returns import StrictEnv
from elbert.errors import InvalidInputError
from elbert.learning.simulators.base import Environment, Simulator, SingleEnv
from elbert.learning.simulators.base import Episodes as Episodes
from elbert.learning.simulators.compiled import CompiledSimulator
from elbert.learning.simulators.host import HostSimulator

HOST_COPIES = 16  # of a user's environment, whose copies are stepped one by one
WORLD_COPIES = 256  # of a world, whose copies are stepped by one compiled function


@contextlib.contextmanager
def open_simulator(
    env: Environment, copies: int, parameters: dict[str, Any] | None = None, *, memory: tuple[float, ...] = ()
) -> Iterator[Simulator]:
    """The simulator of whatever a user calls an environment; what was made here is closed again.

    `memory` holds the spans of averages that are observed too (`elbert.envs.memory`).
    """
    compiled = _compiled(env, parameters, memory)
    if compiled is not None:
        yield compiled
    else:
        with _on_host(env, copies, memory) as simulator:
            yield simulator


@contextlib.contextmanager
def open_host_simulator(
    env: Environment, episodes: int, parameters: dict[str, Any] | None = None
) -> Iterator[HostSimulator]:
    """The same for policies that cannot be compiled: worlds are stepped on the host too, several episodes at a time."""
    compiled = _compiled(env, parameters)
    if compiled is None:
        with _on_host(env, min(episodes, HOST_COPIES)) as simulator:
            yield simulator
    else:
        copies = min(episodes, WORLD_COPIES)
        vector = WorldVectorEnv(compiled.world, copies, autoreset_mode=AutoresetMode.SAME_STEP)
        yield HostSimulator(vector, compiled.name, compiled.source)


def _compiled(
    env: Environment, parameters: dict[str, Any] | None, memory: tuple[float, ...] = ()
) -> CompiledSimulator | None:
    """The simulator of a world; None for everything else."""
    entry = find_world(env) if isinstance(env, str) else None
    if entry is not None:
        given = parameters or {}
        return CompiledSimulator(entry.make(**given), entry.name, entry.name, plain_parameters(given), memory)
    if parameters:
        raise InvalidInputError(
            f"Parameters {sorted(parameters)} were given beside an environment that is already made. Set them when "
            "making it."
        )
    world = _world_of(env)
    return None if world is None else CompiledSimulator(world, type(world).__name__, env, memory=memory)


@contextlib.contextmanager
def _on_host(env: Environment, copies: int, memory: tuple[float, ...] = ()) -> Iterator[HostSimulator]:
    """The simulator of an environment that is no world."""
    if isinstance(env, gymnasium.vector.VectorEnv):
        yield HostSimulator(env, _name_of(env), env, memory)
    elif isinstance(env, gymnasium.Env):
        yield HostSimulator(gymnasium.vector.SyncVectorEnv([lambda: StrictEnv(env)]), _name_of(env), env, memory)
    elif isinstance(env, str) or callable(env):
        make = partial(_made_by_id, env) if isinstance(env, str) else partial(_made, env)
        vector = gymnasium.vector.SyncVectorEnv([make] * copies, autoreset_mode=AutoresetMode.SAME_STEP)
        try:
            if isinstance(env, str):
                yield _of_id(vector, env, memory)
            else:
                yield HostSimulator(vector, _name_of(vector.envs[0]), env, memory)
        finally:
            vector.close()
    else:
        theirs = type(env).__module__.startswith("stable_baselines3")
        raise InvalidInputError(
            f"The environment is {env!r}. Give the name of a world, a World, a Gymnasium id or environment, a function "
            f"that makes one, or a vector environment{' of Gymnasium, not of stable-baselines3' if theirs else ''}."
        )


def _of_id(vector: gymnasium.vector.SyncVectorEnv, identifier: str, memory: tuple[float, ...]) -> HostSimulator:
    """The simulator of a registered environment; one that lacks something is answered with what can be done."""
    try:
        return HostSimulator(vector, identifier.rpartition(":")[2], identifier, memory)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{identifier} cannot be used as it is. {error} Give a function that makes the wrapped environment in "
            f"place of its id: lambda: elbert.SupplyDemandWrapper(gymnasium.make({identifier!r}), supply=..., "
            "demand=...)."
        ) from error


def _made_by_id(identifier: str) -> SingleEnv:
    """The Gymnasium environment of this id."""
    try:
        return StrictEnv(gymnasium.make(identifier))
    except (gymnasium.error.Error, ImportError) as error:
        raise InvalidInputError(f"Gymnasium cannot make {identifier!r} ({error}).") from error


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
