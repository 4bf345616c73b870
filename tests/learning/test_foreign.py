"""Policies from elsewhere: whatever acts is judged by the same episodes, in every kind of environment."""
# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportCallIssue=false
# pyright: reportIncompatibleMethodOverride=false, reportAssignmentType=false, reportMissingImports=false

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import elbert
from elbert.envs import WorldEnv
from elbert.errors import InvalidInputError
from elbert.learning import ForeignPolicy
from tests.learning.tiny import Probe, ProbeEnv, Tiny

gymnasium.register("tests/Probe-v0", entry_point=ProbeEnv)


class Model:
    """The signature of stable-baselines3: `predict` takes a batch or one observation, returns (actions, state)."""

    def __init__(self):
        self.deterministic = set()

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        self.deterministic.add(deterministic)
        return (np.asarray(observation)[..., 0] > 0).astype(np.int64), state


class Recurrent:
    """Serves groups in turn; the turn is its state, and begins with group 0 in every episode."""

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        turn = np.zeros(len(observation), int) if state is None else state[0]
        turn = np.where(episode_start, 0, turn)
        return turn % 2, (turn + 1,)


def vector(mode):
    return SyncVectorEnv([ProbeEnv] * 2, autoreset_mode=mode)


PLACES = {
    "world": Probe,
    "its environment": lambda: WorldEnv(Probe()),
    "environment": ProbeEnv,
    "factory": lambda: ProbeEnv,
    "id": lambda: "tests/Probe-v0",
    **{mode.value: lambda mode=mode: vector(mode) for mode in AutoresetMode},
}
IN_TURN = {
    "model": Model().predict,
    "predict": Model(),
    "many": lambda o: o[:, 0] > 0,
    "one": lambda o: int(o[0] > 0),
    "one, as large as two copies": lambda o: (o[0] > 0) * 1,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("policy", IN_TURN)
def test_serving_in_turn_gives_half_to_each_everywhere(place, policy):
    """Group 0 pays 1, group 1 pays 0.8, in turn: 0.9 a step; each is due 16 and gets 8."""
    result = elbert.evaluate(IN_TURN[policy], env=PLACES[place](), episodes=5)
    assert result.reward.mean == pytest.approx(0.9)
    assert [group.rate for group in result.worst.groups] == [0.5, 0.5]
    assert (result.episodes, result.horizon, result.worst.bias.estimate) == (5, 16, 0.0)


def test_a_limit_is_tested_for_any_policy():
    result = elbert.evaluate(lambda o: 0, env=ProbeEnv, episodes=30, max_bias=0.2)
    assert result.worst.bias.estimate == 1.0
    assert (result.limit.verdict, result.limit.max_bias) == ("refuted", 0.2)
    assert elbert.evaluate(lambda o: 0, env=ProbeEnv, episodes=2).limit is None
    with pytest.raises(InvalidInputError, match="max_bias is -1"):
        elbert.evaluate(lambda o: 0, env=ProbeEnv, max_bias=-1)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_recurrent_policy_begins_again_with_every_episode(mode):
    """Episodes of 5 steps in turn: 3 for group 0, 2 for group 1, unless a turn is carried over."""
    env = SyncVectorEnv([lambda: ProbeEnv(horizon=5)] * 2, autoreset_mode=mode)
    result = elbert.evaluate(Recurrent(), env=env, episodes=6)
    assert [group.rate for group in result.worst.groups] == [0.6, 0.4]
    assert result.reward.mean == pytest.approx((3 + 2 * 0.8) / 5)


def test_a_world_by_name_takes_parameters_and_gives_its_names():
    result = elbert.evaluate(lambda o: np.ones(len(o)), env="lending", episodes=3, horizon=20)
    assert (result.env, result.horizon, result.episodes, result.notion) == ("lending", 20, 3, "equal-opportunity")
    assert result.worst.criterion == "true positive rate"
    assert [group.rate for group in result.worst.groups] == [1.0, 1.0], "everybody was accepted"
    again = elbert.evaluate(lambda o: np.ones(len(o)), env="lending", episodes=3, horizon=20)
    assert again == result, "the seed decides about the episodes"


def test_deterministic_is_passed_on_or_refused():
    model = Model()
    elbert.evaluate(model, env=ProbeEnv, episodes=1, deterministic=True)
    elbert.evaluate(model.predict, env=ProbeEnv, episodes=1, deterministic=True)
    assert model.deterministic == {True}
    with pytest.raises(InvalidInputError, match="deterministic has no effect on the policy"):
        elbert.evaluate(lambda o: 0, env=ProbeEnv, episodes=1, deterministic=True)


def test_observations_of_any_space_arrive_as_the_environment_gives_them():
    class Described(gymnasium.ObservationWrapper):
        observation_space = gymnasium.spaces.Dict(
            ahead=gymnasium.spaces.Box(-1, 1, (), np.float64), choice=gymnasium.spaces.Discrete(3)
        )

        def observation(self, observation):
            return {"ahead": np.float64(observation[0]), "choice": 2}

    for policy in (lambda o: (o["ahead"] > 0) & (o["choice"] == 2), lambda o: 1 if o["ahead"] > 0 else 0):
        result = elbert.evaluate(policy, env=lambda: Described(ProbeEnv()), episodes=3)
        assert result.reward.mean == pytest.approx(0.9)


def test_real_numbers_are_clipped_and_must_be_finite():
    class Real(gymnasium.ActionWrapper):
        action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)

        def action(self, action):
            assert np.abs(action).max() <= 1
            return int(action[1] > 0)

    result = elbert.evaluate(lambda o: np.array([-9.0, 9.0]), env=lambda: Real(ProbeEnv()), episodes=2)
    assert result.reward.mean == pytest.approx(0.8)
    with pytest.raises(InvalidInputError, match=r"gave array.* in place of actions of shape"):
        elbert.evaluate(lambda o: np.array([np.nan, 0.0]), env=lambda: Real(ProbeEnv()), episodes=2)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda o: 2, r"Called with one observation: The policy gave 2 in place of actions of shape \(\) in Discrete"),
        (lambda o: 0.5, "gave 0.5 in place of"),
        (lambda o: np.nan, "gave nan in place of"),
        (lambda o: (0, None), r"gave \(0, None\) in place of"),
        (lambda o: "left", "gave 'left' in place of"),
        (lambda o: o.missing, "AttributeError: .*missing.* Called with one observation: AttributeError"),
        (lambda: 0, "TypeError"),
    ],
)
def test_what_gives_no_actions_is_told_what_is_needed(policy, message):
    with pytest.raises(InvalidInputError, match=message):
        elbert.evaluate(policy, env=ProbeEnv, episodes=1)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (3, "The policy is 3, which cannot act. Give an agent"),
        (Model, "which cannot act"),
        ("nowhere", "nothing of this name is there"),
        ([], "holds something else than agents, or nothing"),
        ("lending/no-such-rule", "lending has no rule"),
    ],
)
def test_what_is_no_policy_is_refused(policy, message):
    with pytest.raises(InvalidInputError, match=message):
        elbert.evaluate(policy, env=ProbeEnv)
    with pytest.raises(InvalidInputError, match=r"does not say where it acts\. Give env="):
        elbert.evaluate(lambda o: 0)


def test_a_policy_may_fail_later_with_its_own_error():
    def tires(observations):
        if observations[0, 0] > 0:
            raise ZeroDivisionError("tired")
        return np.zeros(len(observations), int)

    with pytest.raises(ZeroDivisionError, match="tired"):
        elbert.evaluate(tires, env=ProbeEnv, episodes=1)
    with pytest.raises(InvalidInputError, match=r"^The policy gave 7 in place of actions of shape \(\) in Discrete"):
        elbert.evaluate(lambda o: 7 if o[0] > 0 else 0, env=ProbeEnv, episodes=1)


def test_two_choices_are_not_taken_for_an_action_and_a_state():
    class Two(gymnasium.ActionWrapper):
        action_space = gymnasium.spaces.MultiDiscrete([2, 2])

        def action(self, action):
            return int(action[1])

    result = elbert.evaluate(lambda o: (0, 1), env=lambda: Two(ProbeEnv()), episodes=2)
    assert [group.rate for group in result.worst.groups] == [0, 1]


def test_agents_and_rules_by_name(tmp_path):
    rule = elbert.evaluate("lending/thresholds-2-1", episodes=4, horizon=50)
    assert rule.method == "rule:lending/thresholds-2-1"
    assert rule == elbert.evaluate("rule:lending/thresholds-2-1", env="lending", episodes=4, horizon=50)


def test_the_host_and_the_compiled_world_agree():
    """The same random policy in a world of random courses, played by both: each lies within the other's interval."""
    world, rng = Tiny(seed=3, horizon=8), np.random.default_rng(0)
    exact = world.exact(np.full((3, 2), 0.5, np.float32))
    result = ForeignPolicy(lambda o: rng.integers(0, 2, len(o))).evaluate(2000, env=world)
    rates = np.asarray(exact[1] / exact[2])[0]
    for group, rate in zip(result.worst.groups, rates, strict=True):
        assert abs(group.rate - rate) < 2 * (group.high - group.low)
    assert abs(result.reward.mean - exact[0] / 8) < 2 * (result.reward.high - result.reward.low)


def test_a_gymnasium_id_that_lacks_something_is_answered_first():
    with pytest.raises(InvalidInputError, match=r"CartPole-v1 cannot be used as it is. info has no \"supply\""):
        elbert.train("CartPole-v1")
    with pytest.raises(InvalidInputError, match=r"^info has no \"supply\""):
        elbert.train(gymnasium.make("CartPole-v1"))
    with pytest.raises(InvalidInputError, match=r"Did you mean 'CartPole-v1'\? Worlds: lending"):
        elbert.train("CartPole")
    with pytest.raises(InvalidInputError, match="Gymnasium knows no environment 'CartPole-v99'"):
        elbert.evaluate(Model(), env="CartPole-v99")
    with pytest.raises(InvalidInputError, match="No module named 'no_such_module'"):
        elbert.check_env("no_such_module:Thing-v0")
    assert elbert.check_env("tests/Probe-v0").groups == 2


def test_stable_baselines3_in_both_directions():
    library = pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.evaluation import evaluate_policy

    env = gymnasium.make("elbert/Lending-v0", horizon=50)
    model = library.PPO("MlpPolicy", env, n_steps=64, batch_size=64, n_epochs=1, device="cpu", seed=0).learn(64)
    result = elbert.evaluate(model, env="lending", episodes=8, horizon=50, max_bias=0.5, deterministic=True)
    assert (result.method, result.episodes, result.limit.max_bias) == ("PPO", 8, 0.5)
    tiny = {"copies": 4, "rollout": 50, "minibatch": 50, "hidden": [4], "epochs": 1, "steps": 200}
    agent = elbert.train("lending", method="g-ppo", world={"horizon": 50}, **tiny)
    mean, _ = evaluate_policy(agent, env, n_eval_episodes=2, warn=False)
    assert -50 <= mean <= 50
