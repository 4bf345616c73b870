"""Is this environment ready? Steps it and says, like a colleague, what is missing or wrong and how to mend it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array

from elbert.checks import as_seed, as_whole
from elbert.envs.gym_env import WorldEnv
from elbert.envs.gym_infos import VectorSteps
from elbert.envs.gym_names import Names, names_of, parts_of
from elbert.envs.gym_returns import KEYS, EnvCheckError, StrictEnv, as_float32, check_finite
from elbert.envs.registry import find_world
from elbert.envs.world import World
from elbert.errors import InvalidInputError

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
    names: Names  # of groups and rates, as far as the environment says them

    def __str__(self) -> str:
        """A few lines for people."""
        kind = "Environment" if self.copies is None else f"Vector environment of {self.copies} copies"
        several = f" under {self.criteria} criteria" if self.criteria > 1 else ""
        lines = [
            f"{kind}, ready: {self.groups} groups{several}; {self.steps} steps with random actions, "
            f"{self.episodes} episodes ended."
        ]
        for c, g in np.ndindex(self.supply.shape):
            rate = f"{self.names.criteria[c]}, " if self.criteria > 1 else ""
            group = g if self.names.groups is None else self.names.groups[g]
            lines.append(f"  {rate}group {group}: supply {self.supply[c, g]:g}, demand {self.demand[c, g]:g}")
        return "\n".join(lines + [f"Note: {note}" for note in self.notes])


def check_env(env: Any, *, steps: int = 500, seed: int = 0) -> EnvReport:
    """Step an environment with random actions and explain what is missing or wrong.

    Args:
        env: a Gymnasium environment or vector environment, a world, or the name or Gymnasium id of one.
        steps: how many steps to take.
        seed: of the environment and the actions.

    Raises:
        EnvCheckError: with everything that is wrong, if the environment cannot be used as it is.
    """
    as_whole(steps, "steps", "a whole number of steps, at least 1", low=1)
    start = as_seed(seed)
    if isinstance(env, str):
        entry = find_world(env)
        env = gymnasium.make(env) if entry is None else entry.make()
    if isinstance(env, World):
        env = WorldEnv(env)
    try:
        return _report(env, steps, start)
    except EnvCheckError:
        raise
    except Exception as error:  # the environment may raise anything
        ours = isinstance(error, InvalidInputError)
        raise EnvCheckError([str(error) if ours else f"It raised {type(error).__name__}: {error}"]) from error


def _report(env: Any, steps: int, seed: int) -> EnvReport:
    if not isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv):
        raise InvalidInputError(
            f"This is {type(env).__name__}, not a gymnasium.Env or gymnasium.vector.VectorEnv. Make it one: a class "
            "with reset() and step(), observation_space and action_space."
        )
    missing = [name for name in ("observation_space", "action_space") if getattr(env, name, None) is None]
    if missing:
        raise InvalidInputError(f"It has no {' and no '.join(missing)}. Set it in __init__.")
    many = isinstance(env, gymnasium.vector.VectorEnv)
    copies, strict = (env.num_envs, None) if many else (None, StrictEnv(env, thorough=True))
    once, again = (list(_walk(env, strict, min(REPEATED_STEPS, steps), seed)) for _ in range(2))
    if not all(np.array_equal(*pair) for rows in zip(once, again, strict=True) for pair in zip(*rows, strict=True)):
        raise InvalidInputError(
            f"Two runs with reset(seed={seed}) and the same actions differ. Take all randomness from self.np_random "
            "(call super().reset(seed=seed) first), so that results can be repeated."
        )
    totals: dict[str, Any] = dict.fromkeys(KEYS, 0.0)
    made = episodes = 0
    for step in islice(_walk(env, strict, steps, seed), 1, None):
        totals = {key: total + getattr(step, key).sum(axis=0, dtype=float) for key, total in totals.items()}
        made += int(step.counted.sum())
        episodes += int((step.terminated | step.truncated).sum())
    for key, total in totals.items():
        check_finite(as_float32(total)[None], f"total {key}")
    criteria, groups = totals["supply"].shape
    in_place = strict is not None and strict.changed_in_place
    parts = parts_of(env)
    space = env.single_observation_space if isinstance(env, gymnasium.vector.VectorEnv) else env.observation_space
    misfit = "" if parts is None else parts.misfit(int(gymnasium.spaces.flatdim(space)), groups)
    notes = tuple(_notes(**totals, episodes=episodes, steps=made, in_place=in_place) + [misfit] * bool(misfit))
    return EnvReport(
        copies, criteria, groups, made, episodes, **totals, notes=notes, names=names_of(env, criteria, groups)
    )


def _notes(supply: Any, demand: Any, episodes: int, steps: int, in_place: bool) -> list[str]:
    """What is allowed but may not be meant."""
    without = ", ".join(map(str, np.flatnonzero(demand.sum(axis=0) == 0)))
    above = ", ".join(map(str, np.flatnonzero(((supply > demand * (1 + 1e-6)) & (demand > 0)).any(axis=0))))
    notes = {
        "supply or demand is one array in every step, changed in place. Whoever keeps it sees it change: put a copy "
        "into info.": in_place,
        "there is only one group, so there is nothing to compare: its bias is 0 whatever happens.": supply.shape[1]
        == 1,
        f"group {without} never had any demand, so it has no benefit rate. If this stays so in whole episodes, its "
        "bias cannot be said.": without,
        f"group {above} received more than was due, all steps together, so a rate exceeds 1. If supply should be a "
        "part of demand, are the two exchanged?": above,
        "supply was 0 in every step. Random actions may never give a benefit, or it is not counted.": not supply.any(),
        f"no episode ended within {steps} steps. Benefit rates are formed over whole episodes, so training and "
        "evaluation wait for their ends. Check with more steps=, or let episodes end: gymnasium.wrappers.TimeLimit "
        "adds a limit.": not episodes,
    }
    return [note for note, holds in notes.items() if holds]


def _walk(env: Any, strict: StrictEnv | None, count: int, seed: int) -> Iterator[Any]:
    """(observations,) of a seeded reset, then steps with random actions. One environment is a vector of one copy."""
    space, vector, sample = env.action_space, env, env.action_space.sample
    if strict is not None:
        vector = SyncVectorEnv([lambda: strict], autoreset_mode=AutoresetMode.DISABLED)
        vector.closed = True  # the environment is the user's to close

        def sample() -> Any:
            return concatenate(space, [space.sample()], create_empty_array(space, 1))

    space.seed(seed)
    steps = VectorSteps(vector, thorough=True)
    yield (steps.reset(seed),)
    for _ in range(count):
        yield steps.step(sample())
