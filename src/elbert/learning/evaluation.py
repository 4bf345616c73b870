"""Evaluating a policy: agents, rules and policies from elsewhere differ in how they play, and in nothing else."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from elbert.checks import as_number, as_seed, as_whole
from elbert.learning.result import Result, judged
from elbert.learning.simulators import Environment, Episodes
from elbert.progress import Watch, tell_nobody, watched

SHARP = 1 / 40
"""Part of a limit that equal groups may show by chance when the limit is judged, where enough episodes can be had."""
MORE = 2**29
"""What is added to the seed of an evaluation for the episodes that it goes on with."""


def episodes_to_tell(result: Result, *, at_least: int, steps: float) -> int:
    """How many episodes it takes to tell whether the limit is kept: at least so many, at most those of so many steps.

    The noise floor falls with the root of the number of episodes. That number depends on the noise alone and not on
    the bias that was seen, so a test with all of them errs as rarely as it says (after Stein 1945).
    """
    floor, limit = result.worst.bias.noise_floor, result.limit
    if limit is None or floor is None or limit.max_bias == 0:
        return at_least
    wanted = result.episodes * (floor / (SHARP * limit.max_bias)) ** 2
    return int(max(at_least, min(wanted, steps / result.horizon)))


class Evaluable(ABC):
    """A policy that can be evaluated: a trained agent, a rule, or a policy from elsewhere."""

    @property
    @abstractmethod
    def home(self) -> tuple[Environment | None, dict[str, Any] | None]:
        """Where it acts if nobody says where, None if that is not at hand; and of a named world the parameters."""

    @abstractmethod
    def _play(
        self, env: Environment | None, parameters: dict[str, Any], **options: Any
    ) -> tuple[Episodes, dict[str, Any]]:
        """Play episodes, with the options of `Simulator.play`: their sums, and what `judged` is told of the policy."""

    def played(self, episodes: int, *, seed: int, **parameters: Any) -> tuple[Episodes, dict[str, Any]]:
        """Sums over fresh episodes where the policy is at home, and what `judged` is told of it."""
        return self._play(None, parameters, episodes=episodes, seed=seed, deterministic=False, progress=tell_nobody)

    def evaluate(
        self,
        episodes: int = 256,
        *,
        env: Environment | None = None,
        seed: int = 1,
        deterministic: bool = False,
        extra_demand: float = 0.0,
        confidence: float = 0.95,
        max_bias: float | None = None,
        most_steps: float = 0.0,
        progress: Watch = "auto",
        **parameters: Any,
    ) -> Result:
        """Reward per step and benefit rates over fresh episodes, with intervals.

        Args:
            episodes: number of episodes.
            env: environment to act in; by default that of an agent's training, or a rule's world.
            seed: seed of the episodes.
            deterministic: whether to act by the most probable action. Rules refuse it.
            extra_demand: demand added to every group's in every episode (the published evaluation adds 1).
            confidence: confidence of the intervals.
            max_bias: limit on the bias to be tested; by default the one that the policy was trained for, if any.
            most_steps: under a limit, more episodes are played until their noise is small beside it, as long as all
                of them together take no more than this many steps.
            progress: "auto" shows a display in terminals and notebooks; True, None or a function as in `elbert.train`.
            parameters: of the named world, for example `horizon=10_000`, over those of training or of the rule.
        """
        as_whole(episodes, "episodes", "a whole number of at least 1; intervals need 2 or more", low=1)
        as_seed(seed)
        if max_bias is not None:
            as_number(max_bias, "max_bias", "the largest bias that is acceptable, 0 or more", low=0.0)
        options: dict[str, Any] = {"deterministic": deterministic}
        with watched(progress, "evaluating") as tell:
            sums, about = self._play(env, parameters, episodes=episodes, seed=seed, progress=tell, **options)
            if max_bias is not None:
                about |= {"max_bias": float(max_bias)}
            about |= {"extra_demand": extra_demand, "deterministic": deterministic, "confidence": confidence}
            result = judged(sums, **about)
            more = episodes_to_tell(result, at_least=episodes, steps=most_steps) - episodes
            if more <= 0:
                return result
            further, _ = self._play(env, parameters, episodes=more, seed=seed + MORE, progress=tell, **options)
        return judged(Episodes(*map(np.concatenate, zip(sums, further, strict=True))), **about)
