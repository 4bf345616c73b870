"""Is this environment ready? Steps it and says, like a colleague, what is missing or wrong and how to mend it."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

from elbert.checks import as_whole
from elbert.envs.gym_env import WorldEnv
from elbert.envs.gym_infos import autoreset_mode, vector_benefits
from elbert.envs.gym_returns import Benefits, step_benefits
from elbert.envs.registry import get_entry
from elbert.envs.world import World
from elbert.errors import InvalidInputError


class EnvCheckError(InvalidInputError):
    """The environment cannot be used as it is. `problems` lists why."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        many = f"{len(problems)} things stand" if len(problems) > 1 else "One thing stands"
        listed = "\n".join(f"  {number}. {problem}" for number, problem in enumerate(problems, 1))
        super().__init__(f"{many} in the way of using this environment:\n{listed}")


@dataclass(frozen=True)
class EnvReport:
    """What a checked environment showed. Nothing stands in the way of using it; `notes` are worth a look."""

    copies: int | None  # None for a single environment
    criteria: int
    groups: int
    steps: int  # of all copies together
    episodes: int  # that ended
    supply: np.ndarray[Any, Any]  # [criteria, groups] totals over the steps
    demand: np.ndarray[Any, Any]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """A few lines for people."""
        kind = "Environment" if self.copies is None else f"Vector environment of {self.copies} copies"
        several = f" under {self.criteria} criteria" if self.criteria > 1 else ""
        lines = [
            f"{kind}, ready: {self.groups} groups{several}; {self.steps} steps with random actions, "
            f"{self.episodes} episodes ended."
        ]
        for c in range(self.criteria):
            name = f"criterion {c}, " if self.criteria > 1 else ""
            lines += [
                f"  {name}group {g}: supply {self.supply[c, g]:g}, demand {self.demand[c, g]:g}"
                for g in range(self.groups)
            ]
        return "\n".join(lines + [f"Note: {note}" for note in self.notes])


def check_env(env: Any, *, steps: int = 500, seed: int = 0) -> EnvReport:
    """Step an environment with random actions and explain what is missing or wrong.

    Args:
        env: a Gymnasium environment or vector environment, a world, or the name of one.
        steps: how many steps to take.
        seed: of the environment and the actions.

    Raises:
        EnvCheckError: with everything found, if the environment cannot be used as it is.
    """
    as_whole(steps, "steps", "a whole number of steps, at least 1", low=1)
    start = as_whole(seed, "seed", "a whole number, 0 or more", low=0)
    if isinstance(env, str):
        env = get_entry(env).make()
    if isinstance(env, World):
        env = WorldEnv(env)
    if not isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv):
        raise EnvCheckError(
            [
                f"This is {type(env).__name__}, not a gymnasium.Env or gymnasium.vector.VectorEnv. Make it one: a "
                "class with reset() and step(), observation_space and action_space."
            ]
        )
    visit = _Visit()
    visit.look(env, steps, start)
    if visit.problems:
        raise EnvCheckError(visit.problems)
    assert visit.supply is not None
    assert visit.demand is not None
    criteria, groups = visit.supply.shape
    copies = env.num_envs if isinstance(env, gymnasium.vector.VectorEnv) else None
    notes = (*visit.notes, *_notes(visit.supply, visit.demand, visit.episodes, visit.steps))
    return EnvReport(copies, criteria, groups, visit.steps, visit.episodes, visit.supply, visit.demand, notes)


def _notes(supply: Any, demand: Any, episodes: int, steps: int) -> list[str]:
    """What is allowed but may not be meant."""
    notes = []
    if supply.shape[1] == 1:
        notes.append("there is only one group, so that there is nothing to compare: its bias is 0 whatever happens.")
    without = sorted({int(g) for g in np.argwhere(demand.sum(axis=0) == 0).ravel()})
    if without:
        who = ", ".join(map(str, without))
        notes.append(
            f"group {who} never had any demand, so it has no benefit rate. If this stays so in whole episodes, its "
            "bias cannot be said."
        )
    above = sorted({int(g) for g in np.argwhere((supply > demand * (1 + 1e-6)) & (demand > 0))[:, 1]})
    if above:
        who = ", ".join(map(str, above))
        notes.append(
            f"group {who} received more than was due, all steps together, so that a rate exceeds 1. If supply should "
            "be a part of demand, are the two exchanged?"
        )
    if not supply.any():
        notes.append("supply was 0 in every step. Random actions may never give a benefit, or it is not counted.")
    if not episodes:
        notes.append(f"no episode ended within {steps} steps. Rates are formed over whole episodes.")
    return notes


@dataclass
class _Visit:
    """What was seen so far."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    supply: Any = None
    demand: Any = None
    steps: int = 0
    episodes: int = 0

    def look(self, env: Any, steps: int, seed: int) -> None:
        """Everything, in the order in which one thing needs the other."""
        missing = [name for name in ("observation_space", "action_space") if getattr(env, name, None) is None]
        if missing:
            self.problems.append(f"It has no {' and no '.join(missing)}. Set it in __init__.")
            return
        many = isinstance(env, gymnasium.vector.VectorEnv)
        if many and not self._can(lambda: autoreset_mode(env)):
            return
        first = self._walk(env, min(20, steps), seed, many, quiet=False)
        if self.problems or first is None:
            return
        again = self._walk(env, min(20, steps), seed, many, quiet=True)
        if again is not None and not _same(first, again):
            self.problems.append(
                f"Two runs with reset(seed={seed}) and the same actions differ. Take all randomness from "
                "self.np_random (call super().reset(seed=seed) first), so that results can be repeated."
            )
        if not self.problems and steps > 20:
            self._walk(env, steps, seed, many, quiet=False)

    def _walk(self, env: Any, steps: int, seed: int, many: bool, *, quiet: bool) -> list[Any] | None:
        """Steps from a seeded reset; what was seen, or None if something went wrong on the way."""
        self.steps, self.episodes, self.supply, self.demand = 0, 0, None, None
        env.action_space.seed(seed)
        course: list[Any] = []
        observation = self._reset(env, seed)
        if observation is None:
            return None
        course.append(copy.deepcopy(observation))
        shape = (env.num_envs,) if many else ()
        ended = np.zeros(shape, bool)
        held: tuple[Any, ...] | None = None
        for _ in range(steps):
            result = self._try(lambda: env.step(env.action_space.sample()), "step()")
            if result is None or not self._shape_of_step(result):
                return None
            observation, reward, terminated, truncated, info = result
            self._observation(env, observation, "step()")
            flags = self._flags(terminated, truncated, shape)
            self._reward(reward, shape)
            if self.problems:
                return None
            before, ended = ended, flags
            benefits = self._benefits(env, info, ended, before, many)
            if benefits is None or not self._count(benefits):
                return None
            if not quiet and not many:
                held = self._own_arrays(info, held)
            course.append(copy.deepcopy((observation, reward, benefits)))
            self.episodes += int(ended.sum())
            if (not many and ended) or (many and autoreset_mode(env).name == "DISABLED" and ended.any()):
                options = {"reset_mask": ended.copy()} if many else None
                if self._try(lambda options=options: env.reset(options=options), "reset()") is None:
                    return None
                ended = np.zeros_like(ended)
        return course

    def _reset(self, env: Any, seed: int) -> Any:
        result = self._try(lambda: env.reset(seed=seed), "reset()")
        if result is None:
            return None
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
            self.problems.append("reset() must return two things, (observation, info), where info is a dictionary.")
            return None
        self._observation(env, result[0], "reset()")
        return None if self.problems else result[0]

    def _try(self, call: Callable[[], Any], name: str) -> Any:
        try:
            result = call()
        except InvalidInputError as error:
            self.problems.append(str(error))
            return None
        except Exception as error:  # a user's environment may raise anything; the report names it
            self.problems.append(f"{name} failed with {type(error).__name__}: {error}")
            return None
        if result is None:
            self.problems.append(f"{name} returned nothing. Is a return missing?")
        return result

    def _can(self, call: Callable[[], Any]) -> bool:
        return self._try(call, "metadata") is not None

    def _shape_of_step(self, result: Any) -> bool:
        right = isinstance(result, tuple) and len(result) == 5 and isinstance(result[4], dict)
        if not right:
            given = f"{len(result)} things" if isinstance(result, tuple) else type(result).__name__
            if isinstance(result, tuple) and len(result) == 5:
                given = f"five things, but the last is {type(result[4]).__name__}"
            self.problems.append(
                f"step() returned {given}. It must return five, (observation, reward, terminated, truncated, info), "
                "where info is a dictionary."
            )
        return right

    def _observation(self, env: Any, observation: Any, name: str) -> None:
        if not env.observation_space.contains(observation):
            shape, dtype = (
                getattr(observation, "shape", None),
                getattr(observation, "dtype", type(observation).__name__),
            )
            self.problems.append(
                f"The observation of {name} does not lie in observation_space {env.observation_space}: it has shape "
                f"{shape}, dtype {dtype}. Mend one or the other (often it is the dtype, or a bound)."
            )

    def _flags(self, terminated: Any, truncated: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        flags = [np.asarray(terminated), np.asarray(truncated)]
        for name, flag in zip(("terminated", "truncated"), flags, strict=True):
            if flag.dtype != bool or flag.shape != shape:
                self.problems.append(
                    f"{name} has dtype {flag.dtype} and shape {flag.shape}. Give {'bools' if shape else 'a bool'} "
                    f"of shape {shape}: terminated for an end of the world's own, truncated for a time limit."
                )
        return flags[0] | flags[1] if not self.problems else np.zeros(shape, bool)

    def _reward(self, reward: Any, shape: tuple[int, ...]) -> None:
        try:
            array = np.asarray(reward, float)
        except (TypeError, ValueError):
            array = np.asarray(np.nan)
        if array.shape != shape or not np.isfinite(array).all():
            self.problems.append(f"The reward is {reward!r}. Give finite numbers of shape {shape}.")

    def _benefits(self, env: Any, info: Any, ended: Any, before: Any, many: bool) -> Benefits | None:
        try:
            if not many:
                return step_benefits(info)
            return vector_benefits(info, mode=autoreset_mode(env), ended=ended, ended_before=before)
        except InvalidInputError as error:
            self.problems.append(str(error))
            return None

    def _count(self, benefits: Benefits) -> bool:
        """Add to the totals; the groups must be the same ones in every step."""
        if not benefits.counted.any():
            return True
        supply, demand = benefits.supply, benefits.demand
        if supply.ndim == 3:
            supply, demand = supply.sum(axis=0), demand.sum(axis=0)
        if self.supply is None:
            self.supply, self.demand = np.zeros_like(supply), np.zeros_like(demand)
        if supply.shape != self.supply.shape:
            self.problems.append(
                f"supply had {self.supply.shape[1]} groups (criteria: {self.supply.shape[0]}) and then "
                f"{supply.shape[1]} ({supply.shape[0]}). Give every group a place in every step, with 0 where nothing "
                "happened."
            )
            return False
        self.supply, self.demand = self.supply + supply, self.demand + demand
        self.steps += int(np.sum(benefits.counted))
        return True

    def _own_arrays(self, info: Any, held: tuple[Any, ...] | None) -> tuple[Any, ...]:
        """Note if a step's arrays are those of the step before, changed: a reader who keeps them sees them change."""
        now = tuple((array, np.array(array)) for array in (info["supply"], info["demand"]))
        shared = held is not None and any(
            isinstance(new, np.ndarray)
            and isinstance(old, np.ndarray)
            and np.shares_memory(new, old)
            and not np.array_equal(new, as_it_was)
            for (new, _), (old, as_it_was) in zip(now, held, strict=True)
        )
        note = (
            "supply or demand is one array in every step, changed in place. Whoever keeps it sees it change: put "
            "a copy into info."
        )
        if shared and note not in self.notes:
            self.notes.append(note)
        return now


def _same(one: Any, other: Any) -> bool:
    """Whether two courses are equal, entry by entry."""
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))
