"""Worlds as Gymnasium environments: many copies, stepped by one compiled function, or one of them.

Copy i, seeded with s, takes the same course as a single environment seeded with s + i: at every reset and every step a
copy draws its randomness by `key, key_now = split(key)`. A world goes into a compiled function as the structure and the
leaves of its pytree, so that worlds which differ in their numbers only share the function.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from elbert.checks import as_whole
from elbert.envs.gym_infos import ended_after, final_entries, resets_after, stepping, with_benefits
from elbert.envs.gym_returns import as_rows
from elbert.envs.world import World
from elbert.errors import ElbertError, InvalidInputError, unknown_name

Draw: TypeAlias = Callable[[World, Any, Any], np.ndarray[Any, Any]]
"""(world, state, the action that led here or None) -> [height, width, 3] uint8."""


class ResetNeededError(ElbertError, gymnasium.error.ResetNeeded):
    """A step or a picture was asked for where no episode is under way."""


class _Named:
    """What the environments of a world say about their benefits and parts, for `gym_names`."""

    world: World
    notion = property(lambda self: self.world.benefit, doc="The notion that says what supply and demand are.")
    group_names = property(lambda self: self.world.group_names, doc="What the groups are called, if they have names.")
    parts = property(lambda self: self.world.parts, doc="The like parts that the problem is made of, if any.")


class WorldVectorEnv(_Named, gymnasium.vector.VectorEnv[np.ndarray, Any, np.ndarray]):
    """Many copies of a world, stepped by one compiled function. `info` holds supply and demand of every copy."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012  (Gymnasium's own way)

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

        An ended episode is reset as Gymnasium's `autoreset_mode` says: by the next step ("NextStep"), within the same
        step ("SameStep"), or by the caller ("Disabled"). The `render_mode` "rgb_array" needs `draw`.
        """
        try:
            self.autoreset_mode = AutoresetMode(autoreset_mode)
        except ValueError as error:
            raise unknown_name("autoreset mode", autoreset_mode, [mode.value for mode in AutoresetMode]) from error
        if render_mode not in (None, "rgb_array"):
            raise InvalidInputError(f"render_mode is {render_mode!r}. Give 'rgb_array', or None to draw nothing.")
        if render_mode is not None and draw is None:
            raise InvalidInputError("render_mode is 'rgb_array' but there is no draw=. Give a function that draws.")
        space = world.action_space
        if not isinstance(space, gymnasium.spaces.Discrete | gymnasium.spaces.MultiDiscrete | gymnasium.spaces.Box):
            raise InvalidInputError(
                f"{type(world).__name__} has the action space {space}. Make it Discrete, MultiDiscrete or Box."
            )
        self.world, self.render_mode, self._draw = world, render_mode, draw
        self.num_envs = as_whole(num_envs, "num_envs", "a whole number of copies, at least 1", low=1)
        self.metadata = self.metadata | {"autoreset_mode": self.autoreset_mode}
        self.single_observation_space, self.single_action_space = world.observation_space, space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._parameters, self._structure = jax.tree.flatten(world)
        self._running: Any = None  # (keys, states, observations) of all copies
        self._ended = np.zeros(self.num_envs, bool)
        self._actions: list[Any] = [None] * self.num_envs

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        """Start all episodes, or those of `options["reset_mask"]`. A seed s seeds copy i with s + i."""
        mask, seeds = self._reset_mask(options), self._seeds(seed)
        if self._running is None and not mask.all():
            raise ResetNeededError("The first reset() must be of all copies. Call it without a reset_mask.")
        if self._running is None:
            words = np.random.SeedSequence().generate_state(2 * self.num_envs).reshape(-1, 2)
        else:
            words = np.array(jax.random.key_data(self._running[0]))
        for copy in np.flatnonzero(mask):
            if seeds[copy] is not None:
                words[copy] = np.random.SeedSequence(seeds[copy]).generate_state(2)
        self._reset_copies(mask, jax.random.wrap_key_data(jnp.asarray(words)))
        self._ended = self._ended & ~mask
        return np.array(self._under_way("reset")[2]), {}

    def step(
        self, actions: Any
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], dict[str, Any]]:
        """One step of every copy.

        `info["supply"]` and `info["demand"]` are [copies, groups] (or [copies, criteria, groups]); the masks
        `info["_supply"]` and `info["_demand"]` are False where a copy was only reset. In the mode "SameStep" the last
        step of an ended episode is in `info["final_info"]` and its last observation in `info["final_obs"]`.
        """
        keys, states, _ = self._under_way("step")
        mode, stepped = self.autoreset_mode, stepping(self.autoreset_mode, self._ended)
        if (self._ended & stepped).any():
            raise ResetNeededError(
                f"The episode of copy {int(np.argmax(self._ended))} has ended. Reset it before the next step: "
                'reset(), or reset(options={"reset_mask": mask}) for some of several copies.'
            )
        checked = checked_action(self.action_space, actions)
        *self._running, seen = _step_all(self._structure, self._parameters, keys, states, checked)
        step: Any = jax.tree.map(np.array, seen)
        terminated, truncated = step.terminated & stepped, step.truncated & stepped
        ended = terminated | truncated
        self._actions = list(checked)
        if not stepped.all():
            self._reset_copies(~stepped, keys)  # in place of a step
        elif resets_after(mode, ended):
            self._reset_copies(ended, self._running[0])
        last = final_entries(mode, step.observation, ended)
        single = step.supply.shape[1] == 1  # most users expect no axis for a single criterion
        amounts = (each[:, 0] if single else each for each in (step.supply, step.demand))
        info = with_benefits(last, mode, *amounts, ended=ended, stepped=stepped)
        self._ended = ended_after(mode, ended)
        return np.array(self._running[2]), np.where(stepped, step.reward, np.float64(0)), terminated, truncated, info

    def render(self) -> tuple[Any, ...] | None:
        """A picture of every copy."""
        if self.render_mode is None:
            return None
        states = jax.device_get(self._under_way("render")[1])
        assert self._draw is not None
        return tuple(
            self._draw(self.world, jax.tree.map(lambda leaf, i=i: leaf[i], states), action)
            for i, action in enumerate(self._actions)
        )

    @property
    def states(self) -> Any:
        """The copies' states, None before the first reset. [copies, ...] each leaf"""
        return None if self._running is None else self._running[1]

    def _under_way(self, name: str) -> Any:
        if self._running is None:
            raise ResetNeededError(f"{name}() was called before reset(). Call reset() to start an episode.")
        return self._running

    def _reset_copies(self, mask: np.ndarray[Any, Any], keys: jax.Array) -> None:
        fresh = _reset_all(self._structure, self._parameters, keys)
        self._running = fresh if mask.all() else _choose(jnp.asarray(mask), fresh, tuple(self._running))
        self._actions = [None if new else action for new, action in zip(mask, self._actions, strict=True)]

    def _seeds(self, seed: Any) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        need = "whole numbers of 0 or more"
        if not isinstance(seed, list | tuple | np.ndarray):
            return [as_whole(seed, "The seed", need, low=0) + i for i in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise InvalidInputError(
                f"seed has {len(seed)} entries for {self.num_envs} copies. Give one number for all, or one per copy."
            )
        return [None if each is None else as_whole(each, "The seed", need, low=0) for each in seed]

    def _reset_mask(self, options: dict[str, Any] | None) -> np.ndarray[Any, Any]:
        mask = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs, bool)))
        unknown = set(options or {}) - {"reset_mask"}
        if unknown or mask.shape != (self.num_envs,) or mask.dtype != bool or not mask.any():
            raise InvalidInputError(
                f"reset() got options={options!r}. The only option is reset_mask: {self.num_envs} booleans, at least "
                "one of them True. Parameters are given when the environment is made."
            )
        return mask


class WorldEnv(_Named, gymnasium.Env[np.ndarray, Any]):
    """One copy of a world as a Gymnasium environment. `info` of a step holds its supply and demand."""

    metadata = WorldVectorEnv.metadata

    def __init__(self, world: World, *, render_mode: str | None = None, draw: Draw | None = None) -> None:
        """The world as an environment; arguments as `WorldVectorEnv`."""
        self._copies = WorldVectorEnv(world, 1, autoreset_mode="Disabled", render_mode=render_mode, draw=draw)
        self.world, self.render_mode = world, render_mode
        self.observation_space = self._copies.single_observation_space
        self.action_space = self._copies.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        """Start an episode; without a seed the random course goes on from where it was."""
        super().reset(seed=seed)
        observations, info = self._copies.reset(seed=seed, options=options)
        return observations[0], info

    def step(self, action: Any) -> tuple[np.ndarray[Any, Any], float, bool, bool, dict[str, Any]]:
        """One step; `info["supply"]` and `info["demand"]` are [groups], or [criteria, groups] for several criteria."""
        result = self._copies.step(checked_action(self.action_space, action)[None])
        observation, reward, terminated, truncated, info = result
        benefits = {key: info[key][0] for key in ("supply", "demand")}
        return observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), benefits

    @property
    def state(self) -> Any:
        """The world's state, None before the first reset."""
        return jax.tree.map(lambda leaf: leaf[0], self._copies.states)

    def render(self) -> Any:
        """The state as a picture, [height, width, 3] uint8."""
        pictures = self._copies.render()
        return None if pictures is None else pictures[0]


def checked_action(space: gymnasium.Space[Any], action: Any) -> np.ndarray[Any, Any]:
    """The action as an array of the space's shape and kind.

    Discrete choices outside the range are refused. Numbers for a Box must be finite; what lies outside its bounds is
    left to the world, which clips it.
    """
    real, shape = isinstance(space, gymnasium.spaces.Box), space.shape or ()
    try:
        array = np.asarray(action)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    valid = array.shape == shape and array.dtype.kind in ("biuf" if real else "iu")
    if not valid or not (np.isfinite(array).all() if real else space.contains(array)):
        raise InvalidInputError(
            f"The action is {action!s:.80}. Give {'finite' if real else 'whole'} numbers of shape {shape}, as "
            f"{space} says."
        )
    limit = np.finfo(np.float32).max
    return np.clip(array, -limit, limit).astype(np.float32) if real else array.astype(np.int32)


@partial(jax.jit, static_argnums=0)
def _reset_all(structure: Any, parameters: list[Any], keys: jax.Array) -> Any:
    """(keys, states, observations) of all copies at the start of an episode."""

    def reset(key: jax.Array) -> Any:
        key_next, key_now = jax.random.split(key)
        return key_next, *jax.tree.unflatten(structure, parameters).reset(key_now)

    return jax.vmap(reset)(keys)


@partial(jax.jit, static_argnums=0)
def _step_all(structure: Any, parameters: list[Any], keys: jax.Array, states: Any, actions: Any) -> Any:
    """(keys, states, observations, steps) of all copies after an action."""
    world = jax.tree.unflatten(structure, parameters)
    shape = (len(world.benefit.criteria), world.groups)

    def step(key: jax.Array, state: Any, action: Any) -> Any:
        key_next, key_now = jax.random.split(key)
        state, step = world.step(key_now, state, action)
        for name in ("supply", "demand"):
            amounts = jnp.shape(getattr(step, name))
            if amounts != shape:
                raise InvalidInputError(
                    f"{type(world).__name__}.step gives {name} of shape {amounts}. Give {shape}: its {shape[0]} "
                    f"criteria, then its {shape[1]} groups."
                )
        return key_next, state, step.observation, step

    return jax.vmap(step)(keys, states, actions)


@jax.jit
def _choose(mask: jax.Array, yes: Any, no: Any) -> Any:
    """Leaf by leaf, the rows of `yes` where the mask is true and of `no` elsewhere."""
    return jax.tree.map(lambda a, b: jnp.where(as_rows(mask, a), a, b), yes, no)
