"""Reading supply and demand from what Gymnasium returns: the one place that knows its conventions.

`info["supply"]` and `info["demand"]` of a step are [groups], or [criteria, groups] for several criteria. A vector
environment puts the copies in front. Where it resets ended episodes by itself, Gymnasium says:

    NextStep    the step after an episode's end only resets; what it shows belongs to no step
    SameStep    the last step of an episode is in info["final_info"], beside the reset of the next episode
    Disabled    every step is a step
"""

import difflib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode

from elbert.errors import InvalidInputError
from elbert.fairness.arrays import as_pair

KEYS = ("supply", "demand")


class Benefits(NamedTuple):
    """Benefit given and due in one step of one or many copies."""

    supply: np.ndarray[Any, Any]  # [criteria, groups] or [copies, criteria, groups], float64
    demand: np.ndarray[Any, Any]
    counted: np.ndarray[Any, Any]  # [] or [copies] bool: False where a copy was only reset


def step_benefits(info: Mapping[str, Any]) -> Benefits:
    """Supply and demand of one step of one environment, checked. [criteria, groups]"""
    supply, demand = _pair(info)
    if supply.ndim > 2:
        raise InvalidInputError(
            f'info["supply"] has shape {supply.shape}. Give one number per group, [groups], or [criteria, groups].'
        )
    shape = (-1, supply.shape[-1])
    return Benefits(supply.reshape(shape), demand.reshape(shape), np.asarray(True))


def vector_benefits(
    info: Mapping[str, Any],
    *,
    mode: AutoresetMode,
    ended: np.ndarray[Any, Any],
    ended_before: np.ndarray[Any, Any],
) -> Benefits:
    """Supply and demand of one step of many copies, checked. [copies, criteria, groups]

    Args:
        info: of the step.
        mode: the environment's `metadata["autoreset_mode"]`.
        ended: [copies] whether this step ended the copy's episode.
        ended_before: [copies] whether the step before did.
    """
    copies = len(ended)
    if mode is AutoresetMode.SAME_STEP and ended.any():
        last = info.get("final_info")
        if last is not None and not isinstance(last, Mapping):
            raise InvalidInputError(
                f'info["final_info"] is {type(last).__name__}. Give a dictionary of arrays with the copies in front, '
                "as Gymnasium's own vector environments do since version 1.0."
            )
        final = _rows(last or {}, ended, copies, 'info["final_info"]')
        running = final if ended.all() else _rows(info, ~ended, copies, "info")
        chosen = ended.reshape(-1, 1, 1)
        supply, demand = (np.where(chosen, f, r) for f, r in zip(final, running, strict=True))
        return Benefits(supply, demand, np.ones(copies, bool))
    counted = ~ended_before if mode is AutoresetMode.NEXT_STEP else np.ones(copies, bool)
    if not counted.any():
        return Benefits(np.zeros((copies, 0, 0)), np.zeros((copies, 0, 0)), counted)
    shown = counted.reshape(-1, 1, 1)
    supply, demand = _rows(info, counted, copies, "info")
    return Benefits(supply * shown, demand * shown, counted)


def _rows(info: Mapping[str, Any], needed: np.ndarray[Any, Any], copies: int, where: str) -> tuple[Any, Any]:
    """Supply and demand of all copies as [copies, criteria, groups], there for all that are needed."""
    for key in KEYS:
        mask = info.get(f"_{key}")
        if mask is not None and np.shape(mask) != (copies,):
            raise InvalidInputError(
                f'{where}["_{key}"] has shape {np.shape(mask)}. Give one bool per copy, ({copies},).'
            )
        if mask is not None and not np.asarray(mask)[needed].all():
            row = int(np.flatnonzero(needed & ~np.asarray(mask))[0])
            raise InvalidInputError(f'{where} has no "{key}" for copy {row}, although it made a step. Add it to each.')
    given = {key: rows_only(value, needed) if key in KEYS else value for key, value in info.items()}
    supply, demand = _pair(given, where)
    if supply.ndim not in (2, 3) or supply.shape[0] != copies:
        raise InvalidInputError(
            f'{where}["supply"] has shape {supply.shape} for {copies} copies. Give [copies, groups], here '
            f"[{copies}, groups], or [copies, criteria, groups]."
        )
    shape = (copies, -1, supply.shape[-1])
    return supply.reshape(shape), demand.reshape(shape)


def rows_only(values: Any, needed: np.ndarray[Any, Any]) -> Any:
    """The values with zeros in the rows that are not needed, whatever stands there."""
    array = np.asarray(values)
    if array.ndim == 0 or array.shape[0] != len(needed):
        return array
    if array.dtype == object:  # how Gymnasium gathers lists, with None for copies that have none
        kept = [np.asarray(row) for row in array[needed]]
        if len({row.shape for row in kept}) > 1:
            raise InvalidInputError(
                f"The copies report shapes {sorted({row.shape for row in kept})}. Give all the same."
            )
        array = np.zeros((len(needed), *kept[0].shape))
        array[needed] = kept
        return array
    return np.where(needed.reshape(-1, *(1,) * (array.ndim - 1)), array, 0)


def _pair(info: Mapping[str, Any], where: str = "info") -> tuple[Any, Any]:
    """Both entries of an info, as arrays that belong together."""
    for key in KEYS:
        if info.get(key) is None:
            names = [str(name) for name in info if not str(name).startswith("_")]
            near = difflib.get_close_matches(key, [name.lower() for name in names], n=1, cutoff=0.6)
            hint = f" Is it the one called {next(n for n in names if n.lower() == near[0])!r}?" if near else ""
            raise InvalidInputError(
                f'{where} has no "{key}".{hint} Every step must say how much benefit each group received '
                '(info["supply"]) and how much it was due (info["demand"]); elbert.SupplyDemandWrapper adds both.'
            )
    return as_pair(info["supply"], info["demand"])
