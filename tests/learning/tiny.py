"""Supply-Demand MDPs small enough to solve: a few states, and probes with one decision each."""

from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from elbert.envs.world import TimeStep, World
from elbert.fairness.notions import Criterion, Notion
from elbert.learning import Learner, Member, Settings, Trainer, get_method
from elbert.learning.settings import settings_of
from elbert.learning.simulators import CompiledSimulator


def notion(criteria):
    amount = lambda decision, qualified: decision  # noqa: E731
    parts = tuple(Criterion(f"criterion {c}", amount, amount, bounded=False) for c in range(criteria))
    return Notion("tiny", *parts)


class State(NamedTuple):
    place: jax.Array
    time: jax.Array


class Tiny(World, static=("notion",)):
    """A finite SD-MDP from arrays; the observation is the state, one-hot."""

    move: Any  # [states, actions, states]
    reward: Any  # [states, actions]
    supply: Any  # [states, actions, criteria, groups]
    demand: Any  # [states, actions, criteria, groups]
    horizon: Any
    notion: Notion

    def __init__(self, seed=0, states=3, actions=2, criteria=1, groups=2, horizon=5):
        rng = np.random.default_rng(seed)
        self.move = rng.dirichlet(np.ones(states), (states, actions)).astype(np.float32)
        self.reward = rng.normal(size=(states, actions)).astype(np.float32)
        shape = (states, actions, criteria, groups)
        self.demand = rng.uniform(0.2, 1.0, shape).astype(np.float32)
        self.supply = (self.demand * rng.uniform(0.0, 1.0, shape)).astype(np.float32)
        self.horizon = np.int32(horizon)
        self.notion = notion(criteria)

    @property
    def groups(self) -> Any:
        return self.supply.shape[-1]

    @property
    def benefit(self) -> Any:
        return self.notion

    @property
    def observation_space(self) -> Any:
        return gymnasium.spaces.Box(0, 1, (self.move.shape[0],), np.float32)

    @property
    def action_space(self) -> Any:
        return gymnasium.spaces.Discrete(self.move.shape[1])

    def observe(self, place):
        return (jnp.arange(self.move.shape[0]) == place).astype(jnp.float32)

    def reset(self, key):
        state = State(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
        return state, self.observe(state.place)

    def step(self, key, state, action):
        at = (state.place, action)
        place = jax.random.categorical(key, jnp.log(jnp.asarray(self.move)[at])).astype(jnp.int32)
        after = State(place, state.time + 1)
        never = jnp.zeros((), bool)
        reward, supply, demand = (jnp.asarray(part)[at] for part in (self.reward, self.supply, self.demand))
        return after, TimeStep(self.observe(place), reward, supply, demand, never, self.is_truncated(after.time))

    def exact(self, policy):
        """eta of reward, supply and demand under p(action | state). [states, actions] -> [], [C, M], [C, M]"""

        def step(mass, _):
            joint = mass[:, None] * policy
            sums = [jnp.tensordot(joint, jnp.asarray(x), 2) for x in (self.reward, self.supply, self.demand)]
            return jnp.tensordot(joint, jnp.asarray(self.move), 2), sums

        _, sums = jax.lax.scan(step, self.observe(0), None, length=int(self.horizon))
        return [x.sum(axis=0) for x in sums]


class ProbeState(NamedTuple):
    given: jax.Array  # [2]
    time: jax.Array


class Probe(World):
    """One benefit a step for one of two groups, both due one; serving group 0 pays 1, serving group 1 pays `second`.

    Reward alone says: always group 0, with bias 1. Serving both alike costs (1 - second) / 2 per step.
    """

    second: Any
    horizon: Any

    def __init__(self, second=0.8, horizon=16):
        self.second, self.horizon = np.float32(second), np.int32(horizon)

    @property
    def groups(self) -> Any:
        return 2

    @property
    def benefit(self) -> Any:
        return notion(1)

    @property
    def observation_space(self) -> Any:
        return gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    @property
    def action_space(self) -> Any:
        return gymnasium.spaces.Discrete(2)

    def observe(self, state):
        behind = (state.given[0] - state.given[1]) / (state.time + 1)
        return jnp.stack([behind, jnp.ones(())]).astype(jnp.float32)

    def reset(self, key):
        state = ProbeState(jnp.zeros(2), jnp.zeros((), jnp.int32))
        return state, self.observe(state)

    def step(self, key, state, action):
        served = (jnp.arange(2) == action).astype(jnp.float32)
        after = ProbeState(state.given + served, state.time + 1)
        reward, never = jnp.where(action == 0, 1.0, self.second), jnp.zeros((), bool)
        end = self.is_truncated(after.time)
        return after, TimeStep(self.observe(after), reward, served[None], jnp.ones((1, 2)), never, end)


class PricedState(NamedTuple):
    price: jax.Array
    time: jax.Array


class Priced(Probe):
    """As `Probe`, but what serving group 1 pays is drawn anew in every step, evenly from 0 to 1, and is seen.

    The best policy that serves it in a part q of all steps does so where it pays more than 1 - q: it earns 1 - q + (1 -
    (1 - q)**2) / 2 per step, with a bias of 1 - 2 q. Less bias costs more and more, so that multipliers can settle.
    """

    def observe(self, state: Any) -> Any:
        return jnp.stack([2 * state.price - 1, jnp.ones(())]).astype(jnp.float32)

    def reset(self, key: Any) -> Any:
        state = PricedState(jax.random.uniform(key), jnp.zeros((), jnp.int32))
        return state, self.observe(state)

    def step(self, key: Any, state: Any, action: Any) -> Any:
        served = (jnp.arange(2) == action).astype(jnp.float32)
        after = PricedState(jax.random.uniform(key), state.time + 1)
        reward, never = jnp.where(action == 0, 1.0, state.price), jnp.zeros((), bool)
        end = self.is_truncated(after.time)
        return after, TimeStep(self.observe(after), reward, served[None], jnp.ones((1, 2)), never, end)


class ProbeEnv(gymnasium.Env):
    """The same as `Probe`, written for Gymnasium by someone who has never heard of JAX."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, horizon=16, break_at=None):
        self.horizon, self.break_at, self.steps = horizon, break_at, 0

    def reset(self, *, seed=None, options=None) -> Any:
        super().reset(seed=seed)
        self.given, self.time = np.zeros(2), 0
        return self._observe(), {}

    def _observe(self):
        return np.array([(self.given[0] - self.given[1]) / (self.time + 1), 1.0], np.float32)

    def step(self, action) -> Any:
        served = np.eye(2)[action]
        self.given, self.time, self.steps = self.given + served, self.time + 1, self.steps + 1
        reward = 1.0 if action == 0 else 0.8
        if self.break_at is not None and self.steps > self.break_at:
            reward = float("nan")
        return self._observe(), reward, False, self.time == self.horizon, {"supply": served, "demand": np.ones(2)}


def configured(method="elbert-po", **values):
    """The learner's settings and the method, from one list of names."""
    kind = get_method(method).variant(values)
    learner = {name: value for name, value in values.items() if name in settings_of(Settings)}
    return Settings.of(learner), kind.of({name: value for name, value in values.items() if name not in learner})


def learner_of(world, method="elbert-po", **values):
    """A learner for a world, and its method with arrays for numbers."""
    settings, chosen = configured(method, **values)
    shape = CompiledSimulator(world, "tiny", world).shape
    return Learner(settings, shape), chosen.prepared(len(shape.criteria), shape.groups)


def trainer_of(world, method="elbert-po", *, seeds=(0,), members=None, **values):
    """A trainer in a compiled world."""
    settings, chosen = configured(method, **values)
    simulator = CompiledSimulator(world, type(world).__name__, world)
    return Trainer(simulator, settings, chosen, members=members or [Member(seed, {}) for seed in seeds])
