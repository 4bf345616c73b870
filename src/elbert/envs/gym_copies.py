"""Copies of a user's environment, stepped without what Gymnasium needs to gather any info of any kind.

Almost every step of a training shows nothing unusual: arrays of the right shape, finite numbers, bools. A few
comparisons tell these steps from all others, and what they show is copied into place. Where a copy shows anything else,
what the copies have returned so far waits in their `StrictEnv`, and the vector environment's own step, with all its
checks and messages, goes on from there.
"""

from typing import Any, NamedTuple, TypeGuard

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import iterate

from elbert.envs.gym_returns import StrictEnv

LARGEST = float(np.finfo(np.float32).max)
REWARDS = frozenset({float, int, np.float64, np.float32, np.int64, np.int32})
FLAGS = frozenset({bool, np.bool_})
REAL, AMOUNTS = "fd", "fdilq?"  # NumPy's characters: reals of 32 and 64 bits; these, whole numbers and bools


class CopiesStep(NamedTuple):
    """One step of N copies, all of which made it; ended episodes are followed by new ones."""

    observations: np.ndarray[Any, Any]  # [N, ...] as their space says, after resets
    final: np.ndarray[Any, Any]  # [N, ...] likewise, before any reset; the same array if no episode ended
    reward: np.ndarray[Any, Any]  # [N] float32
    supply: np.ndarray[Any, Any]  # [N, criteria, groups] float32
    demand: np.ndarray[Any, Any]  # [N, criteria, groups] float32
    terminated: np.ndarray[Any, Any]  # [N] bool
    truncated: np.ndarray[Any, Any]  # [N] bool


class CopySteps:
    """Steps the copies of a vector environment one by one, as long as they show nothing unusual."""

    def __init__(self, env: SyncVectorEnv) -> None:
        """A vector environment that `can_step` accepts."""
        space, dtype = env.single_observation_space, env.single_observation_space.dtype
        assert space.shape is not None and dtype is not None  # noqa: PT018
        self.env, self._shapes, self._dtype = env, (space.shape,), dtype
        self._kinds = REAL if dtype.char in REAL else dtype.char  # others are not cast into each other here
        self._taken: list[list[Any]] = []  # what each copy has returned in this step, in this order

    @staticmethod
    def can_step(env: Any) -> TypeGuard[SyncVectorEnv]:
        """Whether the copies of this vector environment can be stepped here."""
        return (
            type(env) is SyncVectorEnv  # others may do more in a step
            and env.autoreset_mode is AutoresetMode.SAME_STEP
            and isinstance(env.single_observation_space, gymnasium.spaces.Box)
            and all(type(copy) is StrictEnv for copy in env.envs)
        )

    def step(self, actions: Any, shape: tuple[int, ...]) -> CopiesStep | None:
        """One step of every copy, or None: then `step_again` goes on. `shape`: criteria and groups."""
        env, rows, rewards, flags = self.env, list[Any](), list[Any](), list[Any]()
        final: dict[int, Any] = {}  # last observations of ended episodes, by copy
        amounts = np.empty((2, env.num_envs, *shape))
        shapes = (shape, shape[1:]) if shape[0] == 1 else (shape,)
        copies: Any = env.envs
        self._taken = []
        for i, (copy, action) in enumerate(zip(copies, iterate(env.action_space, actions), strict=True)):
            result = copy.env.step(action)
            self._taken.append([result])
            if type(result) is not tuple or len(result) != 5 or type(result[4]) is not dict:
                return None
            observation, reward, terminated, truncated, info = result
            supply, demand = info.get("supply"), info.get("demand")
            if (
                type(reward) not in REWARDS
                or not -LARGEST <= reward <= LARGEST  # NaN does not either
                or type(terminated) not in FLAGS
                or type(truncated) not in FLAGS
                or not _is_usual(supply, shapes, AMOUNTS)
                or not _is_usual(demand, shapes, AMOUNTS)
                or not _is_usual(observation, self._shapes, self._kinds)
            ):
                return None
            amounts[0, i], amounts[1, i] = supply, demand
            if terminated or truncated:
                final[i] = observation.copy()  # the environment may change it when it is reset
                result = copy.env.reset(seed=None, options=None)
                self._taken[i].append(result)
                if type(result) is not tuple or len(result) != 2 or type(result[1]) is not dict:
                    return None
                observation = result[0]
                if not _is_usual(observation, self._shapes, self._kinds):
                    return None
            rows.append(observation)
            rewards.append(reward)
            flags.append((terminated, truncated))
        return self._gathered(rows, final, rewards, amounts, flags)

    def step_again(self, actions: Any) -> tuple[Any, ...]:
        """The vector environment's own step, in which copies that have made it do not make it a second time."""
        copies: Any = self.env.envs
        try:
            for copy, results in zip(copies, self._taken, strict=False):  # the copies behind have not made it
                copy.unchecked = results
            return self.env.step(actions)
        finally:
            self._taken = []
            for copy in copies:
                copy.unchecked = []

    def _gathered(
        self, rows: list[Any], final: dict[int, Any], rewards: list[Any], amounts: Any, flags: list[Any]
    ) -> CopiesStep | None:
        """The copies' returns in arrays, if all numbers make sense in 32 bits."""
        observations = np.empty((len(rows), *self._shapes[0]), self._dtype)
        with np.errstate(over="ignore"):
            for i, row in enumerate(rows):
                observations[i] = row
            last = observations.copy() if final else observations
            for i, row in final.items():
                last[i] = row
            supply, demand = benefits = amounts.astype(np.float32)
            seen, shown = observations.astype(np.float32, copy=False), last.astype(np.float32, copy=False)
        finite = np.isfinite(seen).all() and (not final or np.isfinite(shown).all())
        lowest, highest = np.minimum.reduce(amounts, axis=None), np.maximum.reduce(benefits, axis=None)
        if not (finite and lowest >= 0 and highest <= LARGEST):  # neither holds for NaN
            return None
        terminated, truncated = np.array(flags, bool).T.copy()
        reward = np.array(rewards, float).astype(np.float32)
        return CopiesStep(observations, last, reward, supply, demand, terminated, truncated)


def _is_usual(array: Any, shapes: tuple[tuple[int, ...], ...], kinds: str) -> bool:
    return type(array) is np.ndarray and array.shape in shapes and array.dtype.char in kinds
