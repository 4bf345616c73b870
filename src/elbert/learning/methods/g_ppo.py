"""G-PPO: plain PPO, greedy for reward."""

from typing import Any, ClassVar

import jax

from elbert.learning.estimates import Estimates
from elbert.learning.methods.base import Method


class GPPO(Method):
    """PPO on the reward alone: the baseline without any fairness."""

    name: ClassVar[str] = "g-ppo"

    def advantage(self, estimates: Estimates, state: Any) -> jax.Array:
        """A: the reward's own.   -> [...]"""
        del state
        return estimates.reward
