"""One environment of a user's, whose every return is checked; what is wrong is told all at once."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from elbert.envs.gym_returns import (
    KEYS,
    as_flags,
    as_reward,
    called,
    check_within,
    five_values,
    same_groups,
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


class StrictEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One environment whose returns are checked before Gymnasium gathers copies of it.

    A vector environment turns the text "3" or None into a number, and spreads an array of one group over all. What
    was wrong can be seen only here.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], *, thorough: bool = False) -> None:
        """The environment; nothing is checked yet.

        Args:
            env: any Gymnasium environment.
            thorough: check also what is slow to check and can be seen later: that observations lie in their space,
                and that supply and demand make sense.
        """
        super().__init__(env)
        self._thorough = thorough
        self._shapes: dict[str, tuple[int, ...]] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """As the environment's own, if it returns two values."""
        observation, info = two_values(called(lambda: self.env.reset(seed=seed, options=options), "reset"))
        self._check_observation(observation, "reset()")
        return observation, dict(info)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """As the environment's own, if it returns five values that make sense."""
        result = five_values(called(lambda: self.env.step(action), "step"))
        observation, reward, terminated, truncated, info = result
        checks: tuple[Callable[[], Any], ...] = (
            lambda: self._check_observation(observation, "step()"),
            lambda: as_reward(reward, ()),
            lambda: as_flags(terminated, "terminated", ()),
            lambda: as_flags(truncated, "truncated", ()),
            lambda: self._check_benefits(info),
        )
        problems = []
        for check in checks:
            try:
                check()
            except InvalidInputError as error:
                problems.append(str(error))
        if problems:
            raise EnvCheckError(problems)
        return observation, reward, terminated, truncated, dict(info)

    def _check_observation(self, observation: Any, name: str) -> None:
        space = self.env.observation_space
        if self._thorough:
            check_within(space, observation, name)
        elif isinstance(space, gymnasium.spaces.Box) and np.shape(observation) != space.shape:
            raise InvalidInputError(
                f"The observation has shape {np.shape(observation)}. Give shape {space.shape}, as {space} says."
            )

    def _check_benefits(self, info: Any) -> None:
        if self._thorough:
            step_benefits(info)
        for key in KEYS:
            amounts = info.get(key)
            if isinstance(amounts, np.ndarray) and amounts.ndim in (1, 2):  # others are refused after gathering
                self._shapes[key] = same_groups((1, *amounts.shape)[-2:], self._shapes.get(key), key)
