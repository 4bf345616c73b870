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

from elbert.envs.gym_returns import (
    Benefits,
    as_flags,
    as_float32,
    as_reward,
    as_rows,
    benefit_rows,
    called,
    check_finite,
    check_spaces,
    check_within,
    five_values,
    flat_observations,
    same_groups,
    two_values,
)
from elbert.errors import InvalidInputError

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


def vector_benefits(info: Mapping[str, Any], *, mode: AutoresetMode, ended: Mask, ended_before: Mask) -> Benefits:
    """Supply and demand of one step of many copies, checked. [copies, criteria, groups]

    Args:
        info: of the step.
        mode: the environment's `metadata["autoreset_mode"]`.
        ended: [copies] whether this step ended the copy's episode.
        ended_before: [copies] whether the step before did.
    """
    if mode is AutoresetMode.SAME_STEP and ended.any():
        final = benefit_rows(_final_info(info), ended, 'info["final_info"]')
        running = final if ended.all() else benefit_rows(info, ~ended)
        for last, other in zip(final, running, strict=True):
            same_groups(last.shape[1:], other.shape[1:])
        supply, demand = (np.where(as_rows(ended, f), f, r) for f, r in zip(final, running, strict=True))
        return Benefits(supply, demand, np.ones_like(ended))
    counted = stepping(mode, ended_before)
    if not counted.any():
        return Benefits(np.zeros((len(ended), 0, 0)), np.zeros((len(ended), 0, 0)), counted)
    supply, demand = benefit_rows(info, counted)
    return Benefits(supply * as_rows(counted, supply), demand * as_rows(counted, demand), counted)


def with_benefits(
    infos: Mapping[str, Any], mode: AutoresetMode, supply: Any, demand: Any, *, ended: Mask, stepped: Mask
) -> dict[str, Any]:
    """The infos of a step with its benefits added, where a reader of this mode looks for them.

    Args:
        infos: of the step.
        mode: the environment's autoreset mode.
        supply: [copies, ...] of the step that each copy made, whether or not it ended an episode.
        demand: the same shape.
        ended: [copies] whether the step ended the copy's episode.
        stepped: [copies] whether the copy made a step.
    """

    def masked(mask: Mask) -> dict[str, Any]:
        if not mask.any():
            return {}
        rows = as_rows(mask, supply)
        return {"supply": supply * rows, "_supply": mask.copy(), "demand": demand * rows, "_demand": mask.copy()}

    if mode is not AutoresetMode.SAME_STEP or not ended.any():
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


def last_observations(env: VectorEnv, observations: Any, infos: Mapping[str, Any], ended: Mask) -> Any:
    """Observations (of any space) as they were when the step was made, before any copy was reset."""
    if autoreset_mode(env) is not AutoresetMode.SAME_STEP or not ended.any():
        return observations
    final = _final_observations(infos, ended)
    rows = [final[i] if ended[i] else row for i, row in enumerate(iterate(env.observation_space, observations))]
    space = env.single_observation_space
    return called(lambda: concatenate(space, rows, create_empty_array(space, len(rows))), "step")


def last_infos(env: VectorEnv, infos: Mapping[str, Any], ended: Mask) -> Mapping[str, Any]:
    """Infos as they were when the step was made, before any copy was reset."""
    same = autoreset_mode(env) is AutoresetMode.SAME_STEP and ended.any()
    return merged_infos(infos, _final_info(infos), ended) if same else infos


def merged_infos(infos: Mapping[str, Any], others: Mapping[str, Any], mask: Mask) -> dict[str, Any]:
    """The infos, with the masked rows from others: the last ones of ended episodes, or the new ones of a reset.

    The masks `_key` follow: a row has an entry if the info that it comes from has it.
    """
    merged = dict(infos)
    for key in {name for name in (*infos, *others) if not name.startswith("_") and not name.startswith("final_")}:
        here, there = infos.get(key), others.get(key)
        if not all(values is None or isinstance(values, np.ndarray) for values in (here, there)):
            continue
        like = next(values for values in (here, there) if values is not None)
        here, there = (np.zeros_like(like) if values is None else values for values in (here, there))
        merged[key] = np.where(as_rows(mask, like), there, here)
        has_entry = (source.get(f"_{key}", np.full(len(mask), key in source)) for source in (others, infos))
        merged[f"_{key}"] = np.where(mask, *has_entry)
    return merged


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

    observation: np.ndarray[Any, Any]  # [N, observation] float32, before the step
    final_observation: np.ndarray[Any, Any]  # [N, observation] float32, after the step, before any reset
    next_observation: np.ndarray[Any, Any]  # [N, observation] float32, what the policy sees next, after resets
    reward: np.ndarray[Any, Any]  # [N] float32, 0 where not counted
    supply: np.ndarray[Any, Any]  # [N, criteria, groups] float32, 0 where not counted
    demand: np.ndarray[Any, Any]  # [N, criteria, groups] float32, 0 where not counted
    terminated: np.ndarray[Any, Any]  # [N] bool
    truncated: np.ndarray[Any, Any]  # [N] bool
    counted: np.ndarray[Any, Any]  # [N] bool: False where a copy was only reset and made no step


class VectorSteps:
    """Steps a user's vector environment; every step is shown as it was before any reset, whatever the autoreset mode.

    What the environment returns is checked at every step, and refused with an `InvalidInputError` that says what is
    wrong (a `NotFiniteError` for an infinite or NaN reward or observation).
    """

    def __init__(self, env: VectorEnv, *, thorough: bool = False) -> None:
        """The environment; nothing is checked or reset yet. `thorough`: observations must also lie in their space."""
        self.env, self._thorough = env, thorough
        self.copies = env.num_envs
        self._shape: tuple[int, ...] | None = None
        self._observation: np.ndarray[Any, Any] | None = None
        self._ended = np.zeros(self.copies, bool)

    @property
    def observation_size(self) -> int:
        """How many numbers one flattened observation has."""
        check_spaces(self.env.single_observation_space, self.env.single_action_space)
        return int(gymnasium.spaces.flatdim(self.env.single_observation_space))

    @property
    def criteria(self) -> tuple[str, ...]:
        """Names of the criteria that the environment reports, known after the first step."""
        count = self._known_shape()[0]
        return ("benefit rate",) if count == 1 else tuple(f"criterion {c}" for c in range(count))

    @property
    def groups(self) -> int:
        """How many groups the environment reports, known after the first step."""
        return self._known_shape()[1]

    def probe(self) -> None:
        """Learn the criteria and groups from one step, which belongs to no episode that counts: `reset` after it."""
        if self._shape is None:
            self.reset(seed=0)
            self.step(self.env.action_space.sample())
            self._observation = None

    def reset(self, seed: int) -> np.ndarray[Any, Any]:
        """Start new episodes in all copies. Returns the observations, [N, observation] float32."""
        check_spaces(self.env.single_observation_space, self.env.single_action_space)
        self._observation = self._reset(seed=seed)
        self._ended = np.zeros(self.copies, bool)
        return self._observation

    def step(self, actions: Any) -> VectorStep:
        """One step of every copy, with actions as the environment takes them, [N, ...]."""
        if self._observation is None:
            raise InvalidInputError("step() was called before reset(seed). Call reset to start the episodes.")
        mode = autoreset_mode(self.env)
        result = five_values(called(lambda: self.env.step(actions), "step"))
        observations, reward, terminated, truncated, info = result
        terminated = as_flags(terminated, "terminated", (self.copies,))
        truncated = as_flags(truncated, "truncated", (self.copies,))
        ended = terminated | truncated
        benefits = vector_benefits(info, mode=mode, ended=ended, ended_before=self._ended)
        before, last = self._observation, last_observations(self.env, observations, info, ended)
        after = final = self._flat(observations, "step()")
        if last is not observations:
            final = self._flat(last, "step(), in its last steps of episodes,")
        rewards = np.where(benefits.counted, as_float32(as_reward(reward, (self.copies,))), np.float32(0))
        check_finite(rewards, "reward")
        supply, demand = self._amounts(benefits)
        resets = mode is AutoresetMode.DISABLED and ended.any()
        self._observation = self._reset(options={"reset_mask": ended.copy()}) if resets else after
        self._ended = ended_after(mode, ended)
        return VectorStep(
            observation=before,
            final_observation=final,
            next_observation=self._observation,
            reward=rewards,
            supply=supply,
            demand=demand,
            terminated=terminated,
            truncated=truncated,
            counted=benefits.counted,
        )

    def _reset(self, **arguments: Any) -> np.ndarray[Any, Any]:
        observations, _ = two_values(called(lambda: self.env.reset(**arguments), "reset"))
        return self._flat(observations, "reset()")

    def _flat(self, observations: Any, name: str) -> np.ndarray[Any, Any]:
        """The observations as finite numbers. [N, observation] float32"""
        flat = flat_observations(self.env, observations)
        if self._thorough:
            check_within(self.env.observation_space, observations, name)
        check_finite(flat, "observation")
        return flat

    def _amounts(self, benefits: Benefits) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Supply and demand in the shape of all steps; zeros where no copy made a step. [N, criteria, groups] each"""
        if benefits.counted.any():
            self._shape = same_groups(benefits.supply.shape[1:], self._shape)
            supply, demand = as_float32(benefits.supply), as_float32(benefits.demand)
            check_finite(supply, "supply")
            check_finite(demand, "demand")
            return supply, demand
        none = np.zeros((self.copies, *self._known_shape()), np.float32)
        return none, none.copy()

    def _known_shape(self) -> tuple[int, ...]:
        if self._shape is None:
            raise InvalidInputError("Criteria and groups are known after the first step. Call probe() or step().")
        return self._shape
