"""Environments that a user might bring, good and flawed, for the tests of wrappers and checker."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.vector import AutoresetMode

import elbert
from elbert.envs import SupplyDemandWrapper, TimeStep, World


class Clinic(gymnasium.Env):
    """Each step some patients of three groups arrive; the action says which group is served, up to two of them."""

    observation_space = gymnasium.spaces.Box(0, np.inf, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, length=6, **flaws):
        self.length, self.flaws = length, flaws

    def reset(self, *, seed=None, options=None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        self.waiting = self.np_random.integers(0, 4, 3)
        return self._seen(), {"waiting": self.waiting.copy()}

    def step(self, action) -> Any:
        served = np.zeros(3)
        served[action] = min(2, self.waiting[action])
        arrived = self.waiting.copy()
        self.waiting = self.np_random.integers(0, 4, 3)
        self.time += 1
        info = {"served": served, "arrived": arrived}
        return self._seen(), float(served.sum()), False, self.time >= self.length, info

    def _seen(self) -> Any:
        return self.waiting.astype(np.float32)


def clinic(**kwargs):
    return SupplyDemandWrapper(Clinic(**kwargs), supply=lambda t: t.info["served"], demand=lambda t: t.info["arrived"])


class Counter(gymnasium.Env):
    """Decides on one person a step; info says who it was."""

    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    people = ((0, 1), (1, 1), (1, 0), (0, 0))

    def reset(self, *, seed=None, options=None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(2, np.float32), {}

    def step(self, action) -> Any:
        group, qualified = self.people[self.time]
        self.time += 1
        info = {"group": group, "qualified": qualified}
        return np.zeros(2, np.float32), 0.0, False, self.time == 4, info


class Flawed(Clinic):
    """A clinic that reports its own benefits, with one flaw."""

    def reset(self, *, seed=None, options=None) -> Any:
        observation, info = super().reset(seed=None if self.flaws.get("unseeded") else seed)
        self.box = np.zeros(3)
        return self.flaws.get("reset", lambda o, i: (o, i))(observation, info)

    def step(self, action) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        info = {"supply": info["served"], "demand": info["arrived"]}
        self.box[:] = info["supply"]
        if self.flaws.get("shared"):
            info["supply"] = self.box
        info = self.flaws.get("info", lambda i, t: i)(info, self.time)
        return self.flaws.get("step", lambda *r: r)(observation, reward, terminated, truncated, info)


class FlawedVector(gymnasium.vector.VectorEnv):
    """Two copies that report what they are told to."""

    num_envs = 2
    single_observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    single_action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(0, 1, (2, 1), np.float32)
    action_space = gymnasium.spaces.MultiDiscrete([2, 2])

    def __init__(self, info, mode: AutoresetMode | None = AutoresetMode.NEXT_STEP, ends=False):
        self.info, self.ends, self.metadata = info, ends, {"autoreset_mode": mode} if mode else {}

    def reset(self, *, seed=None, options=None) -> Any:
        super().reset(seed=seed)
        return np.zeros((2, 1), np.float32), {}

    def step(self, actions):
        ended = np.asarray([self.ends, False])
        return np.zeros((2, 1), np.float32), np.zeros(2), ended, np.zeros(2, bool), dict(self.info)


PAIR = {"supply": np.ones((2, 3)), "demand": np.ones((2, 3))}


class Coin(World, static=("sides",)):
    """A world of one's own, as pure functions: a coin decides which group is due, the action whom to serve."""

    chance: jax.Array
    sides: int

    def __init__(self, chance=0.5, sides=2):
        self.chance, self.sides, self.horizon = jnp.asarray(chance), sides, jnp.asarray(5)

    @property
    def groups(self):
        return self.sides

    @property
    def benefit(self):
        return elbert.fairness.NOTIONS["discovery-probability"]

    @property
    def observation_space(self):
        return gymnasium.spaces.Box(0, 1, (1,), np.float32)

    @property
    def action_space(self):
        return gymnasium.spaces.Discrete(self.sides)

    def reset(self, key):
        return jnp.zeros((), int), jnp.zeros(1)

    def step(self, key, state, action):
        due = jax.nn.one_hot(jax.random.bernoulli(key, self.chance).astype(int), self.sides)
        served = due * jax.nn.one_hot(action, self.sides)
        observation, no = jnp.zeros(1), jnp.zeros((), bool)
        return state + 1, TimeStep(observation, served.sum(), served[None], due[None], no, self.is_truncated(state + 1))
