"""What a user's environment returns from `reset` and `step`, read and checked. Knows nothing of autoreset.

`info["supply"]` and `info["demand"]` of a step are [groups], or [criteria, groups] for several criteria. A vector
environment puts the copies in front.
"""

import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector.utils import iterate

from elbert.errors import ElbertError, InvalidInputError, did_you_mean
from elbert.fairness.arrays import as_array, as_pair

KEYS = ("supply", "demand")
RETURNS = {"reset": "(observation, info)", "step": "(observation, reward, terminated, truncated, info)"}
LARGEST_SPACE = 1_000_000
"""The most numbers in an observation and the most choices in an action; more would fill the memory."""


class NotFiniteError(InvalidInputError):
    """A reward or an observation of a user's environment is infinite or NaN."""


class EnvCheckError(InvalidInputError):
    """The environment cannot be used as it is. `problems` lists why."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        many = f"{len(problems)} things stand" if len(problems) > 1 else "One thing stands"
        listed = "\n".join(f"  {number}. {problem}" for number, problem in enumerate(problems, 1))
        super().__init__(f"{many} in the way of using this environment:\n{listed}")


class StrictEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One environment whose returns are checked before Gymnasium gathers copies of it; all problems are told at once.

    A vector environment turns the text "3" or None into a number, and spreads an array of one group over all. What
    was wrong can be seen only here. `thorough` also checks what is slow to check and can be seen later: that
    observations lie in their space, and that supply and demand make sense.
    """

    changed_in_place = False  # whether a step changed the supply or demand that the step before had returned

    def __init__(self, env: gymnasium.Env[Any, Any], *, thorough: bool = False) -> None:
        super().__init__(env)
        self._thorough = thorough
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._held: dict[str, tuple[Any, Any]] = {}  # an array of the step before, and a copy of what it held
        self.unchecked: list[Any] = []  # what the environment has returned already, to be checked in place of a call

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """As the environment's own, if it returns two values."""
        observation, info = returned(
            lambda: self.unchecked.pop(0) if self.unchecked else self.env.reset(seed=seed, options=options), "reset"
        )
        self._check_observation(observation, "reset()")
        return observation, dict(info)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """As the environment's own, if it returns five values that make sense."""
        observation, reward, terminated, truncated, info = returned(
            lambda: self.unchecked.pop(0) if self.unchecked else self.env.step(action), "step"
        )
        checks: tuple[Callable[[], Any], ...] = (
            lambda: self._check_observation(observation, "step()"),
            lambda: as_values(reward, "reward", ()),
            lambda: as_values(terminated, "terminated", ()),
            lambda: as_values(truncated, "truncated", ()),
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

    def _check_benefits(self, info: Mapping[str, Any]) -> None:
        if self._thorough:
            benefit_pair(info)
        for key in KEYS:
            amounts = info.get(key)
            if isinstance(amounts, np.ndarray) and amounts.ndim in (1, 2):  # others are refused after gathering
                self._shapes[key] = same_groups((1, *amounts.shape)[-2:], self._shapes.get(key), key)
                if self._thorough:
                    before, as_it_was = self._held.get(key, (np.zeros(0), None))
                    changed = np.shares_memory(amounts, before) and not np.array_equal(amounts, as_it_was)
                    self.changed_in_place = self.changed_in_place or changed
                    self._held[key] = amounts, amounts.copy()


def as_rows(mask: Any, like: Any) -> Any:
    """The mask with axes of length 1 behind it, so that it chooses among the rows of `like`. [copies, 1, ...]"""
    return mask.reshape(-1, *(1,) * (like.ndim - 1))


def as_float32(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values in 32 bits; one beyond their range becomes infinite, which `check_finite` refuses."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def called(call: Callable[[], Any], name: str) -> Any:
    """What a call into the user's environment gives, during its method of this name.

    An exception from the user's own code passes as it is. One that was raised inside Gymnasium says little about its
    cause, for example "not enough values to unpack" for a step of four values, so the message adds what is needed.
    """
    try:
        return call()
    except ElbertError:
        raise
    except (SystemExit, EOFError, BrokenPipeError, ConnectionResetError) as error:
        raise InvalidInputError(
            f"The environment ended its process during {name}() ({type(error).__name__}). Does it call exit()? Let it "
            "end an episode with terminated=True, and raise an exception where something is wrong."
        ) from error
    except Exception as error:
        modules = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
        culprit = next(module for module in reversed(modules) if not module.startswith("numpy"))
        if not culprit.startswith("gymnasium"):
            raise
        raise InvalidInputError(
            f"{name}() failed inside Gymnasium with {type(error).__name__}: {error}. Every copy must return "
            f"{RETURNS[name]}, with the same shapes each time. elbert.check_env(env) on a single copy says what is "
            "wrong."
        ) from error


def returned(call: Callable[[], Any], name: str) -> tuple[Any, ...]:
    """What `reset` or `step` of the user's environment returns, if it is a tuple of as many values as it should be."""
    result = called(call, name)
    values: tuple[Any, ...] = result if isinstance(result, tuple) else ()
    if len(values) == RETURNS[name].count(",") + 1 and isinstance(values[-1], Mapping):
        return values
    kinds = f"({', '.join(type(value).__name__ for value in values)})" if values else type(result).__name__
    raise InvalidInputError(f"{name}() returned {kinds}. It must return {RETURNS[name]}, where info is a dictionary.")


def as_values(values: Any, name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The reward as numbers, `terminated` or `truncated` as bools: [] for one environment, [copies] for many."""
    kinds, need = ("biuf", "finite numbers") if name == "reward" else ("b", "bools (Python's or NumPy's)")
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        array = np.asarray(None)
    if array.dtype.kind not in kinds or array.shape != shape:
        raise InvalidInputError(f"The step's {name} is {values!r}. Give {need} of shape {shape}.")
    return array


def check_spaces(observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]) -> None:
    """Refuse spaces of one environment from which nothing can be learned: empty, too large, or of no fixed size."""
    for name, space in (("observation_space", observation_space), ("action_space", action_space)):
        try:
            size: Any = gymnasium.spaces.flatdim(space)
        except (NotImplementedError, ValueError):
            size = "no fixed number of"
        if isinstance(size, str) or not 0 < size <= LARGEST_SPACE:
            raise InvalidInputError(
                f"{name} is {space}, which has {size} entries (a choice counts as one entry per value). Give a Box, "
                f"Discrete, MultiDiscrete or MultiBinary space with 1 to {LARGEST_SPACE} entries, or a Dict or Tuple "
                "of them."
            )


def flat_observations(env: gymnasium.vector.VectorEnv[Any, Any, Any], observations: Any) -> np.ndarray[Any, Any]:
    """Observations of any space as rows of numbers. [copies, observation] float32"""
    space, copies = env.single_observation_space, env.num_envs
    try:
        if isinstance(space, gymnasium.spaces.Box):
            shape = (copies, *space.shape)
            array = as_float32(np.asarray(observations))
        else:
            shape = (copies, gymnasium.spaces.flatdim(space))
            rows = [gymnasium.spaces.flatten(space, row) for row in iterate(env.observation_space, observations)]
            array = np.asarray(rows, np.float32)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise InvalidInputError(
            f"The observations do not lie in {space} ({error}). Mend the space or the observations."
        ) from error
    if array.shape != shape:
        raise InvalidInputError(
            f"The observations have shape {array.shape}. Give shape {shape}: the copies, then {space}."
        )
    return array.reshape(copies, -1)


def check_within(space: gymnasium.Space[Any], observation: Any, name: str) -> None:
    """Refuse an observation that does not lie in its space. `name`: the method that returned it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a list is cast to an array, which Gymnasium warns of
        try:
            inside = space.contains(observation)
        except (TypeError, ValueError):
            inside = False
    if not inside:
        shape, dtype = getattr(observation, "shape", None), getattr(observation, "dtype", type(observation).__name__)
        raise InvalidInputError(
            f"The observation of {name} does not lie in observation_space {space}: it has shape {shape}, dtype "
            f"{dtype}. Mend one or the other (often it is the dtype, or a bound)."
        )


def check_finite(values: np.ndarray[Any, Any], name: str) -> None:
    """Refuse infinite and NaN values, naming the first one and its copy if there are several. [copies, ...]"""
    wrong = ~np.isfinite(values)
    if wrong.any():
        place = f" (copy {int(np.argwhere(wrong)[0][0])})" if len(values) > 1 else ""
        raise NotFiniteError(
            f"The {name} is {values[wrong][0]:g}{place}. Give finite numbers, in the range of 32 bits."
        )


def same_groups(shape: tuple[int, ...], before: tuple[int, ...] | None, name: str = "supply") -> tuple[int, ...]:
    """The shape (criteria, groups) of a step's benefits, refused if it is not the one of the steps before."""
    if before is not None and shape != before:
        raise InvalidInputError(
            f"{name} had {before[1]} groups (criteria: {before[0]}) and then {shape[1]} ({shape[0]}). Give every group "
            "a place in every step, with 0 where nothing happened."
        )
    return shape


def check_entries(info: Mapping[str, Any], name: str, needed: np.ndarray[Any, Any]) -> None:
    """Refuse an info of many copies whose mask says that a needed copy has no entry of this name."""
    mask = np.asarray(info.get(f"_{name}", needed))
    if mask.shape != needed.shape:
        raise InvalidInputError(f'info["_{name}"] has shape {mask.shape}. Give one bool per copy, {needed.shape}.')
    missing = needed & ~mask.astype(bool)
    if missing.any():
        raise InvalidInputError(
            f'info has no "{name}" for copy {int(np.argmax(missing))}, although it made a step. Add it to each. In the '
            'autoreset mode SameStep, the last step of an episode has it in info["final_info"].'
        )


def benefit_rows(info: Mapping[str, Any], needed: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """Supply and demand of the copies that are needed, 0 for the others. [copies, ..., groups] each"""
    for key in KEYS:
        check_entries(info, key, needed)
    rows = {key: needed_rows(value, needed, key) if key in KEYS else value for key, value in info.items()}
    supply, demand = benefit_pair(rows)
    copies = len(needed)
    if supply.ndim not in (2, 3) or supply.shape[0] != copies:
        raise InvalidInputError(
            f"supply has shape {supply.shape} for {copies} copies. Give [copies, groups], here [{copies}, groups], or "
            "[copies, criteria, groups]."
        )
    return supply, demand


def needed_rows(values: Any, needed: np.ndarray[Any, Any], name: str) -> Any:
    """The values with zeros in the rows that are not needed, whatever stands there. [copies, ...]"""
    array = values if isinstance(values, np.ndarray) and values.dtype == object else as_array(values, name)
    if array.ndim == 0 or array.shape[0] != len(needed):
        return array
    if array.dtype != object:
        return np.where(as_rows(needed, array), array, 0.0)
    # Gymnasium gathers lists in an array of objects, with None for copies that have none.
    kept = [as_array(row, name) for row in array[needed]]
    if len({row.shape for row in kept}) > 1:
        raise InvalidInputError(f"The copies report shapes {sorted({row.shape for row in kept})}. Give all the same.")
    filled = np.zeros((len(needed), *kept[0].shape))
    filled[needed] = kept
    return filled


def benefit_pair(info: Mapping[str, Any]) -> tuple[Any, Any]:
    """Both entries of an info, as arrays that belong together."""
    for key in KEYS:
        if info.get(key) is None:
            names = [str(name) for name in info if not str(name).startswith("_")]
            raise InvalidInputError(
                f'info has no "{key}".{did_you_mean(key, names)} Every step must say how much benefit each group '
                'received (info["supply"]) and how much it was due (info["demand"]); elbert.SupplyDemandWrapper adds '
                "both."
            )
    return as_pair(info["supply"], info["demand"])
