"""The checker explains what is missing or wrong in an environment, and notes what may not be meant."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import elbert
from elbert.envs import EnvCheckError, check_env
from elbert.envs.gym_returns import benefit_rows
from elbert.errors import InvalidInputError

from .own import VECTOR_FLAWS, Flawed, FlawedVector, clinic


def test_a_good_environment_is_told_so():
    report = check_env(clinic())
    assert (report.copies, report.criteria, report.groups, report.steps, report.episodes) == (None, 1, 3, 500, 83)
    assert report.notes == ()
    assert str(report).startswith("Environment, ready: 3 groups; 500 steps with random actions, 83 episodes ended.")
    assert f"group 2: supply {report.supply[0, 2]:g}, demand {report.demand[0, 2]:g}" in str(report)
    for mode in AutoresetMode:
        report = check_env(SyncVectorEnv([clinic] * 2, autoreset_mode=mode), steps=60)
        assert (report.copies, report.groups) == (2, 3)
    assert check_env("lending", steps=30).groups == 2
    assert check_env(elbert.make_world("infectious"), steps=30).groups == 2


@pytest.mark.parametrize(
    ("flaws", "message"),
    [
        ({"info": lambda i, t: {}}, 'info has no "supply"'),
        ({"info": lambda i, t: {"Suply": i["supply"], "demand": i["demand"]}}, "Did you mean 'Suply'"),
        ({"info": lambda i, t: {"supply": i["supply"]}}, 'info has no "demand"'),
        (
            {"info": lambda i, t: {**i, "demand": i["demand"][:2]}},
            r"supply has shape \(3,\) but demand has shape \(2,\)",
        ),
        ({"info": lambda i, t: {**i, "supply": -i["demand"] - 1}}, "supply is negative"),
        ({"info": lambda i, t: {**i, "demand": i["demand"] * np.nan}}, "demand is not finite"),
        ({"info": lambda i, t: {**i, "demand": ["a", "b", "c"]}}, "demand has dtype"),
        ({"info": lambda i, t: {k: np.ones((2, 2, 2)) for k in i}}, r"shape \(1, 2, 2, 2\) for 1 copies"),
        ({"info": lambda i, t: {k: v[: 3 - t // 3] for k, v in i.items()}}, "had 3 groups .* and then 2"),
        (
            {"step": lambda o, r, a, b, i: (o, r, a or b, i)},
            r"step\(\) returned \(ndarray, float, bool, dict\). It must return \(observation, reward, term",
        ),
        ({"step": lambda o, r, a, b, i: None}, r"step\(\) returned NoneType. It must return"),
        (
            {"step": lambda o, r, a, b, i: (o, r, a, b, None)},
            r"bool, NoneType\). It must return .* where info is a dictionary",
        ),
        (
            {"step": lambda o, r, a, b, i: (o, r, a, np.zeros(2, bool), i)},
            r"truncated is array\(\[False, False\]\). Give bools .*of shape \(\)",
        ),
        ({"step": lambda o, r, a, b, i: (o, r, int(a), b, i)}, "terminated is 0. Give bools"),
        ({"step": lambda o, r, a, b, i: (o, None, a, b, i)}, "The step's reward is None"),
        ({"step": lambda o, r, a, b, i: (o, float("inf"), a, b, i)}, "The reward is inf"),
        ({"step": lambda o, r, a, b, i: (o.astype(float), r, a, b, i)}, "does not lie in observation_space"),
        ({"step": lambda o, r, a, b, i: 1 / 0}, "It raised ZeroDivisionError: division by zero"),
        ({"reset": lambda o, i: o}, r"reset\(\) returned ndarray. It must return \(observation, info\)"),
        ({"reset": lambda o, i: (-o - 1, i)}, r"The observation of reset\(\) does not lie"),
        ({"unseeded": True}, "Two runs with reset.* differ"),
    ],
)
def test_flaws_are_explained(flaws, message):
    with pytest.raises(EnvCheckError, match=message) as caught:
        check_env(Flawed(**flaws))
    assert "in the way of using this environment" in str(caught.value)
    assert caught.value.problems


@pytest.mark.parametrize(
    ("flaws", "note"),
    [
        ({"shared": True}, "one array in every step, changed in place"),
        ({"info": lambda i, t: {**i, "demand": i["demand"] * [1, 0, 1]}}, "group 1 never had any demand"),
        ({"info": lambda i, t: {**i, "supply": i["demand"] + 1}}, "group 0, 1, 2 received more than was due"),
        ({"info": lambda i, t: {**i, "supply": 0 * i["supply"]}}, "supply was 0 in every step"),
        ({"info": lambda i, t: {k: v[:1] for k, v in i.items()}}, "only one group"),
        ({"length": 10**6}, "no episode ended within 500 steps"),
    ],
)
def test_what_may_not_be_meant_is_noted(flaws, note):
    report = check_env(Flawed(**flaws))
    assert any(note in line for line in report.notes), report.notes
    assert note in str(report)


def test_several_problems_are_told_at_once():
    def step(observation, reward, terminated, truncated, info):
        return observation.astype(float), None, 0, truncated, info

    with pytest.raises(EnvCheckError, match="3 things stand in the way") as caught:
        check_env(Flawed(step=step))
    assert len(caught.value.problems) == 3


def test_what_is_no_environment():
    with pytest.raises(EnvCheckError, match=r"This is int, not a gymnasium.Env"):
        check_env(3)
    with pytest.raises(InvalidInputError, match="No environment is called 'lend'"):
        check_env("lend")

    class Bare(gymnasium.Env):
        pass

    with pytest.raises(EnvCheckError, match="no observation_space and no action_space"):
        check_env(Bare())


def test_the_checker_is_asked_in_whole_numbers():
    wrong: list[Any] = [0, -1, 1.5, "5"]
    for steps in wrong:
        with pytest.raises(InvalidInputError, match="steps is"):
            check_env(clinic(), steps=steps)
    with pytest.raises(InvalidInputError, match="seed is -1"):
        check_env(clinic(), seed=-1)
    assert check_env(clinic(), steps=np.int64(7), seed=np.int64(2)).steps == 7  # pyright: ignore[reportArgumentType]


def test_repetition_is_checked_on_copies():
    """Unseeded noise in an observation buffer that is used again and again."""

    class Buffered(Flawed):
        def __init__(self):
            super().__init__()
            self.buffer, self.noise = np.zeros(3, np.float32), np.random.default_rng()

        def _seen(self) -> Any:
            self.buffer[:] = self.noise.random(3)
            return self.buffer

    with pytest.raises(EnvCheckError, match=r"Two runs with reset.* differ"):
        check_env(Buffered())


def test_a_constant_array_is_not_called_changed():
    due = np.ones(3)
    report = check_env(Flawed(info=lambda i, t: {"supply": np.minimum(i["supply"], 1), "demand": due}))
    assert report.notes == ()


def test_supply_without_any_demand_is_noted_once():
    report = check_env(Flawed(info=lambda i, t: {"supply": i["demand"], "demand": i["demand"] * [1, 0, 1]}))
    assert len(report.notes) == 1
    assert "group 1 never had any demand" in report.notes[0]


@pytest.mark.parametrize(("flaws", "message"), VECTOR_FLAWS)
def test_flaws_of_vector_environments_are_explained(flaws, message):
    with pytest.raises(EnvCheckError, match=message):
        check_env(FlawedVector(**flaws))


def test_totals_that_are_not_finite_are_a_problem():
    """Each step is finite, their sum in 32 bits is not."""
    large = 1e38
    with pytest.raises(EnvCheckError, match=r"The total demand is inf"):
        check_env(Flawed(info=lambda i, t: i | {"demand": np.full(3, large)}))
    with pytest.raises(EnvCheckError, match=r"The demand is inf|The total demand is inf"):
        check_env(Flawed(info=lambda i, t: i | {"demand": np.full(3, 1e308)}))


def test_lists_in_infos_are_welcome_in_vector_environments_too():
    class Lists(Flawed):
        def step(self, action) -> Any:
            *rest, info = super().step(action)
            return (*rest, {key: value.tolist() for key, value in info.items()})

    for mode in AutoresetMode:
        listed = check_env(SyncVectorEnv([Lists] * 2, autoreset_mode=mode), steps=40)
        arrays = check_env(SyncVectorEnv([Flawed] * 2, autoreset_mode=mode), steps=40)
        assert np.array_equal(listed.supply, arrays.supply)
        assert np.array_equal(listed.demand, arrays.demand)
    ragged = np.asarray([[1.0, 2], None], dtype=object)
    ragged[1] = [1.0]
    info = {"supply": ragged, "demand": ragged}
    with pytest.raises(InvalidInputError, match="Give all the same"):
        benefit_rows(info, np.ones(2, bool))


def test_single_infos_may_hold_lists_or_two_criteria():
    listed = check_env(Flawed(info=lambda i, t: {"supply": [1, 0], "demand": [1, 1]}), steps=4)
    assert listed.supply.tolist() == [[4, 0]]
    two = check_env(Flawed(info=lambda i, t: {"supply": [[1, 0], [0, 0]], "demand": [[1, 1], [2, 2]]}), steps=4)
    assert two.demand.tolist() == [[4, 4], [8, 8]]
