"""Steps of a user's vector environment are the same in every autoreset mode; bad ones are refused with a reason."""

import sys
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from elbert.envs import EnvCheckError, check_env
from elbert.envs.gym_infos import VectorSteps
from elbert.envs.gym_returns import NotFiniteError, StrictEnv
from elbert.errors import InvalidInputError

from .own import FLAWS, PAIR, UNUSABLE_SPACES, VECTOR_FLAWS, Flawed, FlawedVector, Late, clinic

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
    assert np.array_equal(steps.reset(seed=100), [flat(kind, c, 0) for c in range(3)])
    day = np.zeros(3, int)
    ended = np.zeros(3, bool)
    for _ in range(12):
        step = steps.step(np.asarray([0, 1, 0]))
        only_reset = ended & (mode is AutoresetMode.NEXT_STEP)
        assert step.counted.tolist() == (~only_reset).tolist()
        day = np.where(only_reset, 0, day + 1)
        ended = ~only_reset & (day == 2 + np.arange(3))
        assert step.terminated.tolist() == (ended & (np.arange(3) == 0)).tolist()
        assert step.truncated.tolist() == (ended & (np.arange(3) > 0)).tolist()
        assert np.array_equal(step.final_observation, [flat(kind, c, t) for c, t in enumerate(day)])
        assert step.reward.dtype == step.supply.dtype == step.demand.dtype == step.final_observation.dtype == np.float32
        assert step.reward.tolist() == np.where(only_reset, 0, 10 * np.arange(3) + day).tolist()
        assert step.supply[:, 0].tolist() == [
            [0, 0] if r else [t, c == 1] for c, (r, t) in enumerate(zip(only_reset, day, strict=True))
        ]
        assert step.demand[:, 0].tolist() == [[0, 0] if r else [9, 9] for r in only_reset]
        day = day if mode is AutoresetMode.NEXT_STEP else np.where(ended, 0, day)
        assert np.array_equal(step.next_observation, [flat(kind, c, t) for c, t in enumerate(day)])


def test_criteria_and_groups_are_known_after_a_probe():
    steps = VectorSteps(days(AutoresetMode.NEXT_STEP))
    assert steps.probe() == (4, (("benefit rate",), None, None), 2)
    with pytest.raises(InvalidInputError, match="before reset"):
        steps.step(np.zeros(3, int))
    two = VectorSteps(FlawedVector({key: np.ones((2, 2, 3)) for key in PAIR}))
    assert two.probe() == (1, (("criterion 0", "criterion 1"), None, None), 3)


def test_a_step_in_which_all_copies_are_reset_has_no_benefits():
    steps = VectorSteps(SyncVectorEnv([clinic] * 2))
    steps.reset(seed=0)
    seen = [steps.step(np.zeros(2, int)) for _ in range(7)]
    assert not seen[6].counted.any()
    assert seen[6].supply.shape == (2, 1, 3)
    assert not seen[6].supply.any()


@pytest.mark.parametrize("name", list(FLAWS))
def test_flaws_that_show_midway_are_explained(name):
    flaw, message = FLAWS[name]
    steps = VectorSteps(SyncVectorEnv([lambda: StrictEnv(Late(flaw))] * 2))
    steps.probe()
    steps.reset(seed=1)
    for _ in range(3):
        steps.step(np.asarray([0, 1]))
    with pytest.raises(InvalidInputError, match=message) as caught:
        steps.step(np.asarray([0, 1]))
    with pytest.raises(EnvCheckError, match=message):
        check_env(Late(flaw))
    finite = name in ("reward is NaN", "reward is too large", "observation is NaN", "observation is infinite")
    assert isinstance(caught.value, NotFiniteError) == finite


def test_a_users_own_vector_environment_is_met_with_a_message_too():
    """Gymnasium gathers the copies before we see them; its errors are explained."""

    def after_three(flaw):
        steps = VectorSteps(SyncVectorEnv([lambda: Late(flaw)] * 2))
        steps.reset(seed=1)
        for _ in range(4):
            steps.step(np.asarray([0, 1]))

    for name in ("four values", "info is None", "observation grows", "two flags", "nothing"):
        with pytest.raises(InvalidInputError, match=r"step\(\) failed inside Gymnasium .*check_env\(env\)"):
            after_three(FLAWS[name][0])
    for name in ("reward is None", "observation is NaN", "observation is infinite", "reward is too large"):
        with pytest.raises(NotFiniteError):
            after_three(FLAWS[name][0])
    for name in ("more criteria", "supply is text", "supply is ragged", "supply is NaN", "no supply"):
        with pytest.raises(InvalidInputError):
            after_three(FLAWS[name][0])
    with pytest.raises(ZeroDivisionError):  # a mistake in the user's own code keeps its traceback
        after_three(lambda *_: 1 / 0)


@pytest.mark.parametrize(("flaws", "message"), VECTOR_FLAWS)
def test_flaws_of_vector_environments_are_explained(flaws, message):
    steps = VectorSteps(FlawedVector(**flaws))

    def use():
        steps.probe()
        steps.reset(seed=0)
        for _ in range(3):
            steps.step(np.zeros(2, int))

    with pytest.raises(InvalidInputError, match=message):
        use()


def exiting():
    return Late(lambda *_: sys.exit(3))


def test_an_environment_that_calls_exit():
    spawned = AsyncVectorEnv([exiting], context="spawn")  # JAX's threads must not be forked
    try:
        for env in (SyncVectorEnv([exiting]), spawned):
            steps = VectorSteps(env)
            steps.reset(seed=0)
            for _ in range(3):
                steps.step(np.zeros(1, int))
            with pytest.raises(InvalidInputError, match=r"ended its process during step\(\).*Does it call exit"):
                steps.step(np.zeros(1, int))
    finally:
        for process in spawned.processes:
            process.join(10)
        spawned.closed = True  # its copies are gone: nobody is there to be told
    with pytest.raises(EnvCheckError, match=r"ended its process during step\(\)"):
        check_env(exiting())


@pytest.mark.parametrize(("space", "message"), UNUSABLE_SPACES)
def test_spaces_from_which_nothing_can_be_learned(space, message):
    env = Flawed()
    env.observation_space = space
    with pytest.raises(InvalidInputError, match=message):
        VectorSteps(SyncVectorEnv([lambda: env])).reset(seed=0)
    with pytest.raises(EnvCheckError, match=message):
        check_env(env)
