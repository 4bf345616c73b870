"""Steps of a user's vector environment are the same in every autoreset mode; bad ones are refused with a reason."""

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from elbert.envs.gym_infos import VectorSteps
from elbert.envs.gym_returns import NotFiniteError, StrictEnv
from elbert.errors import InvalidInputError

from .own import PAIR, Flawed, FlawedVector, clinic

SPACES: dict[str, Any] = {
    "box": (gymnasium.spaces.Box(0, 9, (2, 2), np.float32), lambda c, t: np.full((2, 2), 3 * c + t, np.float32)),
    "discrete": (gymnasium.spaces.Discrete(9, start=1), lambda c, t: 1 + (3 * c + t) % 9),
    "dict": (
        gymnasium.spaces.Dict(day=gymnasium.spaces.Discrete(9), copy=gymnasium.spaces.Box(0, 9, (1,), np.float32)),
        lambda c, t: {"day": t, "copy": np.full(1, c, np.float32)},
    ),
}


class Days(gymnasium.Env):
    """Counts days: copy c (its seed) ends after 2 + c steps, terminated in copy 0 and truncated in the others."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, kind="box"):
        self.observation_space, self.seen = SPACES[kind]

    def reset(self, *, seed=None, options=None) -> Any:
        self.copy, self.day = self.__dict__.get("copy", 0) if seed is None else seed % 10, 0
        return self.seen(self.copy, 0), {}

    def step(self, action) -> Any:
        self.day += 1
        over = self.day == 2 + self.copy
        info = {"supply": np.asarray([self.day, action]), "demand": np.asarray([9.0, 9.0])}
        return (
            self.seen(self.copy, self.day),
            10 * self.copy + self.day,
            over and not self.copy,
            over and self.copy > 0,
            info,
        )


def days(mode, kind="box", copies=3):
    return SyncVectorEnv([partial(Days, kind)] * copies, autoreset_mode=mode)


def flat(kind, copy, day):
    space, seen = SPACES[kind]
    return np.asarray(gymnasium.spaces.flatten(space, seen(copy, day)), np.float32)


@pytest.mark.parametrize("kind", list(SPACES))
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_every_step_is_shown_as_it_was_before_any_reset(mode, kind):
    """By hand: copy c counts days 1 .. 2 + c. A step that only resets shows no reward and no benefit."""
    steps = VectorSteps(days(mode, kind))
    start = steps.reset(seed=100)
    assert np.array_equal(start, [flat(kind, c, 0) for c in range(3)])
    day = np.zeros(3, int)
    ended = np.zeros(3, bool)
    for _ in range(12):
        step = steps.step(np.asarray([0, 1, 0]))
        only_reset = ended & (mode is AutoresetMode.NEXT_STEP)
        assert step.counted.tolist() == (~only_reset).tolist()
        assert np.array_equal(step.observation, start)
        day = np.where(only_reset, 0, day + 1)
        ended = ~only_reset & (day == 2 + np.arange(3))
        assert step.terminated.tolist() == (ended & (np.arange(3) == 0)).tolist()
        assert step.truncated.tolist() == (ended & (np.arange(3) > 0)).tolist()
        assert np.array_equal(step.final_observation, [flat(kind, c, t) for c, t in enumerate(day)])
        assert step.reward.dtype == step.supply.dtype == step.demand.dtype == step.observation.dtype == np.float32
        assert step.reward.tolist() == np.where(only_reset, 0, 10 * np.arange(3) + day).tolist()
        assert step.supply[:, 0].tolist() == [
            [0, 0] if r else [t, c == 1] for c, (r, t) in enumerate(zip(only_reset, day, strict=True))
        ]
        assert step.demand[:, 0].tolist() == [[0, 0] if r else [9, 9] for r in only_reset]
        day = day if mode is AutoresetMode.NEXT_STEP else np.where(ended, 0, day)
        start = step.next_observation
        assert np.array_equal(start, [flat(kind, c, t) for c, t in enumerate(day)])


def test_criteria_and_groups_are_known_after_a_probe():
    steps = VectorSteps(days(AutoresetMode.NEXT_STEP))
    with pytest.raises(InvalidInputError, match="known after the first step"):
        _ = steps.groups
    steps.probe()
    assert (steps.criteria, steps.groups, steps.observation_size, steps.copies) == (("benefit rate",), 2, 4, 3)
    with pytest.raises(InvalidInputError, match="before reset"):
        steps.step(np.zeros(3, int))
    two = VectorSteps(FlawedVector({key: np.ones((2, 2, 3)) for key in PAIR}))
    two.probe()
    assert (two.criteria, two.groups) == (("criterion 0", "criterion 1"), 3)


def test_a_step_in_which_all_copies_are_reset_has_no_benefits():
    steps = VectorSteps(SyncVectorEnv([clinic] * 2))
    steps.reset(seed=0)
    seen = [steps.step(np.zeros(2, int)) for _ in range(7)]
    assert not seen[6].counted.any()
    assert seen[6].supply.shape == (2, 1, 3)
    assert not seen[6].supply.any()


FLAWS = {
    "four values": (lambda o, r, a, b, i: (o, r, a or b, i), "returned 4 things. It must return five"),
    "nothing": (lambda *_: None, "returned nothing. Is a return missing"),
    "info is None": (lambda o, r, a, b, i: (o, r, a, b, None), "the last is NoneType"),
    "reward is text": (lambda o, r, a, b, i: (o, "3", a, b, i), "The reward is '3'"),
    "reward is None": (lambda o, r, a, b, i: (o, None, a, b, i), "The reward is None"),
    "reward is an array": (lambda o, r, a, b, i: (o, np.ones(1), a, b, i), "The reward is array"),
    "reward is NaN": (lambda o, r, a, b, i: (o, np.nan, a, b, i), "The reward is nan"),
    "reward is too large": (lambda o, r, a, b, i: (o, 1e300, a, b, i), "The reward is inf"),
    "two flags": (lambda o, r, a, b, i: (o, r, np.zeros(2, bool), b, i), r"terminated has dtype bool and shape \(2,\)"),
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


class Dated(Flawed):
    """Flawed from the fourth step of an episode on."""

    def step(self, action) -> Any:
        result = super().step(action)
        return self.flaws["late"](*result) if self.time > 3 else result


@pytest.mark.parametrize("name", list(FLAWS))
def test_flaws_that_show_midway_are_explained(name):
    flaw, message = FLAWS[name]
    steps = VectorSteps(SyncVectorEnv([lambda: StrictEnv(Dated(late=flaw))] * 2))
    steps.probe()
    steps.reset(seed=1)
    for _ in range(3):
        steps.step(np.asarray([0, 1]))
    with pytest.raises(InvalidInputError, match=message) as caught:
        steps.step(np.asarray([0, 1]))
    finite = name in ("reward is NaN", "reward is too large", "observation is NaN", "observation is infinite")
    assert isinstance(caught.value, NotFiniteError) == finite
