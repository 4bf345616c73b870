"""A world as a Gymnasium vector environment: many copies, stepped by one compiled function.

Copy i, seeded with s, takes the same course as a single environment seeded with s + i.
"""

from collections.abc import Sequence
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from elbert.checks import as_whole
from elbert.envs.gym_env import (
    Draw,
    ResetNeededError,
    WorldEnv,
    checked_action,
    checked_render,
    plain,
    refuse_options,
    supported_actions,
)
from elbert.envs.gym_infos import ended_after, final_entries, stepping, with_benefits
from elbert.envs.gym_steps import choose, key_words, reset_all, step_all, unpacked
from elbert.envs.world import World
from elbert.errors import InvalidInputError, unknown_name


class WorldVectorEnv(gymnasium.vector.VectorEnv[np.ndarray, Any, np.ndarray]):
    """Many copies of a world, stepped by one compiled function. `info` holds supply and demand of every copy."""

    def __init__(
        self,
        world: World,
        num_envs: int,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        draw: Draw | None = None,
    ) -> None:
        """The world, `num_envs` times.

        Args:
            world: what to step.
            num_envs: how many copies.
            autoreset_mode: what happens to a copy whose episode has ended, as Gymnasium defines it: it is reset by the
                next step ("NextStep"), within the same step ("SameStep"), or by the caller ("Disabled").
            render_mode: None or "rgb_array".
            draw: turns a state into a picture; needed for "rgb_array".
        """
        try:
            self.autoreset_mode = AutoresetMode(autoreset_mode)
        except ValueError as error:
            raise unknown_name("autoreset mode", autoreset_mode, [mode.value for mode in AutoresetMode]) from error
        self.world = world
        self.num_envs = as_whole(num_envs, "num_envs", "a whole number of copies, at least 1", low=1)
        self.metadata = WorldEnv.metadata | {"autoreset_mode": self.autoreset_mode}
        self.render_mode, self._draw = checked_render(render_mode, draw), draw
        self.single_observation_space, self.single_action_space = world.observation_space, supported_actions(world)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.states: Any = None
        self._parameters, self._structure = jax.tree.flatten(world)
        self._keys: jax.Array | None = None
        self._ended = np.zeros(self.num_envs, bool)
        self._actions: list[Any] = [None] * self.num_envs

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        """Start all episodes, or those of `options["reset_mask"]`. A seed s seeds copy i with s + i."""
        mask = self._reset_mask(options)
        seeds = self._seeds(seed)
        if isinstance(seed, int | np.integer):
            super().reset(seed=int(seed))
        if self._keys is None:
            if not mask.all():
                raise ResetNeededError("The first reset() must be of all copies. Call it without a reset_mask.")
            fresh = [int(word) for word in np.random.SeedSequence().generate_state(self.num_envs, np.uint64)]
            seeds = [new if chosen is None else chosen for chosen, new in zip(seeds, fresh, strict=True)]
        self._seed_keys(seeds, mask)
        assert self._keys is not None
        after = reset_all(self._structure, self._parameters, self._keys)
        if not mask.all():
            after = choose(jnp.asarray(mask), after, (self._keys, self.states, self._observations))
        self._keys, self.states, self._observations = after
        self._ended = self._ended & ~mask
        self._actions = [None if new else action for new, action in zip(mask, self._actions, strict=True)]
        return np.array(self._observations), {}

    def step(
        self, actions: Any
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], dict[str, Any]]:
        """One step of every copy.

        `info["supply"]` and `info["demand"]` are [copies, groups] (or [copies, criteria, groups]); the masks
        `info["_supply"]` and `info["_demand"]` are False where a copy was only reset. In the mode "SameStep" the last
        step of an ended episode is in `info["final_info"]` and its last observation in `info["final_obs"]`.
        """
        if self._keys is None:
            raise ResetNeededError("step() was called before reset(). Call reset() to start the episodes.")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            raise ResetNeededError(
                f"The episode of copy {int(np.flatnonzero(self._ended)[0])} has ended. Reset it with "
                'reset(options={"reset_mask": mask}) before the next step.'
            )
        checked = checked_action(self.action_space, actions)
        same = self.autoreset_mode is AutoresetMode.SAME_STEP
        stepped = stepping(self.autoreset_mode, self._ended)
        before = (self._keys, self.states, jnp.asarray(~stepped))
        outcome = step_all(self._structure, same, self._parameters, *before, checked)
        self._keys, self.states, self._observations, last, packed = outcome
        seen = unpacked(self.world, last, packed)
        ended = seen.terminated | seen.truncated
        supply, demand = plain(seen.supply, 1), plain(seen.demand, 1)
        last_observations = final_entries(seen.observation, ended) if same and ended.any() else {}
        info = with_benefits(last_observations, self.autoreset_mode, supply, demand, ended=ended, stepped=stepped)
        if self._draw is not None:
            is_new = ended if same else ~stepped
            self._actions = [None if new else action for new, action in zip(is_new, checked, strict=True)]
        self._ended = ended_after(self.autoreset_mode, ended)
        observations = np.array(self._observations) if same else seen.observation
        return observations, seen.reward.astype(np.float64), seen.terminated, seen.truncated, info

    def render(self) -> tuple[Any, ...] | None:
        """A picture of every copy."""
        if self.render_mode is None:
            return None
        if self._keys is None:
            raise ResetNeededError("render() was called before reset(). Call reset() to start the episodes.")
        assert self._draw is not None
        states = jax.device_get(self.states)
        return tuple(
            self._draw(self.world, jax.tree.map(lambda leaf, i=i: leaf[i], states), self._actions[i])
            for i in range(self.num_envs)
        )

    def _seed_keys(self, seeds: Sequence[int | None], mask: np.ndarray[Any, Any]) -> None:
        """New keys for the copies that are reset with a seed."""
        chosen = [int(i) for i in np.flatnonzero(mask) if seeds[int(i)] is not None]
        if not chosen:
            return
        none = np.zeros((self.num_envs, 2), np.uint32)
        data = none if self._keys is None else np.array(jax.random.key_data(self._keys))
        data[chosen] = [key_words(seeds[i]) for i in chosen]
        self._keys = jax.random.wrap_key_data(jnp.asarray(data))

    def _seeds(self, seed: Any) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        several = isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str)
        need = "whole numbers of 0 or more"
        if not several:
            return [as_whole(seed, "The seed", need, low=0) + i for i in range(self.num_envs)]
        seeds = [None if each is None else as_whole(each, "The seed", need, low=0) for each in seed]
        if len(seeds) != self.num_envs:
            raise InvalidInputError(
                f"seed has {len(seeds)} entries for {self.num_envs} copies. Give one number for all, or one per copy."
            )
        return seeds

    def _reset_mask(self, options: dict[str, Any] | None) -> np.ndarray[Any, Any]:
        mask = (options or {}).get("reset_mask")
        refuse_options({name: value for name, value in (options or {}).items() if name != "reset_mask"})
        if mask is None:
            return np.ones(self.num_envs, bool)
        array = np.asarray(mask)
        if array.shape != (self.num_envs,) or array.dtype != bool or not array.any():
            raise InvalidInputError(
                f"reset_mask has shape {array.shape} and dtype {array.dtype}. Give {self.num_envs} booleans, at least "
                "one of them True."
            )
        return array
