"""Ready-made callbacks: what they are told, when they act, and that training does not notice them."""
# pyright: reportArgumentType=false, reportCallIssue=false

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import elbert
from elbert.callbacks import Evaluated, EvaluateEvery, LogTo, StopWhenConfirmed
from elbert.errors import InvalidInputError
from elbert.exact.rules import get_rule
from elbert.fairness.bias_inference import BiasTest
from elbert.learning import Member, Metrics
from elbert.learning.result import Mean
from tests.experiments.small_runs import TINY, WORLD, same_policy
from tests.learning.tiny import Probe, ProbeEnv

SMALL: dict[str, Any] = {"copies": 4, "rollout": 16, "minibatch": 64, "hidden": [4], "epochs": 1, "steps": 4 * 16 * 5}


@pytest.mark.slow
def test_logged_numbers_are_those_of_the_history():
    logged = []
    log = LogTo(lambda values, step: logged.append((step, values)), every=2)
    agent = elbert.train(Probe(), alpha=1.0, callbacks=[log], **SMALL)
    history = agent.history
    assert [step for step, _ in logged] == [128, 256, 320], "every second iteration, and the last"
    for step, values in logged:
        place = history["steps"].index(step)
        assert all(type(value) in (float, int) for value in values.values())
        for name in ("reward", "bias", "rate_1", "kl"):
            assert values[name] == history[name][place]


@pytest.mark.slow
def test_members_are_told_apart():
    logged = []
    elbert.train_many("lending", seeds=[5, 7], world=WORLD, callbacks=[LogTo(lambda v, step: logged.append(v))], **TINY)
    assert {name.partition("/")[0] for name in logged[0]} == {"seed-5-0", "seed-7-1"}
    assert logged[0]["seed-5-0/reward"] != logged[0]["seed-7-1/reward"]


@pytest.mark.slow
@pytest.mark.parametrize("env", [Probe(), ProbeEnv], ids=["compiled", "on the host"])
def test_evaluating_on_the_way_changes_nothing_in_the_training(env):
    """Red if an evaluation uses up the training's randomness or its episodes."""
    every = EvaluateEvery(2, episodes=4)
    watched = elbert.train(env, method="g-ppo", callbacks=[every], **SMALL)
    assert same_policy(watched, elbert.train(env, method="g-ppo", **SMALL))
    assert [each.iteration for each in every.evaluations] == [2, 4, 5]
    frame = every.history
    assert frame["steps"] == (128, 256, 320)
    assert frame["reward"] == tuple(each.result.reward.mean for each in every.evaluations)
    assert frame["bias"][0] == every.evaluations[0].result.worst.bias.estimate


@pytest.mark.slow
def test_the_only_copy_of_an_environment_starts_new_episodes_after_an_evaluation():
    """Red if training takes the rest of an evaluation's episode for its own: it would meet a step after the end."""
    env = ProbeEnv(horizon=7)
    settings = SMALL | {"copies": 1, "minibatch": 16, "steps": 16 * 4}
    agent = elbert.train(env, method="g-ppo", callbacks=[EvaluateEvery(1, episodes=2)], **settings)
    assert agent.history["episodes"] == (2, 2, 2, 2), "two whole episodes of 7 in each rollout of 16"


@pytest.mark.slow
def test_what_is_done_then_may_stop_the_training():
    seen = []
    stop = EvaluateEvery(1, lambda latest: seen.append(latest) or len(seen) < 2, episodes=2)
    agent = elbert.train(Probe(), method="g-ppo", callbacks=[stop], **SMALL)
    assert (len(seen), len(agent.history)) == (2, 2)


@cache
def some_result():
    return elbert.evaluate(get_rule("rule:lending/thresholds-2-1"), episodes=2, horizon=5)


def evaluated(verdict, reward):
    limit = BiasTest(max_bias=0.1, verdict=verdict)
    return [Evaluated(1, 1, 0, replace(some_result(), limit=limit, reward=Mean(reward, None), report=None))]


def test_it_stops_when_the_limit_is_confirmed_and_nothing_improves():
    stop = StopWhenConfirmed(patience=2, least=0.1)
    told = [("refuted", 9.0), ("confirmed", 1.0), ("confirmed", 2.0), ("confirmed", 2.05), ("undetermined", 3.0)]
    assert all(stop._decide(evaluated(*each)) for each in told), "too early, or not confirmed"
    assert not stop._decide(evaluated("confirmed", 1.5))
    assert stop._decide(evaluated("confirmed", 2.2)), "better than every confirmed one: it goes on"
    one, other = evaluated("confirmed", 0.0), evaluated("refuted", 0.0)
    assert all(stop._decide([*one, *other]) for _ in range(9)), "one member of two is not confirmed"


def test_it_stops_a_training_by_a_limit_that_is_given_here():
    """A limit of 1 holds for every policy of two rates in [0, 1]; nothing is better by a reward of 9."""
    stop = StopWhenConfirmed(1.0, every=1, patience=2, least=9.0, episodes=40)
    agent = elbert.train(Probe(), method="g-ppo", callbacks=[stop], **SMALL)
    assert len(agent.history) == 3, "the first is better than nothing, then two are no better"


def test_a_limit_that_nobody_gave_is_asked_for():
    with pytest.raises(InvalidInputError, match="give max_bias, here or to train"):
        elbert.train(Probe(), method="g-ppo", callbacks=[StopWhenConfirmed(every=1, episodes=2)], **SMALL)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LogTo("wandb"), "log is 'wandb'. Give a function"),
        (lambda: LogTo(print, every=0), "every is 0"),
        (lambda: EvaluateEvery(1.5), "iterations is 1.5"),
        (lambda: StopWhenConfirmed(-1), "max_bias is -1"),
        (lambda: StopWhenConfirmed(0.1, patience=0), "patience is 0"),
    ],
)
def test_arguments_without_sense_are_refused(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


def test_a_rate_that_is_not_known_is_not_logged():
    fields = dict.fromkeys(Metrics._fields, np.zeros(1))
    table = np.array([[[0.5, np.nan]]])
    metrics = Metrics(**fields | {"rates": table, "supply": table, "demand": table, "method": {}})
    logged = []
    iteration = SimpleNamespace(
        iteration=1,
        iterations=1,
        steps=9,
        seconds=1.0,
        metrics=metrics,
        trainer=SimpleNamespace(members=[Member(0, {})]),
    )
    LogTo(lambda values, step: logged.append(values))(iteration)
    assert logged[0]["rate_0"] == 0.5
    assert "rate_1" not in logged[0]
