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


def clinic(group_names=None, **kwargs):
    return SupplyDemandWrapper(
        Clinic(**kwargs),
        supply=lambda t: t.info["served"],
        demand=lambda t: t.info["arrived"],
        group_names=group_names,
    )


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


class Late(Flawed):
    """A clinic with a flaw from the fourth step of an episode on."""

    def __init__(self, flaw):
        super().__init__()
        self.flaw = flaw

    def step(self, action) -> Any:
        result = super().step(action)
        return self.flaw(*result) if self.time > 3 else result


class FlawedVector(gymnasium.vector.VectorEnv):
    """Two copies that report what they are told to; `flaw` changes what a step returns."""

    num_envs = 2
    single_observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    single_action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(0, 1, (2, 1), np.float32)
    action_space = gymnasium.spaces.MultiDiscrete([2, 2])

    def __init__(self, info, mode: AutoresetMode | None = AutoresetMode.NEXT_STEP, ends=False, flaw=lambda *r: r):
        self.info, self.ends, self.metadata = info, ends, {"autoreset_mode": mode} if mode else {}
        self.flaw = flaw

    def reset(self, *, seed=None, options=None) -> Any:
        super().reset(seed=seed)
        return np.zeros((2, 1), np.float32), {}

    def step(self, actions) -> Any:
        ended = np.asarray([self.ends, False])
        return self.flaw(np.zeros((2, 1), np.float32), np.zeros(2), ended, np.zeros(2, bool), dict(self.info))


PAIR = {"supply": np.ones((2, 3)), "demand": np.ones((2, 3))}


FINAL = {"final_info": PAIR, "_final_info": np.asarray([True, False])}
SAME = {"mode": AutoresetMode.SAME_STEP, "ends": True}
VECTOR_FLAWS: list[tuple[dict[str, Any], str]] = [
    ({"info": PAIR, "mode": None}, 'metadata\\["autoreset_mode"\\] is None'),
    ({"info": {}}, 'info has no "supply"'),
    ({"info": {key: np.ones(3) for key in PAIR}}, r"shape \(3,\) for 2 copies"),
    (
        {"info": PAIR | {"_supply": np.asarray([True, False])}},
        'no "supply" for copy 1, although it made a step',
    ),
    ({"info": PAIR | {"_supply": np.asarray([True])}}, r'info\["_supply"\] has shape \(1,\)'),
    ({"info": PAIR | {"final_info": np.asarray([None, None])}, **SAME}, r'info\["final_info"\] is ndarray'),
    ({"info": PAIR | {"final_obs": [[0], None]}, **SAME}, r'no "supply" for copy 0.* has it in info\["final_info"\]'),
    ({"info": PAIR | FINAL, **SAME}, r'info\["final_obs"\] has no last observation of copy 0'),
    ({"info": PAIR | FINAL | {"final_obs": [None, None]}, **SAME}, "no last observation of copy 0"),
    ({"info": PAIR | FINAL | {"final_obs": [np.ones(2), None]}, **SAME}, "step|entries"),
    (
        {"info": PAIR | {"final_info": {key: np.ones((2, 2)) for key in PAIR}, "final_obs": [[0], None]}, **SAME},
        r'info\["(supply|demand)"\] has shape \(2, 3\), but \(2, 2\) for episodes that ended',
    ),
    ({"info": PAIR, "flaw": lambda o, r, a, b, i: (o, r, a | b, i)}, r"returned \(ndarray, ndarray, ndarray, dict\)"),
    ({"info": PAIR, "flaw": lambda o, r, a, b, i: (o, r, a, b, None)}, r"NoneType\). It must return"),
    ({"info": PAIR, "flaw": lambda o, r, a, b, i: (o, np.zeros(3), a, b, i)}, "The step's reward is array"),
    ({"info": PAIR, "flaw": lambda o, r, a, b, i: (o, ["1", "2"], a, b, i)}, "The step's reward is"),
    (
        {"info": PAIR, "flaw": lambda o, r, a, b, i: (o, r, a.astype(int), b, i)},
        "terminated is array\\(\\[0, 0\\]|terminated is array\\(\\[1, 0\\]",
    ),
    ({"info": PAIR, "flaw": lambda o, r, a, b, i: (o[:1], r, a, b, i)}, r"shape \(1, 1\)"),
    ({"info": PAIR, "flaw": lambda o, r, a, b, i: ("text", r, a, b, i)}, "observation"),
    ({"info": {key: [[1, 2], [1]] for key in PAIR}}, "supply is not an array of numbers"),
]
"""What can be wrong with a vector environment, and what is said about it."""

UNUSABLE_SPACES = [
    (gymnasium.spaces.Box(0, 1, (0,), np.float32), "has 0 entries"),
    (gymnasium.spaces.Discrete(10**12), "has 1000000000000 entries"),
    (gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(2)), "no fixed number of entries"),
]

FLAWS = {
    "four values": (lambda o, r, a, b, i: (o, r, a or b, i), r"bool, dict\). It must return"),
    "nothing": (lambda *_: None, "returned NoneType. It must return"),
    "info is None": (lambda o, r, a, b, i: (o, r, a, b, None), r"NoneType\). It must return"),
    "reward is text": (lambda o, r, a, b, i: (o, "3", a, b, i), "The step's reward is '3'"),
    "reward is None": (lambda o, r, a, b, i: (o, None, a, b, i), "The step's reward is None"),
    "reward is an array": (lambda o, r, a, b, i: (o, np.ones(1), a, b, i), "The step's reward is array"),
    "reward is NaN": (lambda o, r, a, b, i: (o, np.nan, a, b, i), "The reward is nan"),
    "reward is too large": (lambda o, r, a, b, i: (o, 1e300, a, b, i), "The reward is inf"),
    "two flags": (
        lambda o, r, a, b, i: (o, r, np.zeros(2, bool), b, i),
        r"terminated is array\(\[False, False\]\). Give bools .*of shape \(\)",
    ),
    "observation grows": (lambda o, r, a, b, i: (np.ones(4, np.float32), r, a, b, i), r"shape \(4,\)"),
    "observation is NaN": (lambda o, r, a, b, i: (o * np.nan, r, a, b, i), "observation"),
    "observation is infinite": (lambda o, r, a, b, i: (o + np.inf, r, a, b, i), "The observation is inf"),
    "fewer groups": (
        lambda o, r, a, b, i: (o, r, a, b, {key: value[:1] for key, value in i.items() if key != "day"}),
        "had 3 groups .* and then 1",
    ),
    "more criteria": (
        lambda o, r, a, b, i: (o, r, a, b, {k: np.ones((2, 3)) for k in PAIR}),
        r"had 3 groups \(criteria: 1\) and then 3 \(2\)",
    ),
    "supply is text": (lambda o, r, a, b, i: (o, r, a, b, i | {"supply": ["1", "0", "1"]}), "supply has dtype"),
    "supply is ragged": (lambda o, r, a, b, i: (o, r, a, b, i | {"supply": [[1], [1, 2]]}), "supply is not an array"),
    "supply is NaN": (lambda o, r, a, b, i: (o, r, a, b, i | {"supply": i["supply"] * np.nan}), "supply is not finite"),
    "no supply": (lambda o, r, a, b, i: (o, r, a, b, {"demand": i["demand"]}), 'info has no "supply"'),
}
"""What can be wrong with a step of one environment, and what is said about it."""


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
