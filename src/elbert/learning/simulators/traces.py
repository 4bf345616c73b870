"""One episode, step by step, on a chance that does not depend on who acts.

The world's keys are those of (seed, time) and nothing else, and the policy's noise has keys of its own: two policies
meet the same randomness in every step, so that what differs between their traces is what they did.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from elbert.envs import World, WorldVectorEnv
from elbert.envs.gym_infos import VectorSteps
from elbert.envs.memory import Remembering, remembered
from elbert.errors import InvalidInputError
from elbert.learning.networks import Model
from elbert.learning.policy import Policy, act_from_key
from elbert.learning.simulators.base import Simulator
from elbert.learning.simulators.compiled import CompiledSimulator
from elbert.learning.simulators.host import LONGEST_EPISODE, Act, HostSimulator

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Acts: TypeAlias = Callable[[jax.Array, Any, jax.Array], Any]
"""(key, true state, observation) -> action, for one copy of a world. Can be compiled."""
Carries: TypeAlias = Callable[[jax.Array, Any, jax.Array, jax.Array], tuple[Any, jax.Array]]
"""The same, with what the policy carries along as it was before and is afterwards."""


@dataclass(frozen=True, eq=False)
class Trace:
    """One episode of one policy. T steps were made; `ended` says whether the episode was over after them."""

    name: str  # of the policy
    env: str
    criteria: tuple[str, ...]
    groups: tuple[str, ...]
    reward: Floats  # [T]
    supply: Floats  # [T, criteria, groups]
    demand: Floats  # [T, criteria, groups]
    actions: np.ndarray[Any, Any]  # [T, ...] as the environment takes them
    ended: bool  # False: there would have been more steps than were asked for
    world: World | None = None  # None: an environment on the host, whose states nobody sees
    states: Any = None  # [T + 1, ...] each leaf, the start in front; None on the host

    @property
    def steps(self) -> int:
        """T."""
        return len(self.reward)


class Keys(NamedTuple):
    """Where the randomness of an episode comes from."""

    world: jax.Array
    policy: jax.Array

    @classmethod
    def of(cls, seed: int) -> "Keys":
        """Those of a seed."""
        return cls(*jax.random.split(jax.random.key(seed)))

    def reset(self) -> jax.Array:
        """For the world's reset."""
        return jax.random.fold_in(self.world, 0)

    def step(self, time: Any) -> jax.Array:
        """For the world's step from this time on, 0 for the first."""
        return jax.random.fold_in(self.world, time + 1)

    def act(self, time: Any) -> jax.Array:
        """For the policy at this time."""
        return jax.random.fold_in(self.policy, time)


class Played(NamedTuple):
    """An episode as it was computed: `alive` counts the steps that belong to it."""

    start: Any  # state before the first step
    states: Any  # [T, ...] each leaf, after each step
    actions: Any  # [T, ...]
    reward: Any  # [T]
    supply: Any  # [T, criteria, groups]
    demand: Any  # [T, criteria, groups]
    alive: Any  # [T] bool: whether the episode was under way before this step
    ended: Any  # [] bool


def trace_world(
    world: World, acts: Acts, *, name: str, env: str, seed: int = 1, longest: int | None = None, groups: Any = None
) -> Trace:
    """An episode of a function of (key, state, observation), compiled; at most `longest` of its steps."""
    steps = _steps(int(world.horizon), longest)
    course = jax.jit(lambda world, keys: _course(world, lambda *now: (acts(*now[:3]), now[3]), keys, steps))
    return _trace(world, course(world, Keys.of(seed)), name=name, env=env, groups=groups)


def trace_policy(
    simulator: Simulator,
    model: Model,
    policy: Policy,
    *,
    name: str,
    seed: int = 1,
    longest: int | None = None,
    deterministic: bool = False,
) -> Trace:
    """An episode of networks in any simulator; at most `longest` of its steps."""
    keys = Keys.of(seed)
    if isinstance(simulator, CompiledSimulator):
        world, steps = simulator.world, _steps(int(simulator.world.horizon), longest)
        course = _course_of_networks(world, model, policy, deterministic, keys, steps)
        if isinstance(world, Remembering):  # what is shown is the world; the policy's memory is its own affair
            course = course._replace(start=course.start.own, states=course.states.own)
        return _trace(simulator.own_world, course, name=name, env=simulator.name, groups=simulator.group_names)
    assert isinstance(simulator, HostSimulator)
    seen: Any = None
    carried: Any = None

    def act(time: int, flat: np.ndarray[Any, Any], steps: VectorSteps) -> Any:
        nonlocal seen, carried
        going = seen is not None and not steps.starts[0]
        seen = remembered(flat, simulator.memory, seen if going else None)
        if model.shape.carried:
            carried = carried if going else np.zeros((1, model.shape.carried), np.float32)
        row = seen if carried is None else np.concatenate([seen, carried], axis=1)
        action, _, carried = act_from_key(model, policy, row, keys.act(time), deterministic)
        return model.distribution.to_env(np.asarray(action))

    return _on_host(simulator, act, name, seed, longest)


def trace_function(
    simulator: HostSimulator, act: Act, *, name: str, seed: int = 1, longest: int | None = None
) -> Trace:
    """An episode of a function of observations, which need not be compiled; worlds have the keys of `trace_world`."""
    if isinstance(simulator.env, WorldVectorEnv):
        return _step_by_step(simulator, simulator.env.world, act, name, seed, longest)
    return _on_host(simulator, lambda _, __, steps: act(steps.observations, steps.starts), name, seed, longest)


def _steps(horizon: int, longest: int | None) -> int:
    return horizon if longest is None else min(horizon, longest)


def _course(world: World, acts: Carries, keys: Keys, steps: int, carried: int = 0) -> Played:
    """A scan over time. What follows an episode's end is computed too, and cut off by `_trace`."""

    def step(carry: Any, time: jax.Array) -> tuple[Any, Any]:
        state, observation, memory, alive = carry
        action, memory = acts(keys.act(time), state, observation, memory)
        after, shown = world.step(keys.step(time), state, action)
        row = (after, action, shown.reward, shown.supply, shown.demand, alive)
        return (after, shown.observation, memory, alive & ~(shown.terminated | shown.truncated)), row

    start, observation = world.reset(keys.reset())
    begin = (start, observation, jnp.zeros(carried), jnp.ones((), bool))
    (_, _, _, alive), rows = jax.lax.scan(step, begin, jnp.arange(steps))
    return Played(start, *rows, ended=~alive)


@partial(jax.jit, static_argnums=(1, 3, 5))
def _course_of_networks(
    world: World, model: Model, policy: Policy, deterministic: bool, keys: Keys, steps: int
) -> Played:
    def acts(key: jax.Array, _: Any, observation: jax.Array, memory: jax.Array) -> Any:
        row = jnp.concatenate([observation.reshape(-1), memory])[None]
        action, _, carried = act_from_key(model, policy, row, key, deterministic)
        return model.distribution.to_env(action)[0], memory if carried is None else carried[0]

    return _course(world, acts, keys, steps, model.shape.carried)


def _step_by_step(simulator: HostSimulator, world: World, act: Act, name: str, seed: int, longest: int | None) -> Trace:
    """The same as `_course` for a function on the host."""
    keys, one_step = Keys.of(seed), jax.jit(world.step)
    state, observation = jax.jit(world.reset)(keys.reset())
    start, rows, ended = state, [], False
    while not ended and len(rows) < _steps(int(world.horizon), longest):
        action = act(np.asarray(observation)[None], np.asarray([not rows]))[0]
        state, shown = one_step(keys.step(len(rows)), state, action)
        observation, ended = shown.observation, bool(shown.terminated | shown.truncated)
        rows.append((state, action, shown.reward, shown.supply, shown.demand))
    columns = (jax.tree.map(lambda *each: jnp.stack(each), *column) for column in zip(*rows, strict=True))
    course = Played(start, *columns, alive=np.ones(len(rows), bool), ended=ended)
    return _trace(world, course, name=name, env=simulator.name, groups=simulator.group_names)


def _trace(world: World, course: Played, *, name: str, env: str, groups: Any) -> Trace:
    length = int(np.sum(course.alive))
    reward, supply, demand = (np.asarray(x)[:length].astype(float) for x in course[3:6])
    return Trace(
        name=name,
        env=env,
        criteria=tuple(criterion.name for criterion in world.benefit.criteria),
        groups=_named(groups or world.group_names, world.groups),
        reward=reward,
        supply=supply,
        demand=demand,
        actions=np.asarray(course.actions)[:length],
        ended=bool(course.ended),
        world=world,
        states=jax.tree.map(lambda x, rest: jnp.concatenate([x[None], rest[:length]]), course.start, course.states),
    )


def _on_host(simulator: HostSimulator, act: Callable[..., Any], name: str, seed: int, longest: int | None) -> Trace:
    """The first copy's episode. The environment is given the seed; how it draws from it is its own affair."""
    steps, time = VectorSteps(simulator.env), 0
    words = np.random.SeedSequence(seed).generate_state(1)
    flat, rows, ended = steps.reset(int(words[0] // 2)), [], False
    while not ended and len(rows) < (longest or LONGEST_EPISODE):
        actions = act(time, flat, steps)
        step, time = steps.step(actions), time + 1
        flat = step.next_observation
        if step.counted[0]:
            rows.append((step.reward[0], step.supply[0], step.demand[0], np.asarray(actions)[0]))
            ended = bool(step.ended[0])
    simulator.forget()
    if not ended and longest is None:
        raise InvalidInputError(
            f"An episode of {simulator.name} has not ended after {LONGEST_EPISODE:,} steps. Say how many of its steps "
            "are wanted: longest=..."
        )
    reward, supply, demand, actions = (np.stack(column) for column in zip(*rows, strict=True))
    return Trace(
        name=name,
        env=simulator.name,
        criteria=simulator.shape.criteria,
        groups=_named(simulator.group_names, simulator.shape.groups),
        reward=reward.astype(float),
        supply=supply.astype(float),
        demand=demand.astype(float),
        actions=actions,
        ended=ended,
    )


def _named(names: Any, count: int) -> tuple[str, ...]:
    """The groups' names, numbers where they have none, as in results."""
    return tuple(map(str, range(count) if names is None else names))
