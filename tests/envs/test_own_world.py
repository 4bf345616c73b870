"""A world of a user's own, as pure functions."""

from typing import Any, ClassVar

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

import elbert
from elbert.envs import EnvCheckError, Parts, check_env
from elbert.errors import InvalidInputError

from .own import Coin


def test_a_world_of_ones_own():
    report = check_env(Coin(chance=0.25))
    assert (report.groups, report.episodes) == (2, 100)
    assert report.demand.sum() == 500
    assert report.demand[0, 1] == pytest.approx(125, abs=40)
    vector = elbert.envs.WorldVectorEnv(Coin(), 4)
    assert check_env(vector).copies == 4


def test_a_picture_of_ones_own():
    env = elbert.envs.WorldEnv(Coin(), render_mode="rgb_array", draw=lambda *_: np.zeros((2, 2, 3), np.uint8))
    env.reset()
    assert np.asarray(env.render()).shape == (2, 2, 3)


def test_freezing_static_parts_and_subclasses():
    class Heavy(Coin):
        def __init__(self):
            super().__init__(chance=0.9)
            self.chance = self.chance + 0.05  # not frozen before the outermost __init__ is done

    assert float(Heavy().chance) == pytest.approx(0.95)
    with pytest.raises(AttributeError):
        Heavy().chance = jnp.asarray(1)
    with pytest.raises(AttributeError):
        del Heavy().chance
    assert check_env(Heavy(), steps=20).groups == 2  # what is static in Coin is static in its subclass

    with pytest.raises(TypeError, match="names 'side' as static"):
        type("Wrong", (Coin,), {}, static=("side",))


def test_a_parameter_that_is_no_array_is_refused_by_name():
    class Sites(Coin):
        parts: Any = Parts([[0]])

    with pytest.raises(InvalidInputError, match=r'parts of Sites is annotated.*static=\("parts",\)'):
        Sites()

    class Named(Coin, static=("parts",)):
        parts: Any = Parts([[0]])

    assert Named().parts == Parts([[0]])


def test_shapes_that_contradict_the_groups_are_explained():
    class ThreeGroups(Coin):
        def step(self, key, state, action):
            state, step = super().step(key, state, action)
            return state, step._replace(supply=jnp.zeros((1, 3)))

    with pytest.raises(EnvCheckError, match=r"ThreeGroups.step gives supply of shape \(1, 3\). Give \(1, 2\)"):
        check_env(ThreeGroups())


def test_action_spaces_of_ones_own():
    class FromOne(Coin):
        label: ClassVar[str] = "not a parameter"

        @property
        def action_space(self):
            return gymnasium.spaces.Discrete(2, start=1)

    two = elbert.envs.WorldVectorEnv(FromOne(), 2)
    two.reset(seed=0)
    two.step(np.asarray([2, 1]))
    with pytest.raises(InvalidInputError, match="Give whole numbers"):
        two.step(np.asarray([0, 1]))

    class Switches(Coin):
        @property
        def action_space(self) -> Any:
            return gymnasium.spaces.MultiBinary(2)

    with pytest.raises(InvalidInputError, match="Make it Discrete, MultiDiscrete or Box"):
        elbert.envs.WorldEnv(Switches())
