"""How Gymnasium's vector environments reset ended episodes: the one module that knows.

    NextStep    the step after an episode's end only resets; what it shows belongs to no step
    SameStep    the step that ends an episode also resets; its last observation and info are in info["final_obs"] and
                info["final_info"], while the other entries show the start of the next episode
    Disabled    the caller resets, by reset(options={"reset_mask": ended})

A learner needs none of this: `VectorSteps` shows every step as it was before any reset.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from elbert.envs.gym_copies import CopiesStep, CopySteps
from elbert.envs.gym_names import Names, names_of
from elbert.envs.gym_returns import (
    as_float32,
    as_rows,
    as_values,
    benefit_rows,
    called,
    check_finite,
    check_spaces,
    check_within,
    flat_observations,
    returned,
    same_groups,
)
from elbert.errors import InvalidInputError
from elbert.fairness.arrays import check_amounts

VectorEnv = gymnasium.vector.VectorEnv[Any, Any, Any]
Mask = np.ndarray[Any, Any]


def autoreset_mode(env: VectorEnv) -> AutoresetMode:
    """How a vector environment resets ended episodes; one that does not say is refused."""
    mode = (env.metadata or {}).get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        raise InvalidInputError(
            f'The vector environment\'s metadata["autoreset_mode"] is {mode!r}. Set it to one of gymnasium.vector.'
            "AutoresetMode, so that the last step of an episode can be told from the reset after it."
        )
    return mode


def stepping(mode: AutoresetMode, ended_before: Mask) -> Mask:
    """Which copies make a step now, given those whose episode the step before ended. [copies] bool"""
    return ~ended_before if mode is AutoresetMode.NEXT_STEP else np.ones_like(ended_before)


def resets_after(mode: AutoresetMode, ended: Mask) -> bool:
    """Whether a step that ends these copies' episodes also resets them."""
    return mode is AutoresetMode.SAME_STEP and bool(ended.any())


def ended_after(mode: AutoresetMode, ended: Mask) -> Mask:
    """Which copies stand at the end of an episode when the step is over. [copies] bool"""
    return np.zeros_like(ended) if mode is AutoresetMode.SAME_STEP else ended


def with_benefits(
    infos: Mapping[str, Any], mode: AutoresetMode, supply: Any, demand: Any, *, ended: Mask, stepped: Mask
) -> dict[str, Any]:
    """The infos of a step with its benefits, [copies, ...] each, added where `before_reset` looks for them."""

    def masked(mask: Mask) -> dict[str, Any]:
        if not mask.any():
            return {}
        rows = as_rows(mask, supply)
        return {"supply": supply * rows, "_supply": mask.copy(), "demand": demand * rows, "_demand": mask.copy()}

    if not resets_after(mode, ended):
        return {**infos, **masked(stepped)}
    final = {**_final_info(infos), **masked(ended)}
    return {**infos, **masked(stepped & ~ended), "final_info": final, "_final_info": ended.copy()}


def final_entries(mode: AutoresetMode, observations: np.ndarray[Any, Any], ended: Mask) -> dict[str, Any]:
    """The entries of an info that hold the last observations of ended episodes, where this mode has them."""
    if not resets_after(mode, ended):
        return {}
    final = np.full(len(ended), None, dtype=object)
    for i in np.flatnonzero(ended):
        final[i] = np.array(observations[i])
    return {"final_obs": final, "_final_obs": ended.copy()}


def before_reset(env: VectorEnv, observations: Any, infos: Mapping[str, Any], ended: Mask) -> tuple[Any, Any]:
    """Observations (of any space) and infos as they were when the step was made, before any copy was reset."""
    if not resets_after(autoreset_mode(env), ended):
        return observations, infos
    merged, final = merged_infos(infos, _final_info(infos), ended), _final_observations(infos, ended)
    rows = [final[i] if ended[i] else row for i, row in enumerate(iterate(env.observation_space, observations))]
    space = env.single_observation_space
    return called(lambda: concatenate(space, rows, create_empty_array(space, len(rows))), "step"), merged


def merged_infos(infos: Mapping[str, Any], others: Mapping[str, Any], mask: Mask) -> dict[str, Any]:
    """The infos, with the masked rows from others: the last ones of ended episodes, or the new ones of a reset.

    The masks `_key` follow: a row has an entry if the info that it comes from has it.
    """
    merged = dict(infos)
    for key in {name for name in (*infos, *others) if not name.startswith("_") and not name.startswith("final_")}:
        here, there = (_entries(source.get(key)) for source in (infos, others))
        here, there = (
            (np.zeros_like(there) if here is None else here),
            (np.zeros_like(here) if there is None else there),
        )
        if mask.shape not in (here.shape[:1], there.shape[:1]):  # one value for all copies
            continue
        if here.shape != there.shape:
            raise InvalidInputError(
                f'info["{key}"] has shape {here.shape}, but {there.shape} for episodes that ended or were reset. Give '
                "the same shape in every step."
            )
        merged[key] = np.where(as_rows(mask, here), there, here)
        has_entry = (source.get(f"_{key}", np.full(len(mask), key in source)) for source in (others, infos))
        merged[f"_{key}"] = np.where(mask, *has_entry)
    return merged


def _entries(values: Any) -> Any:
    try:
        return None if values is None else np.asarray(values)
    except ValueError:  # rows of different lengths
        return np.asarray(values, dtype=object)


def _final_info(info: Mapping[str, Any]) -> Mapping[str, Any]:
    final = info.get("final_info")
    if final is not None and not isinstance(final, Mapping):
        raise InvalidInputError(
            f'info["final_info"] is {type(final).__name__}. Give a dictionary of arrays with the copies in front, as '
            "Gymnasium's own vector environments do since version 1.0."
        )
    return final or {}


def _final_observations(info: Mapping[str, Any], ended: Mask) -> Any:
    final: Any = info.get("final_obs")
    listed = isinstance(final, np.ndarray | list | tuple) and len(final) == len(ended)
    missing = [int(i) for i in np.flatnonzero(ended) if not listed or final[i] is None]
    if missing:
        raise InvalidInputError(
            f'info["final_obs"] has no last observation of copy {missing[0]}, whose episode ended. In the autoreset '
            "mode SameStep, give one entry per copy: the last observation of an ended episode, None elsewhere."
        )
    return final


class VectorStep(NamedTuple):
    """One step of N copies, as it was before any reset."""

    final_observation: np.ndarray[Any, Any]  # [N, observation] float32, after the step, before any reset
    next_observation: np.ndarray[Any, Any]  # [N, observation] float32, what the policy sees next, after resets
    reward: np.ndarray[Any, Any]  # [N] float32, 0 where not counted
    supply: np.ndarray[Any, Any]  # [N, criteria, groups] float32, 0 where not counted
    demand: np.ndarray[Any, Any]  # [N, criteria, groups] float32, 0 where not counted
    terminated: np.ndarray[Any, Any]  # [N] bool
    truncated: np.ndarray[Any, Any]  # [N] bool
    counted: np.ndarray[Any, Any]  # [N] bool: False where a copy was only reset and made no step

    @property
    def ended(self) -> np.ndarray[Any, Any]:
        """Whether this step was the last of its episode. [N]"""
        return self.terminated | self.truncated


class VectorSteps:
    """Steps a user's vector environment; every step is shown as it was before any reset, whatever the autoreset mode.

    Whatever the environment returns is checked; a reward or observation that is not finite is a `NotFiniteError`.
    """

    def __init__(self, env: VectorEnv, *, thorough: bool = False) -> None:
        """The environment; nothing is reset yet. `thorough`: observations must also lie in their space."""
        self.env, self.copies, self._thorough = env, env.num_envs, thorough
        self.observations: Any = None  # what a policy sees next, as the environment gave it: [N, ...] of its space
        self.starts = np.ones(self.copies, bool)  # [N] whether these observations open an episode
        self.names: Names | None = None  # of groups and rates, known after the first step
        self._shape: tuple[int, ...] | None = None  # (criteria, groups), likewise
        self._ended: Mask | None = None  # copies that stand at the end of an episode; None before a reset
        self._quick = CopySteps(env) if not thorough and CopySteps.can_step(env) else None

    def probe(self) -> tuple[int, Names, int]:
        """Size of an observation, names and groups, from one step that counts in no episode: `reset` after it."""
        if self._shape is None:
            self.reset(seed=0)
            self.step(self.env.action_space.sample())
            self._ended = None
        assert self._shape is not None and self.names is not None  # noqa: PT018
        return int(gymnasium.spaces.flatdim(self.env.single_observation_space)), self.names, self._shape[1]

    def reset(self, seed: int) -> np.ndarray[Any, Any]:
        """Start new episodes in all copies. Returns the observations, [N, observation] float32."""
        check_spaces(self.env.single_observation_space, self.env.single_action_space)
        self._ended, self.starts = np.zeros(self.copies, bool), np.ones(self.copies, bool)
        return self._reset(seed=seed)

    def step(self, actions: Any) -> VectorStep:
        """One step of every copy, with actions as the environment takes them, [N, ...]."""
        if self._ended is None:
            raise InvalidInputError("step() was called before reset(seed). Call reset to start the episodes.")
        quick, shape, own_step = self._quick, self._shape, self.env.step
        if quick is not None and shape is not None:
            copies = called(lambda: quick.step(actions, shape), "step")
            if copies is not None:
                return self._shown(copies)
            own_step = quick.step_again
        mode = autoreset_mode(self.env)
        observations, reward, terminated, truncated, info = returned(lambda: own_step(actions), "step")
        terminated = as_values(terminated, "terminated", (self.copies,))
        truncated = as_values(truncated, "truncated", (self.copies,))
        ended, stepped = terminated | truncated, stepping(mode, self._ended)
        last, info = before_reset(self.env, observations, info, ended)
        supply, demand = self._amounts(info, stepped)
        after, self.observations = self._flat(observations, "step()"), observations
        final = after if last is observations else self._flat(last, "step(), in its last steps of episodes,")
        rewards = np.where(stepped, as_float32(as_values(reward, "reward", (self.copies,))), np.float32(0))
        check_finite(rewards, "reward")
        if mode is AutoresetMode.DISABLED and ended.any():
            after = self._reset(options={"reset_mask": ended.copy()})
        self._ended = ended_after(mode, ended)
        self.starts = ~stepped if mode is AutoresetMode.NEXT_STEP else ended
        return VectorStep(
            final_observation=final,
            next_observation=after,
            reward=rewards,
            supply=supply,
            demand=demand,
            terminated=terminated,
            truncated=truncated,
            counted=stepped,
        )

    def _shown(self, copies: CopiesStep) -> VectorStep:
        """A step in which every copy made its step, and was checked."""
        self._check_bounds(copies.supply, copies.demand)
        self.observations, self.starts = copies.observations, copies.terminated | copies.truncated
        after = _flattened(copies.observations)
        return VectorStep(
            final_observation=after if copies.final is copies.observations else _flattened(copies.final),
            next_observation=after,
            reward=copies.reward,
            supply=copies.supply,
            demand=copies.demand,
            terminated=copies.terminated,
            truncated=copies.truncated,
            counted=np.ones(self.copies, bool),
        )

    def _reset(self, **arguments: Any) -> np.ndarray[Any, Any]:
        self.observations, _ = returned(lambda: self.env.reset(**arguments), "reset")
        return self._flat(self.observations, "reset()")

    def _flat(self, observations: Any, name: str) -> np.ndarray[Any, Any]:
        """The observations as finite numbers. [N, observation] float32"""
        flat = flat_observations(self.env, observations)
        if self._thorough:
            check_within(self.env.observation_space, observations, name)
        check_finite(flat, "observation")
        return flat

    def _amounts(self, info: Mapping[str, Any], stepped: Mask) -> tuple[np.ndarray[Any, Any], ...]:
        """Supply and demand of the copies that made a step, 0 for the others. [N, criteria, groups] each"""
        if not stepped.any():
            assert self._shape is not None
            return tuple(np.zeros((2, self.copies, *self._shape), np.float32))
        rows = (as_float32(amounts) for amounts in benefit_rows(info, stepped))
        supply, demand = (amounts.reshape(self.copies, -1, amounts.shape[-1]) for amounts in rows)
        self._shape = same_groups(supply.shape[1:], self._shape)
        check_finite(supply, "supply")
        check_finite(demand, "demand")
        if self.names is None:
            self.names = names_of(self.env, *self._shape)
        self._check_bounds(supply, demand)
        return supply, demand

    def _check_bounds(self, supply: np.ndarray[Any, Any], demand: np.ndarray[Any, Any]) -> None:
        """Refuse more supply than demand where the notion knows no such thing. [N, criteria, groups] each"""
        assert self.names is not None
        for c, criterion in enumerate(() if self.names.notion is None else self.names.notion.criteria):
            if criterion.bounded and (supply[:, c] > demand[:, c]).any():
                check_amounts(supply[:, c], demand[:, c], bounded=True)


def _flattened(observations: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return observations.astype(np.float32).reshape(len(observations), -1)
