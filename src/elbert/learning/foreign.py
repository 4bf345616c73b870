"""Policies from elsewhere: anything with `predict`, or a function of observations, evaluated as agents are.

model = stable_baselines3.PPO.load("model.zip")
print(elbert.evaluate(model, env="lending", episodes=100))
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from elbert.errors import InvalidInputError
from elbert.learning.evaluation import Evaluable
from elbert.learning.simulators import Environment, Episodes, open_host_simulator

Space = gymnasium.Space[Any]


@dataclass(frozen=True, eq=False)
class ForeignPolicy(Evaluable):
    """A policy that was made elsewhere, and where it acts if nobody says where."""

    policy: Any  # has `predict`, or is a function of observations
    env: Environment | None = None
    parameters: Mapping[str, Any] | None = None  # of a named world

    def __post_init__(self) -> None:
        if isinstance(self.policy, type) or not callable(getattr(self.policy, "predict", self.policy)):
            raise InvalidInputError(
                f"The policy is {self.policy!r}, which cannot act. Give an agent, the name of a rule such as "
                "'lending/thresholds-2-1', the path of a run or an agent, an object with predict(observation) such as "
                "a model of stable-baselines3, or a function from observations to actions."
            )

    def __str__(self) -> str:
        name = getattr(self.policy, "__name__", type(self.policy).__name__)
        return "function" if name == "<lambda>" else name

    @property
    def home(self) -> tuple[Environment | None, dict[str, Any] | None]:
        """Where it was told to act."""
        return self.env, None if self.parameters is None else dict(self.parameters)

    def _play(
        self, env: Environment | None, parameters: dict[str, Any], *, deterministic: bool, **options: Any
    ) -> tuple[Episodes, dict[str, Any]]:
        where, own = self.home if env is None else (env, None)
        if where is None:
            raise InvalidInputError(
                f"The policy ({self}) does not say where it acts. Give env=: the name of a world, a Gymnasium id, an "
                "environment, or a function that makes one."
            )
        with open_host_simulator(where, options["episodes"], (own or {}) | parameters) as simulator:
            act = Actor(self.policy, str(self), simulator.env, deterministic=deterministic)
            sums = simulator.play_with(act, **options)
        return sums, {
            "env": simulator.name,
            "method": str(self),
            "criteria": simulator.shape.criteria,
            "groups": simulator.group_names,
            "notion": simulator.notion,
        }


class Actor:
    """Calls a policy with all observations at once, or one by one: as it takes them, which a first call tells."""

    def __init__(
        self, policy: Any, name: str, env: gymnasium.vector.VectorEnv[Any, Any, Any], *, deterministic: bool
    ) -> None:
        self.name, self.env = name, env
        self.states: list[Any] = [None]  # of a recurrent policy: of all copies together, or one for each
        self._one_by_one: bool | None = None  # not known before the first call
        self._call, taken = _with_options(policy)
        self._remembers, self._options = "state" in taken, {}
        self._returns_state = self._remembers or self._call is not policy  # as stable-baselines3's `predict` does
        single = env.single_action_space
        self._spaces: dict[int | None, Space] = {None: single, env.num_envs: batch_space(single, env.num_envs)}
        if "deterministic" in taken:
            self._options["deterministic"] = deterministic
        elif deterministic:
            raise InvalidInputError(
                f"deterministic has no effect on the policy ({name}), which does not take it. Leave it out."
            )

    def __call__(self, observations: Any, starts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Actions of all copies, as the environment takes them. [N, ...]"""
        if self._one_by_one is None:
            self._one_by_one = self._tried(observations)
            self.states = [None] * (len(starts) if self._one_by_one else 1)
        if not self._one_by_one:
            actions, self.states[0] = self._act(observations, self.states[0], starts, len(starts))
            return actions
        rows = self._rows(observations)
        pairs = [self._act(*each) for each in zip(rows, self.states, starts, strict=True)]
        actions, self.states = (list(part) for part in zip(*pairs, strict=True))
        return np.stack(actions)

    def _act(self, observations: Any, state: Any, starts: Any, count: int | None = None) -> tuple[Any, Any]:
        """One call: actions in their space, and the state after it. `count`: of copies; None for one observation."""
        memory = {"state": state, "episode_start": np.atleast_1d(starts)} if self._remembers else {}
        returned = self._call(observations, **memory, **self._options)
        if self._returns_state and isinstance(returned, tuple) and len(returned) == 2:
            returned, state = returned
        return _as_actions(returned, self._spaces[None], self._spaces[count]), state

    def _tried(self, observations: Any) -> bool:
        """Whether the policy takes observations one by one and not many at once; one that takes neither is refused.

        The trial has a number of rows that is no size of an observation or action, so that a function of one
        observation cannot be taken for one of many.
        """
        space, rows = self.env.single_observation_space, self._rows(observations)
        sizes = {size for each in (space, self.env.single_action_space) for size in _sizes(each)}
        count = next(number for number in range(3, len(sizes) + 4) if number not in sizes)
        many = concatenate(space, (rows * count)[:count], create_empty_array(space, count))
        self._spaces[count] = batch_space(self.env.single_action_space, count)
        problems = []
        for one_by_one, trial, size in ((False, many, count), (True, rows[0], None)):
            try:
                self._act(trial, None, np.ones(size or 1, bool), size)
            except Exception as error:  # whatever a policy raises that expects something else
                cause, what = error, "one observation" if one_by_one else f"{count} observations at once"
                told = str(error) if isinstance(error, InvalidInputError) else f"{type(error).__name__}: {error}."
                problems.append(f"Called with {what}: {told}")
            else:
                return one_by_one
        raise InvalidInputError(
            f"The policy ({self.name}) gives no actions in {self.env.single_action_space} for observations in {space}. "
            f"{' '.join(problems)} Let it take all observations at once (the copies in front) and give as many "
            "actions, or take one and give one."
        ) from cause

    def _rows(self, observations: Any) -> list[Any]:
        return list(iterate(self.env.observation_space, observations))


def _with_options(policy: Any) -> tuple[Callable[..., Any], set[str]]:
    """What is called, and which of stable-baselines3's options it takes."""
    call, options = getattr(policy, "predict", policy), {"state", "episode_start", "deterministic"}
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):  # a built-in function without a signature
        return call, set()
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    taken = options if takes_all else options & {parameter.name for parameter in parameters}
    return call, taken if {"state", "episode_start"} <= taken else taken - {"state", "episode_start"}


def _as_actions(values: Any, single: Space, space: Space) -> np.ndarray[Any, Any]:
    """Actions as an array of this space, of one action or of several; real numbers are clipped to its limits."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        array = np.asarray(None)
    shown = f"an array of shape {array.shape}" if array.size >= 10 else f"{values!r:.60}"
    refusal = InvalidInputError(
        f"The policy gave {shown} in place of actions of shape {space.shape or ()} in {single}."
    )
    if array.shape != (space.shape or ()) or array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise refusal
    if isinstance(single, gymnasium.spaces.Box):
        return np.clip(array, single.low, single.high).astype(single.dtype)
    whole = array.astype(single.dtype)
    if not (whole == array).all() or not space.contains(whole if whole.ndim else whole[()]):
        raise refusal
    return whole


def _sizes(space: Space) -> tuple[int, ...]:
    """Lengths of the axes of everything in a space."""
    parts = getattr(space, "spaces", None)
    if parts is None:
        return tuple(space.shape or ())
    return tuple(size for part in (parts.values() if isinstance(parts, Mapping) else parts) for size in _sizes(part))
