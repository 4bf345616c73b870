"""What a user's environment returns from `reset` and `step`, read and checked. Knows nothing of autoreset.

`info["supply"]` and `info["demand"]` of a step are [groups], or [criteria, groups] for several criteria. A vector
environment puts the copies in front.
"""

import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector.utils import iterate

from elbert.errors import ElbertError, InvalidInputError, did_you_mean
from elbert.fairness.arrays import as_array, as_pair

KEYS = ("supply", "demand")
LARGEST_SPACE = 1_000_000
"""The most numbers in an observation and the most choices in an action; more would fill the memory."""


class NotFiniteError(InvalidInputError):
    """A reward or an observation of a user's environment is infinite or NaN."""


class Benefits(NamedTuple):
    """Benefit given and due in one step of one or many copies."""

    supply: np.ndarray[Any, Any]  # [criteria, groups] or [copies, criteria, groups], float64
    demand: np.ndarray[Any, Any]
    counted: np.ndarray[Any, Any]  # [] or [copies] bool: False where a copy was only reset


def as_rows(mask: Any, like: Any) -> Any:
    """The mask with axes of length 1 behind it, so that it chooses among the rows of `like`. [copies, 1, ...]"""
    return mask.reshape(-1, *(1,) * (like.ndim - 1))


def as_float32(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values in 32 bits; one beyond their range becomes infinite, which `check_finite` refuses."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def called(call: Callable[[], Any], name: str) -> Any:
    """What a method of the user's environment returns.

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
        returns = "(observation, info)" if name == "reset" else "(observation, reward, terminated, truncated, info)"
        raise InvalidInputError(
            f"{name}() failed inside Gymnasium with {type(error).__name__}: {error}. Every copy must return {returns}, "
            "with the same shapes each time. elbert.check_env(env) on a single copy says what is wrong."
        ) from error


def two_values(result: Any) -> tuple[Any, Mapping[str, Any]]:
    """(observation, info) of a reset."""
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping)):
        raise InvalidInputError("reset() must return two things, (observation, info), where info is a dictionary.")
    return result


def five_values(result: Any) -> tuple[Any, Any, Any, Any, Mapping[str, Any]]:
    """(observation, reward, terminated, truncated, info) of a step."""
    if result is None:
        raise InvalidInputError("step() returned nothing. Is a return missing?")
    if isinstance(result, tuple) and len(result) == 5 and isinstance(result[4], Mapping):
        return result
    shown = f"{len(result)} things" if isinstance(result, tuple) else type(result).__name__
    if isinstance(result, tuple) and len(result) == 5:
        shown = f"five things, but the last is {type(result[4]).__name__}"
    raise InvalidInputError(
        f"step() returned {shown}. It must return five, (observation, reward, terminated, truncated, info), where info "
        "is a dictionary."
    )


def as_reward(reward: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Rewards as numbers of this shape: [] for one environment, [copies] for many."""
    try:
        array = np.asarray(reward)
    except (TypeError, ValueError):
        array = np.asarray(None)
    if array.dtype.kind not in "biuf" or array.shape != shape:
        raise InvalidInputError(f"The reward is {reward!r}. Give finite numbers of shape {shape}.")
    return array


def as_flags(flags: Any, name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """`terminated` or `truncated` as bools of this shape."""
    array = np.asarray(flags)
    if array.dtype != bool or array.shape != shape:
        raise InvalidInputError(
            f"{name} has dtype {array.dtype} and shape {array.shape}. Give {'bools' if shape else 'a bool'} of shape "
            f"{shape}: terminated for an end of the world's own, truncated for a time limit."
        )
    return array


def check_spaces(observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]) -> None:
    """Refuse spaces of one environment from which nothing can be learned: empty, too large, or of no fixed size."""
    for name, space in (("observation_space", observation_space), ("action_space", action_space)):
        try:
            size = gymnasium.spaces.flatdim(space)
        except (NotImplementedError, ValueError) as error:
            raise InvalidInputError(
                f"{name} is {space}, which has no fixed number of entries. Make it a Box, Discrete, MultiDiscrete or "
                "MultiBinary space, or a Dict or Tuple of them."
            ) from error
        if not 0 < size <= LARGEST_SPACE:
            raise InvalidInputError(
                f"{name} is {space}, which has {size} entries (a choice counts as one entry per value). Give a space "
                f"with 1 to {LARGEST_SPACE} entries."
            )


def flat_observations(env: gymnasium.vector.VectorEnv[Any, Any, Any], observations: Any) -> np.ndarray[Any, Any]:
    """Observations of any space as rows of numbers. [copies, observation] float32"""
    space = env.single_observation_space
    shape = (env.num_envs, *(space.shape or ()))
    if isinstance(space, gymnasium.spaces.Box):
        try:
            array = as_float32(np.asarray(observations))
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"The observations are not numbers ({error}). Give an array of shape {shape}, as {space} says."
            ) from error
        if array.shape != shape:
            raise InvalidInputError(
                f"The observations have shape {array.shape}. Give shape {shape}: the copies, then {space}."
            )
        return array.reshape(env.num_envs, -1)
    rows = called(lambda: list(iterate(env.observation_space, observations)), "step")
    return np.stack([flat_observation(space, row) for row in rows])


def flat_observation(space: gymnasium.Space[Any], observation: Any) -> np.ndarray[Any, Any]:
    """One observation of any space as a row of numbers. [observation] float32"""
    try:
        flat = np.asarray(gymnasium.spaces.flatten(space, observation), np.float32)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise InvalidInputError(
            f"The observation {observation!r} does not lie in {space} ({error}). Mend one or the other."
        ) from error
    size = gymnasium.spaces.flatdim(space)
    if flat.shape != (size,):
        raise InvalidInputError(
            f"An observation has {flat.size} entries, but {space} has {size}. Give every observation the same shape."
        )
    return flat


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


def step_benefits(info: Mapping[str, Any]) -> Benefits:
    """Supply and demand of one step of one environment, checked. [criteria, groups]"""
    supply, demand = benefit_pair(info)
    if supply.ndim > 2:
        raise InvalidInputError(
            f'info["supply"] has shape {supply.shape}. Give one number per group, [groups], or [criteria, groups].'
        )
    shape = (-1, supply.shape[-1])
    return Benefits(supply.reshape(shape), demand.reshape(shape), np.asarray(True))


def same_groups(shape: tuple[int, ...], before: tuple[int, ...] | None, name: str = "supply") -> tuple[int, ...]:
    """The shape (criteria, groups) of a step's benefits, refused if it is not the one of the steps before."""
    if before is not None and shape != before:
        raise InvalidInputError(
            f"{name} had {before[1]} groups (criteria: {before[0]}) and then {shape[1]} ({shape[0]}). Give every group "
            "a place in every step, with 0 where nothing happened."
        )
    return shape


def benefit_rows(
    info: Mapping[str, Any], needed: np.ndarray[Any, Any], where: str = "info"
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Supply and demand of all copies, [copies, criteria, groups] each, required of the copies that are needed."""
    copies = len(needed)
    for key in KEYS:
        mask = info.get(f"_{key}")
        if mask is not None and np.shape(mask) != (copies,):
            raise InvalidInputError(
                f'{where}["_{key}"] has shape {np.shape(mask)}. Give one bool per copy, ({copies},).'
            )
        if mask is not None and not np.asarray(mask)[needed].all():
            row = int(np.flatnonzero(needed & ~np.asarray(mask))[0])
            raise InvalidInputError(f'{where} has no "{key}" for copy {row}, although it made a step. Add it to each.')
    rows = {key: needed_rows(value, needed, key) if key in KEYS else value for key, value in info.items()}
    supply, demand = benefit_pair(rows, where)
    if supply.ndim not in (2, 3) or supply.shape[0] != copies:
        raise InvalidInputError(
            f'{where}["supply"] has shape {supply.shape} for {copies} copies. Give [copies, groups], here '
            f"[{copies}, groups], or [copies, criteria, groups]."
        )
    shape = (copies, -1, supply.shape[-1])
    return supply.reshape(shape), demand.reshape(shape)


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


def benefit_pair(info: Mapping[str, Any], where: str = "info") -> tuple[Any, Any]:
    """Both entries of an info, as arrays that belong together."""
    for key in KEYS:
        if info.get(key) is None:
            names = [str(name) for name in info if not str(name).startswith("_")]
            raise InvalidInputError(
                f'{where} has no "{key}".{did_you_mean(key, names)} Every step must say how much benefit each group '
                'received (info["supply"]) and how much it was due (info["demand"]); elbert.SupplyDemandWrapper adds '
                "both."
            )
    return as_pair(info["supply"], info["demand"])
