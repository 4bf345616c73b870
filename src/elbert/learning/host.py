"""Acting in a user's environment: Gymnasium steps it on the host, the policy is compiled."""

from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import iterate

from elbert.envs.gym_infos import vector_benefits
from elbert.envs.gym_wrappers import autoreset_mode
from elbert.learning.estimates import Rollout
from elbert.learning.networks import Model, Moments, Weights
from elbert.learning.problem import HostProblem


class HostCopies:
    """The copies of a vector environment and where they stand."""

    def __init__(self, problem: HostProblem, model: Model) -> None:
        """Nothing is reset yet: call `restart`."""
        self.env, self.shape, self.model = problem.env, problem.shape, model
        self.mode = autoreset_mode(problem.env)
        self._act = jax.jit(self._policy, static_argnames="deterministic")

    def restart(self, seed: int) -> None:
        """New episodes in all copies."""
        observations, _ = self.env.reset(seed=seed)
        self.observations = self.flat(observations)
        self.ended = np.zeros(self.env.num_envs, bool)

    def step(self, weights: Weights, moments: Moments, key: jax.Array, *, deterministic: bool = False) -> Rollout:
        """One step of every copy under the policy. [N, ...] each"""
        action, log_prob = (np.asarray(x) for x in self._act(weights, moments, self.observations, key, deterministic))
        before = self.observations
        shown = self.env.step(self.model.distribution.to_env(action))
        observations, reward, terminated, truncated, info = shown
        terminated, truncated = np.asarray(terminated, bool), np.asarray(truncated, bool)
        ended = terminated | truncated
        benefits = vector_benefits(info, mode=self.mode, ended=ended, ended_before=self.ended)
        after = self.flat(observations)
        final = after
        if self.mode is AutoresetMode.SAME_STEP and ended.any():
            final = after.copy()
            for i in np.flatnonzero(ended):
                final[i] = gymnasium.spaces.flatten(self.env.single_observation_space, info["final_obs"][i])
        if self.mode is AutoresetMode.DISABLED and ended.any():
            after = self.flat(self.env.reset(options={"reset_mask": ended})[0])
        self.observations, self.ended = after, ended
        shape = (len(ended), len(self.shape.criteria), self.shape.groups)
        supply, demand = (
            np.asarray(x, np.float32).reshape(shape) if x.size else np.zeros(shape, np.float32)
            for x in (benefits.supply, benefits.demand)
        )
        counted = benefits.counted
        reward = np.where(counted, np.asarray(reward, np.float32), np.float32(0))
        return Rollout(before, final, action, log_prob, reward, supply, demand, terminated, truncated, counted)

    def collect(self, weights: Weights, moments: Moments, key: jax.Array, steps: int) -> Rollout:
        """So many steps of every copy. [T, N, ...] each"""
        rows = [self.step(weights, moments, one) for one in jax.random.split(key, steps)]
        return Rollout(*(np.stack(parts) for parts in zip(*rows, strict=True)))

    def flat(self, observations: Any) -> np.ndarray[Any, Any]:
        """Observations of any space as rows of numbers. [N, observation] float32"""
        space = self.env.single_observation_space
        if isinstance(space, gymnasium.spaces.Box):
            return np.array(observations, np.float32).reshape(self.env.num_envs, -1)
        rows = iterate(self.env.observation_space, observations)
        return np.stack([np.asarray(gymnasium.spaces.flatten(space, row), np.float32) for row in rows])

    def _policy(
        self, weights: Weights, moments: Moments, observations: jax.Array, key: jax.Array, deterministic: bool
    ) -> tuple[jax.Array, jax.Array]:
        numbers = self.model.policy(weights, self.model.normalised(moments, observations))
        noise = self.model.distribution.noise(key, (observations.shape[0],))
        sample = (
            self.model.distribution.mode(numbers) if deterministic else self.model.distribution.sample(numbers, noise)
        )
        return sample, self.model.distribution.log_prob(numbers, sample)
