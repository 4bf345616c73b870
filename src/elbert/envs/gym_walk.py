"""A walk with random actions through an environment, one or many copies, in which every step is checked."""

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from elbert.envs.gym_infos import autoreset_mode, before_resets, ended_after, resetting, vector_benefits
from elbert.envs.gym_returns import (
    Benefits,
    as_flags,
    as_float32,
    as_reward,
    called,
    check_finite,
    five_values,
    flat_observation,
    flat_observations,
    step_benefits,
    two_values,
)
from elbert.errors import InvalidInputError


class EnvCheckError(InvalidInputError):
    """The environment cannot be used as it is. `problems` lists why."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        many = f"{len(problems)} things stand" if len(problems) > 1 else "One thing stands"
        listed = "\n".join(f"  {number}. {problem}" for number, problem in enumerate(problems, 1))
        super().__init__(f"{many} in the way of using this environment:\n{listed}")


class Seen(NamedTuple):
    """One step of one environment, or of all copies of a vector environment."""

    before: Any  # a copy of the observation before the step
    observation: Any
    reward: Any
    benefits: Benefits
    ended: np.ndarray[Any, Any]  # [] or [copies] bool
    info: Mapping[str, Any]


def walk(env: Any, steps: int, seed: int) -> Iterator[Seen]:
    """Steps with random actions from a seeded reset.

    Raises:
        EnvCheckError: at the first step with which something is wrong, with everything that is wrong with it.
    """
    many, shape = isinstance(env, gymnasium.vector.VectorEnv), _copies(env)
    env.action_space.seed(seed)
    observation = _reset(env, seed=seed)
    ended = np.zeros(shape, bool)
    for _ in range(steps):
        before, ended_before = copy.deepcopy(observation), ended
        observation, reward, terminated, truncated, info = _step(env)
        _, _, terminated, truncated = all_of(
            partial(_check_observation, env, observation, "step()"),
            partial(_check_reward, reward, shape),
            partial(as_flags, terminated, "terminated", shape),
            partial(as_flags, truncated, "truncated", shape),
        )
        ended = terminated | truncated
        (benefits,) = all_of(partial(_benefits, env, observation, info, ended, ended_before))
        yield Seen(before, observation, reward, benefits, ended, info)
        mask = resetting(autoreset_mode(env), ended) if many else ended
        if mask.any():
            observation = _reset(env, options={"reset_mask": mask.copy()} if many else None)
        ended = ended_after(autoreset_mode(env), ended) & ~mask if many else np.zeros(shape, bool)


def all_of(*checks: Callable[[], Any]) -> list[Any]:
    """What the checks return; if any of them refuse, all their reasons at once."""
    results, problems = [], []
    for check in checks:
        try:
            results.append(check())
        except InvalidInputError as error:
            problems.append(str(error))
    if problems:
        raise EnvCheckError(problems)
    return results


def _tried(call: Callable[[], Any], name: str) -> Any:
    """What a method of the environment returns, which may raise anything; the report names it."""
    try:
        return called(call, name)
    except InvalidInputError as error:
        raise EnvCheckError([str(error)]) from error
    except Exception as error:
        raise EnvCheckError([f"{name}() failed with {type(error).__name__}: {error}"]) from error


def _reset(env: Any, **arguments: Any) -> Any:
    result = _tried(lambda: env.reset(**arguments), "reset")
    ((observation, _),) = all_of(lambda: two_values(result))
    all_of(lambda: _check_observation(env, observation, "reset()"))
    return observation


def _step(env: Any) -> Any:
    result = _tried(lambda: env.step(env.action_space.sample()), "step")
    return all_of(lambda: five_values(result))[0]


def _copies(env: Any) -> tuple[int, ...]:
    return (env.num_envs,) if isinstance(env, gymnasium.vector.VectorEnv) else ()


def _check_observation(env: Any, observation: Any, name: str) -> None:
    if not _contains(env.observation_space, observation):
        shape, dtype = getattr(observation, "shape", None), getattr(observation, "dtype", type(observation).__name__)
        raise InvalidInputError(
            f"The observation of {name} does not lie in observation_space {env.observation_space}: it has shape "
            f"{shape}, dtype {dtype}. Mend one or the other (often it is the dtype, or a bound)."
        )
    many = isinstance(env, gymnasium.vector.VectorEnv)
    numbers = flat_observations(env, observation) if many else flat_observation(env.observation_space, observation)
    check_finite(numbers if many else numbers[None], "observation")


def _contains(space: gymnasium.Space[Any], observation: Any) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a list is cast to an array, which Gymnasium warns of
        try:
            return bool(space.contains(observation))
        except (TypeError, ValueError):
            return False


def _check_reward(reward: Any, shape: tuple[int, ...]) -> None:
    check_finite(as_float32(as_reward(reward, shape)), "reward")


def _benefits(env: Any, observation: Any, info: Any, ended: Any, ended_before: Any) -> Benefits:
    """The benefits of the step. In a vector environment the last observations of episodes are looked at as well."""
    if not isinstance(env, gymnasium.vector.VectorEnv):
        return step_benefits(info)
    benefits = vector_benefits(info, mode=autoreset_mode(env), ended=ended, ended_before=ended_before)
    last, _ = called(lambda: before_resets(env, observation, info, ended), "step")
    _check_observation(env, last, "step(), in its last steps of episodes,")
    return benefits
