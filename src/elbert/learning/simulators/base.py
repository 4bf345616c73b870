"""Where experience comes from: compiled worlds and users' environments behind one signature.

A third kind of environment, say a remote one, would be one more class. Nobody else asks which kind it is.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import gymnasium
import jax

from elbert.envs import World
from elbert.fairness.notions import Notion
from elbert.learning.networks import Model, Shape
from elbert.learning.policy import Policy
from elbert.learning.ppo import Learner, TrainState
from elbert.learning.rollouts import Rollout
from elbert.progress import Tell

SingleEnv: TypeAlias = gymnasium.Env[Any, Any]
Environment: TypeAlias = str | World | SingleEnv | gymnasium.vector.VectorEnv[Any, Any, Any] | Callable[[], SingleEnv]
"""A world's name or a Gymnasium id, a world, one environment, a function that makes one, or a vector environment."""


class Episodes(NamedTuple):
    """Sums over each episode."""

    reward: Any  # [episodes]
    length: Any  # [episodes] steps
    supply: Any  # [episodes, criteria, groups]
    demand: Any  # [episodes, criteria, groups]


class Simulator(ABC):
    """Where a policy acts."""

    name: str
    shape: Shape
    source: Environment  # what the user gave
    observation_shape: tuple[int, ...] | None  # of one observation; None if it is not a Box: those come flattened
    parameters: dict[str, Any] | None = None  # of a named world, ready for JSON; None for everything else
    notion: Notion | None = None  # what its supply and demand mean, where that is known
    group_names: tuple[str, ...] | None = None  # None: groups are numbered where they are shown
    horizon: int | None = None  # steps of an episode, where that is known beforehand
    copies: int | None = None  # number of copies where it is fixed; None if any number can be had
    knows_means: bool = False  # whether `collect` can give means of what a step brings
    pure: bool = False  # whether `collect` can be compiled, once for equal simulators, with many members side by side

    @abstractmethod
    def start(self, key: jax.Array, copies: int, carried: int = 0) -> Any:
        """Where the copies of one member stand before the first step; with so many numbers that a policy carries."""

    @abstractmethod
    def collect(self, learner: Learner, states: TrainState, seed: int) -> tuple[TrainState, Rollout]:
        """What is learned from: a rollout of every member, [members, T, N, ...] each, and the states after it.

        An ended episode is followed by a new one. Where new episodes begin with the rollout, totals of episodes under
        way begin again too. `seed`, the first member's, is for environments with a random generator of their own.
        """

    @abstractmethod
    def play(
        self, model: Model, policy: Policy, episodes: int, seed: int, *, deterministic: bool, progress: Tell
    ) -> Episodes:
        """What a policy is judged by: sums over this many whole episodes."""

    def forget(self) -> None:  # noqa: B027 - most have nothing to forget
        """Drop episodes under way: the training goes on from a stored state."""
