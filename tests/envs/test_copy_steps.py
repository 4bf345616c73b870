"""Copies that are stepped without Gymnasium's gathering show the same as with it, and flaws the same messages."""

import re
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from elbert.envs.gym_copies import CopySteps
from elbert.envs.gym_infos import VectorSteps
from elbert.envs.gym_returns import StrictEnv
from elbert.errors import InvalidInputError

from .own import FLAWS, Flawed, Late, clinic


class Told(Flawed):
    """A clinic that counts its steps and whose returns a function may change."""

    made = 0

    def __init__(self, change=lambda env, *returned: returned, **options):
        super().__init__(**options)
        self.change = change

    def step(self, action) -> Any:
        self.made += 1
        return self.change(self, *super().step(action))


class Buffered(Flawed):
    """Returns one array as its observation, which a reset changes in place; episodes of copies differ in length."""

    def reset(self, *, seed=None, options=None) -> Any:
        self.length = self.length if seed is None else 2 + seed % 3
        return super().reset(seed=seed, options=options)

    def _seen(self) -> Any:
        self.shown = self.__dict__.get("shown", np.zeros(3, np.float32))
        self.shown[:] = self.waiting + 10 * self.time
        return self.shown


def quick(make, copies=3):
    return VectorSteps(SyncVectorEnv([lambda: StrictEnv(make())] * copies, autoreset_mode=AutoresetMode.SAME_STEP))


def gathered(make, copies=3):
    return VectorSteps(SyncVectorEnv([make] * copies, autoreset_mode=AutoresetMode.SAME_STEP))


def walk(vector, steps):
    for _ in range(steps):
        vector.step(np.zeros(3, int))


def courses(make, steps=15):
    """The same course by both ways: [(observations of the reset, step, step, ...), ...]"""
    for vector in (quick(make), gathered(make)):
        vector.probe()
        course: list[Any] = [(vector.reset(seed=6),)]
        for t in range(steps):
            step = vector.step((np.arange(3, dtype=np.int32) + t) % 3)
            course.append((*step, vector.observations, vector.starts))
        yield course


def changed(**changes):
    """Flawed's returns with some of them replaced by functions of them."""
    names = ("observation", "reward", "terminated", "truncated", "info")

    def change(env, *returned):
        return tuple(changes.get(name, lambda x: x)(x) for name, x in zip(names, returned, strict=True))

    return partial(Told, change)


def every_third(change):
    """The change in every third step of each copy."""
    return partial(Told, lambda env, *returned: change(*returned) if env.made % 3 == 0 else returned)


USUAL: dict[str, Any] = {
    "arrays": Flawed,
    "wrapped": clinic,
    "reals of 64 bits": changed(observation=lambda o: o.astype(float)),
    "whole reward": changed(reward=int),
    "NumPy's flags and numbers": changed(terminated=np.bool_, truncated=np.bool_, reward=np.float32),
    "whole amounts": changed(info=lambda i: {key: value.astype(int) for key, value in i.items()}),
    "one criterion, said": changed(info=lambda i: {key: value[None] for key, value in i.items()}),
    "two criteria": changed(info=lambda i: {key: np.stack([value, 2 * value]) for key, value in i.items()}),
    "more in info": changed(info=lambda i: i | {"day": 3, "note": "text"}),
}

UNUSUAL: dict[str, Any] = {
    "lists": every_third(lambda o, r, a, b, i: (o, r, a, b, {key: value.tolist() for key, value in i.items()})),
    "0-d reward": every_third(lambda o, r, a, b, i: (o, np.asarray(r), a, b, i)),
    "list as observation": every_third(lambda o, r, a, b, i: (o.tolist(), r, a, b, i)),
    "reset with a list": partial(Flawed, reset=lambda o, i: (o.tolist(), i)),
}


@pytest.mark.parametrize("name", [*USUAL, *UNUSUAL])
def test_both_ways_show_the_same(name, monkeypatch):
    if name in USUAL:
        monkeypatch.setattr(CopySteps, "step_again", None)  # nothing unusual: it would be a failure to need it
    for ours, theirs in zip(*courses((USUAL | UNUSUAL)[name]), strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert a.dtype == b.dtype
            assert np.array_equal(a, b)


def test_a_copy_makes_every_step_once(monkeypatch):
    again = []
    own = CopySteps.step_again
    monkeypatch.setattr(CopySteps, "step_again", lambda self, actions: again.append(1) or own(self, actions))
    vector = quick(UNUSUAL["lists"])
    vector.probe()
    vector.reset(seed=0)
    walk(vector, 20)
    assert len(again) == 7
    assert [copy.unwrapped.made for copy in vector.env.envs] == [21] * 3  # pyright: ignore


@pytest.mark.parametrize("name", list(FLAWS))
@pytest.mark.parametrize("first", [0, 1])
def test_flaws_that_show_midway_have_the_same_messages(name, first):
    """Copy 0 or copy 1 is the first to show the flaw: the copies before it have made the step by then."""
    flaw, message = FLAWS[name]

    def said(hurry):
        made = iter([Flawed] * first + [lambda: Late(flaw)] * (2 - first))
        vector = quick(lambda: next(made)(), copies=2)
        vector._quick = vector._quick if hurry else None
        vector.probe()
        vector.reset(seed=1)
        for _ in range(3):
            vector.step(np.asarray([0, 1]))
        try:
            vector.step(np.asarray([0, 1]))
        except InvalidInputError as error:
            assert np.isfinite(vector.reset(seed=2)).all()  # nothing of the step is left
            return type(error), str(error)
        return None

    assert said(hurry=True) == said(hurry=False)
    assert first or re.search(message, str(said(hurry=True)))


def test_a_mistake_in_the_users_code_keeps_its_traceback():
    vector = quick(lambda: Late(lambda *_: 1 / 0))
    vector.probe()
    vector.reset(seed=0)
    with pytest.raises(ZeroDivisionError):
        walk(vector, 4)


class Parity(Told):
    """Its notion knows no supply beyond demand."""

    notion = "demographic-parity"


def test_negative_amounts_and_rates_above_one_are_refused():
    more: Any = lambda env, *r: (*r[:4], {"supply": np.full(3, 1.0 + (env.made > 1)), "demand": np.ones(3)})  # noqa: E731
    negative = every_third(lambda o, r, a, b, i: (o, r, a, b, i | {"demand": -i["demand"] - 1}))
    for make, message in ((negative, "demand is negative"), (partial(Parity, more), "exceeds demand")):
        vector = quick(make)
        vector.probe()
        vector.reset(seed=0)
        with pytest.raises(InvalidInputError, match=message):
            walk(vector, 2)


def test_a_last_observation_is_kept_from_the_reset():
    """By hand: an episode of 2 + seed % 3 steps ends with an observation of 10 times as much and some."""
    vector = quick(Buffered)
    vector.probe()
    vector.reset(seed=6)
    days, ends = np.zeros(3), 0
    for _ in range(8):
        step = vector.step(np.zeros(3, int))
        days += 1
        assert (step.final_observation // 10 == days[:, None]).all()
        days[step.ended] = 0
        assert (step.next_observation // 10 == days[:, None]).all()
        ends += step.ended.sum()
    assert ends == 4 + 2 + 2


@pytest.mark.parametrize(
    ("space", "mode"),
    [
        (gymnasium.spaces.Discrete(4), AutoresetMode.SAME_STEP),
        (Flawed.observation_space, AutoresetMode.NEXT_STEP),
        (Flawed.observation_space, AutoresetMode.DISABLED),
    ],
)
def test_what_is_left_to_gymnasium(space, mode):
    def make():
        env = Flawed()
        env.observation_space = space
        return StrictEnv(env)

    assert not CopySteps.can_step(SyncVectorEnv([make], autoreset_mode=mode))
