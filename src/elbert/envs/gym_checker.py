"""Is this environment ready? Steps it and says, like a colleague, what is missing or wrong and how to mend it."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from elbert.checks import as_seed, as_whole
from elbert.envs.gym_env import WorldEnv
from elbert.envs.gym_infos import autoreset_mode
from elbert.envs.gym_returns import KEYS, as_float32, check_finite, check_spaces, same_groups
from elbert.envs.gym_walk import EnvCheckError, Seen, all_of, walk
from elbert.envs.registry import get_entry
from elbert.envs.world import World

REPEATED_STEPS = 20
"""Steps that are made twice, to see whether a seed repeats them."""


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
        EnvCheckError: with everything that is wrong, if the environment cannot be used as it is.
    """
    as_whole(steps, "steps", "a whole number of steps, at least 1", low=1)
    start = as_seed(seed)
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
    missing = [name for name in ("observation_space", "action_space") if getattr(env, name, None) is None]
    if missing:
        raise EnvCheckError([f"It has no {' and no '.join(missing)}. Set it in __init__."])
    many = isinstance(env, gymnasium.vector.VectorEnv)
    all_of(lambda: check_spaces(*_single_spaces(env)))
    if isinstance(env, gymnasium.vector.VectorEnv):
        all_of(lambda: autoreset_mode(env))
    _check_repetition(env, min(REPEATED_STEPS, steps), start)
    totals, in_place = _Totals(), _InPlace()
    for seen in walk(env, steps, start):
        totals.add(seen)
        if not many:
            in_place.look(seen.info)
    supply, demand = totals.checked()
    return EnvReport(
        copies=env.num_envs if many else None,
        criteria=supply.shape[0],
        groups=supply.shape[1],
        steps=totals.steps,
        episodes=totals.episodes,
        supply=supply,
        demand=demand,
        notes=(*in_place.notes(), *_notes(supply, demand, totals.episodes, totals.steps)),
    )


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
        notes.append(
            f"no episode ended within {steps} steps. Benefit rates are formed over whole episodes, so training and "
            "evaluation wait for their ends. Check with more steps=, or let episodes end: "
            "gymnasium.wrappers.TimeLimit adds a limit."
        )
    return notes


def _single_spaces(env: Any) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
    if isinstance(env, gymnasium.vector.VectorEnv):
        return env.single_observation_space, env.single_action_space
    return env.observation_space, env.action_space


def _check_repetition(env: Any, steps: int, seed: int) -> None:
    """Refuse an environment whose steps differ after the same seed and actions."""
    courses = [
        [copy.deepcopy((seen.before, seen.observation, seen.reward, seen.benefits)) for seen in walk(env, steps, seed)]
        for _ in range(2)
    ]
    if not _same(*courses):
        raise EnvCheckError(
            [
                f"Two runs with reset(seed={seed}) and the same actions differ. Take all randomness from "
                "self.np_random (call super().reset(seed=seed) first), so that results can be repeated."
            ]
        )


class _Totals:
    """Supply and demand over all steps of all copies."""

    def __init__(self) -> None:
        self.steps, self.episodes = 0, 0
        self._sums: np.ndarray[Any, Any] | None = None  # [2, criteria, groups]

    def add(self, seen: Seen) -> None:
        """One step; the groups must be the same ones in every step."""
        self.steps += int(seen.benefits.counted.sum())
        self.episodes += int(seen.ended.sum())
        if not seen.benefits.counted.any():
            return
        amounts = np.stack([seen.benefits.supply, seen.benefits.demand])
        with np.errstate(over="ignore"):  # `checked` refuses what became infinite
            amounts = amounts.sum(axis=1) if amounts.ndim == 4 else amounts
            before = None if self._sums is None else self._sums.shape[1:]
            all_of(lambda: same_groups(amounts.shape[1:], before))
            self._sums = amounts if self._sums is None else self._sums + amounts

    def checked(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """(supply, demand), [criteria, groups] each, refused if they are beyond what 32 bits can hold."""
        assert self._sums is not None  # the first step of every copy counts
        for name, sums in zip(KEYS, self._sums, strict=True):
            all_of(lambda sums=sums, name=name: check_finite(as_float32(sums.T), f"total {name}"))
        return self._sums[0], self._sums[1]


class _InPlace:
    """Notices arrays in an info that are those of the step before, changed: who keeps them sees them change."""

    def __init__(self) -> None:
        self._held: tuple[tuple[Any, Any], ...] = ()  # (the array itself, a copy of what it held)
        self._changed = False

    def look(self, info: Mapping[str, Any]) -> None:
        """Compare with the step before, and keep this one."""
        now = tuple((info[key], np.array(info[key])) for key in KEYS)
        self._changed = self._changed or any(
            isinstance(new, np.ndarray)
            and isinstance(old, np.ndarray)
            and np.shares_memory(new, old)
            and not np.array_equal(new, as_it_was)
            for (new, _), (old, as_it_was) in zip(now, self._held, strict=False)
        )
        self._held = now

    def notes(self) -> tuple[str, ...]:
        """What there is to say."""
        note = (
            "supply or demand is one array in every step, changed in place. Whoever keeps it sees it change: put a "
            "copy into info."
        )
        return (note,) if self._changed else ()


def _same(one: Any, other: Any) -> bool:
    """Whether two courses are equal, entry by entry."""
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))
