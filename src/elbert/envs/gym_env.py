"""A world as a Gymnasium environment: one copy of it. `gym_vector_env` has many."""

from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from elbert.envs.gym_steps import key_words, reset_one, step_one, unpacked
from elbert.envs.world import World
from elbert.errors import ElbertError, InvalidInputError

Draw: TypeAlias = Callable[[World, Any, Any], np.ndarray[Any, Any]]
"""(world, state, the action that led here or None) -> [height, width, 3] uint8."""

RENDER_MODES = ["rgb_array"]


class ResetNeededError(ElbertError, gymnasium.error.ResetNeeded):
    """A step was asked for where no episode is under way."""


class WorldEnv(gymnasium.Env[np.ndarray, Any]):
    """One copy of a world as a Gymnasium environment. `info` of a step holds its supply and demand."""

    metadata: dict[str, Any] = {"render_modes": RENDER_MODES, "render_fps": 4}  # noqa: RUF012  (Gymnasium's own way)

    def __init__(self, world: World, *, render_mode: str | None = None, draw: Draw | None = None) -> None:
        """The world as an environment.

        Args:
            world: what to step.
            render_mode: None or "rgb_array".
            draw: turns a state into a picture; needed for "rgb_array".
        """
        self.world = world
        self.observation_space, self.action_space = world.observation_space, supported_actions(world)
        self.render_mode, self._draw = checked_render(render_mode, draw), draw
        self.state: Any = None
        self._parameters, self._structure = jax.tree.flatten(world)
        self._key: jax.Array | None = None
        self._action: Any = None
        self._ended = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        """Start an episode; without a seed the random course goes on from where it was."""
        refuse_options(options)
        super().reset(seed=seed)
        if seed is not None or self._key is None:
            self._key = jax.random.wrap_key_data(jnp.asarray(key_words(self.np_random_seed)))
        self._key, self.state, observation = reset_one(self._structure, self._parameters, self._key)
        self._action, self._ended = None, False
        return np.array(observation), {}

    def step(self, action: Any) -> tuple[np.ndarray[Any, Any], float, bool, bool, dict[str, Any]]:
        """One step; `info["supply"]` and `info["demand"]` are [groups], or [criteria, groups] for several criteria."""
        if self._key is None or self._ended:
            raise ResetNeededError(
                "The episode has ended: call reset() before the next step()."
                if self._ended
                else "step() was called before reset(). Call reset() to start an episode."
            )
        checked = checked_action(self.action_space, action)
        outcome = step_one(self._structure, self._parameters, self._key, self.state, checked)
        self._key, self.state, observation, packed = outcome
        seen = unpacked(self.world, observation, packed)
        self._action, self._ended = checked, bool(seen.terminated or seen.truncated)
        info = {"supply": plain(seen.supply, 0), "demand": plain(seen.demand, 0)}
        return seen.observation, float(seen.reward), bool(seen.terminated), bool(seen.truncated), info

    def render(self) -> Any:
        """The state as a picture, [height, width, 3] uint8."""
        if self.render_mode is None:
            return None
        if self._key is None:
            raise ResetNeededError("render() was called before reset(). Call reset() to start an episode.")
        assert self._draw is not None
        return self._draw(self.world, self.state, self._action)


def supported_actions(world: World) -> gymnasium.Space[Any]:
    """The world's action space, if it is of a kind that these environments can check."""
    space = world.action_space
    if isinstance(space, gymnasium.spaces.Discrete | gymnasium.spaces.MultiDiscrete | gymnasium.spaces.Box):
        return space
    raise InvalidInputError(
        f"{type(world).__name__} has the action space {space}. Make it Discrete, MultiDiscrete or Box."
    )


def checked_action(space: gymnasium.Space[Any], action: Any) -> np.ndarray[Any, Any]:
    """The action as an array of the space's shape and kind.

    Discrete choices outside the range are refused. Numbers for a Box must be finite; what lies outside its bounds is
    left to the world, which clips it.
    """
    try:
        array = np.asarray(action)
    except ValueError as error:
        raise InvalidInputError(f"The action is not an array ({error}). Give shape {space.shape or ()}.") from error
    shape = space.shape or ()
    if array.shape != shape:
        raise InvalidInputError(f"The action has shape {array.shape}. Give shape {shape}, as {space} says.")
    if isinstance(space, gymnasium.spaces.Box):
        if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
            raise InvalidInputError(
                f"The action {_shown(array)} is not made of finite numbers. Give finite ones, as {space} says."
            )
        limit = np.finfo(np.float32).max
        return np.clip(array, -limit, limit).astype(np.float32)
    assert isinstance(space, gymnasium.spaces.Discrete | gymnasium.spaces.MultiDiscrete)
    choices = space.n if isinstance(space, gymnasium.spaces.Discrete) else space.nvec
    low, high = np.asarray(space.start), np.asarray(space.start) + np.asarray(choices) - 1
    if array.dtype.kind not in "iu" or not ((array >= low) & (array <= high)).all():
        raise InvalidInputError(f"The action {_shown(array)} is not a choice. Give whole numbers, as {space} says.")
    return array.astype(np.int32)


def _shown(array: np.ndarray[Any, Any]) -> str:
    return np.array2string(array, threshold=8)


def checked_render(render_mode: str | None, draw: Draw | None) -> str | None:
    """The mode, if these environments have it and there is a function to draw with."""
    if render_mode is None:
        return None
    if render_mode not in RENDER_MODES:
        raise InvalidInputError(f"render_mode is {render_mode!r}. Give 'rgb_array', or None to draw nothing.")
    if draw is None:
        raise InvalidInputError("render_mode is 'rgb_array' but there is no draw=. Give a function that draws a state.")
    return render_mode


def refuse_options(options: dict[str, Any] | None) -> None:
    """Say that there are no options, rather than ignore them."""
    if options:
        raise InvalidInputError(
            f"reset() got the options {', '.join(map(repr, options))}, which these environments do not have. "
            "Parameters are given when the environment is made."
        )


def plain(amounts: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    """Without the axis of criteria where there is only one: what most users expect."""
    return np.array(amounts.squeeze(axis) if amounts.shape[axis] == 1 else amounts)
