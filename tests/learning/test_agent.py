"""What an agent shows of itself: probabilities and values by hand, its names, and that it can be sent and kept."""
# pyright: reportOptionalMemberAccess=false

import dataclasses
import pickle

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import elbert
from elbert.errors import InvalidInputError
from elbert.fairness.notions import EQUAL_OPPORTUNITY
from elbert.files import read_tensors, write_tensors
from elbert.learning.distributions import Categorical, Gaussian
from elbert.learning.networks import Scale
from elbert.learning.policy import Policy
from elbert.report.pages import result_page
from tests.envs.own import Counter, clinic
from tests.learning.tiny import Probe, ProbeEnv, trainer_of

TINY = {"copies": 2, "rollout": 32, "minibatch": 32, "hidden": [4], "epochs": 1, "steps": 2 * 32 * 2, "alpha": 1.0}
SEEN = np.array([0.25, 1.0], np.float32)


def without_weights(agent):
    """The agent with every weight 0, so that all that is left is the scale of its signals."""
    weights = jax.tree.map(jnp.zeros_like, agent.weights)
    scale = Scale(jnp.arange(1.0, 6.0, dtype=jnp.float32), jnp.ones(5, jnp.float32))
    return dataclasses.replace(agent, policy=Policy(weights, agent.policy.moments), scale=scale)


def sent(agent):
    """What another process would get."""
    return pickle.loads(pickle.dumps(agent))  # noqa: S301 - it was dumped just now


@pytest.fixture(scope="module")
def untrained():
    return trainer_of(Probe(), hidden=(4,), copies=2).agents()[0]


def test_values_and_probabilities_by_hand(untrained):
    blank = without_weights(untrained)
    values = blank.values(SEEN)
    assert values.reward == 1
    assert values.supply.tolist() == [[2, 3]]
    assert values.demand.tolist() == [[4, 5]]
    assert blank.values([SEEN] * 3).supply.shape == (3, 1, 2)
    assert blank.action_probabilities(SEEN).tolist() == [0.5, 0.5]
    assert blank.action_probabilities([SEEN] * 3).shape == (3, 2)


def test_probabilities_are_those_of_the_actions(untrained):
    many = np.broadcast_to(SEEN, (4000, 2))
    share = untrained.predict(many).mean()
    assert untrained.action_probabilities(SEEN)[1] == pytest.approx(share, abs=0.04)


def test_other_actions_are_described_by_their_parameters():
    several = Categorical((2, 3), (0, 0), (2,)).described(jnp.log(jnp.asarray([[1.0, 3.0, 1.0, 1.0, 2.0]])))
    assert [np.round(part, 6).tolist() for part in several] == [[[0.25, 0.75]], [[0.25, 0.25, 0.5]]]
    normal = Gaussian((-1.0,), (1.0,), (1,)).described(jnp.asarray([[0.5, np.log(2.0)]]))
    assert (normal.mean.tolist(), normal.deviation.tolist()) == ([[0.5]], [[2.0]])


def test_predict_as_stable_baselines3_calls_it(untrained):
    untrained.seed(3)
    action = untrained.predict(SEEN, deterministic=True)
    assert untrained.predict(SEEN, state=None, episode_start=np.ones(1, bool), deterministic=True) == (action, None)
    actions, state = untrained.predict([SEEN, SEEN], state=None, deterministic=True)
    assert (actions.shape, state) == ((2,), None)


def test_a_pickled_agent_is_the_same(untrained):
    untrained.seed(7)
    again = sent(untrained)
    many = np.broadcast_to(SEEN, (50, 2))
    assert np.array_equal(again.predict(many), untrained.predict(many)), "the randomness goes along"
    assert again.about == untrained.about
    assert again.settings == untrained.settings
    by_name = dataclasses.replace(untrained, env=ProbeEnv)
    assert sent(by_name).env is ProbeEnv
    local = dataclasses.replace(untrained, env=lambda: ProbeEnv())
    assert sent(local).env is None, "a function that cannot be imported stays behind"


@pytest.mark.slow
def test_after_training_in_an_environment_of_the_users_own_everything_works(tmp_path):
    agent = elbert.train(lambda: clinic(group_names=["north", "south", "west"]), out=tmp_path / "run", **TINY)
    result = agent.evaluate(6)
    names = ["north", "south", "west"]
    assert [group.group for group in result.worst.groups] == names
    assert all(name in str(result) for name in names)
    assert [group["group"] for group in result.to_dict()["groups"]] == names
    comparison = elbert.compare({"a": agent, "b": lambda o: o.argmax(axis=-1)}, episodes=6)
    assert comparison["a"] == result
    assert comparison["b"].reward.mean > 0
    assert "north, south, west" in str(comparison)
    stored = elbert.load(tmp_path / "run")
    assert stored.about.group_names == ("north", "south", "west")
    shown = stored.evaluate(6, env=clinic)  # which says no names
    assert [group.group for group in shown.worst.groups] == names
    other = stored.evaluate(6, env=lambda: clinic(group_names=["x", "y", "z"]))
    assert [group.group for group in other.worst.groups] == ["x", "y", "z"], "those of where it acts"
    with pytest.raises(InvalidInputError, match="an environment of your own that is not stored with it"):
        stored.evaluate()
    assert [run.env for run in elbert.runs(tmp_path)] == ["Clinic"]


@pytest.mark.slow
def test_training_names_groups_and_refuses_a_wrong_number():
    agent = elbert.train(Probe(), group_names=["left", "right"], **TINY)
    assert agent.evaluate(3).worst.bias.left_out == ()
    assert [group.group for group in agent.evaluate(3).worst.groups] == ["left", "right"]
    with pytest.raises(InvalidInputError, match="Give a list of 2 names"):
        elbert.train(Probe(), group_names=["left"], **TINY)


def test_an_agent_of_a_gymnasium_id_finds_its_environment_again(tmp_path):
    gymnasium.register("tests/Clinic-v0", entry_point=clinic)
    elbert.train("tests/Clinic-v0", out=tmp_path / "run", **TINY)
    again = elbert.load(tmp_path / "run")
    assert again.about.env == "tests/Clinic-v0"
    assert again.evaluate(4).env == "tests/Clinic-v0"
    found = elbert.compare({"run": tmp_path / "run", "first": lambda o: 0}, episodes=4)
    assert (found.env, found["first"].worst.groups[1].rate) == ("tests/Clinic-v0", 0.0)
    imports = dataclasses.replace(again, about=dataclasses.replace(again.about, env="antigravity:tests/Clinic-v0"))
    with pytest.raises(InvalidInputError, match="not stored with it"):
        imports.evaluate(4)  # no module is imported because a file says so


@pytest.mark.slow
def test_the_notion_of_a_wrapper_is_kept_and_shown():
    def make():
        return elbert.NotionWrapper(Counter(), "equal-opportunity", group_names=["a", "b"], qualified="qualified")

    agent = elbert.train(make, **TINY)
    assert (agent.about.notion, agent.shape.criteria) == ("equal-opportunity", ("true positive rate",))
    result = elbert.evaluate(lambda o: 1, env=make, episodes=3)
    assert result.report.totals.notion is EQUAL_OPPORTUNITY
    assert (result.notion, result.to_dict()["notion"]) == ("equal-opportunity", "equal-opportunity")
    assert str(result.report).startswith("true positive rate")
    assert type(result).from_dict(result.to_dict()).notion == "equal-opportunity"
    assert "true positive rate (equal-opportunity)" in str(result_page(result))


def test_a_limit_in_evaluation_comes_before_that_of_training(untrained):
    limited = dataclasses.replace(untrained, about=dataclasses.replace(untrained.about, max_bias=0.9))
    assert limited.evaluate(8).limit.max_bias == 0.9
    assert limited.evaluate(8, max_bias=0.5).limit.max_bias == 0.5


def test_a_file_with_a_price_from_before_is_read_without_it(untrained, tmp_path):
    path = untrained.save(tmp_path / "agent")
    arrays, content = read_tensors(path)
    write_tensors(path, arrays, content | {"about": content["about"] | {"price": 3.0, "length": 16.0}})
    assert elbert.load(path).about == untrained.about


def test_an_evaluation_goes_on_until_its_noise_is_small_beside_the_limit(untrained):
    short = untrained.evaluate(10, max_bias=0.1)
    floor, horizon = short.worst.bias.noise_floor, short.horizon
    wanted = 10 * (40 * floor / 0.1) ** 2
    assert wanted > 1000, "or this test shows nothing"
    assert untrained.evaluate(10, max_bias=0.1, most_steps=1e9).episodes == int(wanted)
    some = untrained.evaluate(10, max_bias=0.1, most_steps=100 * horizon)
    assert some.episodes == 100
    assert some == untrained.evaluate(10, max_bias=0.1, most_steps=100 * horizon), "the same seed, the same numbers"
    assert some.worst.bias.noise_floor < floor
    assert untrained.evaluate(10, max_bias=0.1, most_steps=5 * horizon) == short, "never fewer"
    assert untrained.evaluate(10, most_steps=1e9).episodes == 10, "without a limit"
    assert untrained.evaluate(10, max_bias=0.0, most_steps=1e9).episodes == 10, "nothing is small beside 0"
