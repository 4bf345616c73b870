"""Names of groups, rates and notions: who says them, who is believed, and what does not fit."""
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

import elbert
from elbert.envs import Attention, Parts, WorldEnv, WorldVectorEnv
from elbert.envs.gym_infos import VectorSteps
from elbert.envs.gym_names import names_of, parts_of
from elbert.errors import InvalidInputError
from tests.envs.own import Clinic, Coin, Counter, Flawed


class Declared(Flawed):
    """A clinic that reports its own benefits and says what they are."""

    group_names = ("north", "south", "west")
    notion = "discovery-probability"


def test_an_environment_is_asked_through_its_wrappers():
    wrapped = gymnasium.wrappers.TimeLimit(Declared(), 4)
    for env in (Declared(), wrapped, SyncVectorEnv([lambda: wrapped] * 2)):
        names = names_of(env, 1, 3)
        assert names.groups == ("north", "south", "west")
        assert names.criteria == ("discovery rate",)
        assert names.notion is elbert.fairness.NOTIONS["discovery-probability"]
    assert names_of(Clinic(), 1, 3) == (("benefit rate",), None, None)
    assert names_of(Clinic(), 2, 3).criteria == ("criterion 0", "criterion 1")


def test_the_outermost_wrapper_is_believed():
    count = {"supply": lambda t: t.info["supply"], "demand": lambda t: t.info["demand"]}
    names = names_of(elbert.SupplyDemandWrapper(Declared(), **count, criteria=["share"]), 1, 3)
    assert names == (("share",), ("north", "south", "west"), None), "new benefits are not those of the notion within"
    named = elbert.SupplyDemandWrapper(Declared(), **count, group_names=["a", "b", "c"])
    assert names_of(named, 1, 3).groups == ("a", "b", "c")
    vector = elbert.NotionVectorWrapper(SyncVectorEnv([Counter]), "demographic-parity", group_names=["x", "y"])
    assert names_of(vector, 1, 2)[:2] == (("acceptance rate",), ("x", "y"))


def test_parts_are_those_of_the_outermost_wrapper_that_has_some():
    env = Clinic()
    assert parts_of(env) is None
    env.parts = ["left leg", "right leg"]  # of a user who means something else by it
    assert parts_of(env) is None
    env.parts = Parts([[0], [1], [2]])
    wrapped = gymnasium.wrappers.TimeLimit(env, 4)
    assert parts_of(SyncVectorEnv([lambda: wrapped])) is env.parts
    wrapped.parts = Parts([[0], [1]])
    assert parts_of(SyncVectorEnv([lambda: wrapped])) is wrapped.parts
    world = Attention()
    for of_world in (WorldEnv(world), WorldVectorEnv(world, 2)):
        assert parts_of(of_world) == world.parts


def test_worlds_say_their_names():
    class Named(Coin):
        group_names = ("heads", "tails")

    for env in (WorldEnv(Named()), WorldVectorEnv(Named(), 2)):
        assert names_of(env, 1, 2)[:2] == (("discovery rate",), ("heads", "tails"))
    result = elbert.evaluate(lambda o: 0, env=Named(), episodes=3)
    assert [group.group for group in result.worst.groups] == ["heads", "tails"]
    assert "group north" in str(elbert.check_env(Declared(), steps=20))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group_names": ["a", "b"]}, "group_names is .* Give a list of 3 names"),
        ({"group_names": ["a", "b", "a"]}, r"The names \['a'\] stand for more than one of the group_names"),
        ({"notion": "equalised-odds"}, "No notion is called 'equalised-odds'. Did you mean 'equalized-odds'"),
        ({"notion": "equalized-odds"}, "which has 2 criteria, but its supply and demand have 1"),
        ({"notion": None, "criteria": ["a", "b"]}, "criteria is .* Give a list of 1 names"),
    ],
)
def test_names_that_do_not_fit_are_refused_before_anything_is_trained(changes, message):
    env = type("Changed", (Declared,), changes)
    with pytest.raises(InvalidInputError, match=message):
        elbert.train(env, alpha=1.0)


def test_more_supply_than_a_notion_allows_is_refused_where_it_happens():
    env = Declared(info=lambda info, time: info | {"supply": info["demand"] + (time > 3)})
    steps = VectorSteps(SyncVectorEnv([lambda: env]))
    steps.reset(0)
    for _ in range(3):
        steps.step(np.zeros(1, int))
    with pytest.raises(InvalidInputError, match="supply exceeds demand"):
        steps.step(np.zeros(1, int))


def test_a_notion_counts_as_many_groups_as_it_has_names():
    env = elbert.NotionWrapper(Counter(), "demographic-parity", group_names=["a", "b"])
    env.reset()
    assert env.step(1)[4]["demand"].tolist() == [1, 0]
    with pytest.raises(InvalidInputError, match="Give a list of 3 names"):
        elbert.NotionWrapper(Counter(), "demographic-parity", groups=3, group_names=["a", "b"])
    with pytest.raises(InvalidInputError, match=r"groups is None\. Give the number of groups, .* or group_names"):
        elbert.NotionWrapper(Counter(), "demographic-parity")
