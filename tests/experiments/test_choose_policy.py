"""The final policy under a limit: candidates on disk, damaged, interrupted, and with several criteria."""

import logging
import os
import signal
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

import elbert
from elbert.experiments import choose_policy
from elbert.experiments.choose_policy import Candidates, Judged, mixed
from elbert.experiments.evaluate import Conditions, evaluate_policy
from elbert.experiments.results import VERDICTS
from elbert.experiments.run_folder import RunFolder
from elbert.experiments.run_session import InterruptedRunError
from elbert.fairness.bias_inference import BiasTest
from elbert.learning import Agent
from elbert.learning.result import Mean
from elbert.learning.simulators import Episodes
from elbert.progress import Progress
from tests.experiments.small_runs import same_policy
from tests.learning.tiny import Probe, ProbeEnv, trainer_of

SHORT: dict[str, Any] = {"copies": 16, "rollout": 32, "minibatch": 128, "hidden": [8], "steps": 16 * 32 * 10}


@pytest.fixture(scope="module")
def agent():
    return elbert.train(Probe(), max_bias=0.1, **SHORT)


@pytest.fixture(scope="module")
def untrained():
    return trainer_of(Probe(), max_bias=0.1, **SHORT).agents()[0]


@pytest.mark.slow
def test_candidates_are_the_last_policies_and_survive_on_disk(agent, tmp_path, caplog, monkeypatch):
    trainer = trainer_of(Probe(), max_bias=0.1, **SHORT)
    assert Candidates(trainer, None).iterations == [7, 8, 9, 10]
    found = elbert.train(Probe(), max_bias=0.1, out=tmp_path, **SHORT)
    assert same_policy(found, agent), "in a folder or in memory"
    paths = sorted((tmp_path / "candidates").iterdir())
    assert len(paths) == 4
    stored = RunFolder(tmp_path).agents()[0]
    assert same_policy(stored, agent)
    judged = []
    with monkeypatch.context() as patch:
        patch.setattr(Judged, "play_until", lambda one, *how: judged.append(one))
        again = elbert.train(Probe(), max_bias=0.1, out=tmp_path, resume=True, **SHORT)
        assert same_policy(again, agent), "what is finished is not chosen again"
        assert again.evaluate(4).episodes == 4, "and knows its environment"
        assert not judged
    RunFolder(tmp_path).note(status="interrupted")
    again = elbert.train(Probe(), max_bias=0.1, out=tmp_path, resume=True, **SHORT)
    assert same_policy(again, agent), "chosen anew from the files"
    head = (tmp_path / "metrics.csv").read_text().splitlines()[0]
    assert {"mu", "limited_bias"} <= set(head.split(","))
    paths[0].write_bytes(paths[0].read_bytes()[:100])
    RunFolder(tmp_path).note(status="interrupted")
    with caplog.at_level(logging.WARNING, logger="elbert"):
        other = elbert.train(Probe(), max_bias=0.1, out=tmp_path, resume=True, **SHORT)
    assert paths[0].name in caplog.text
    assert "chosen without it" in caplog.text
    assert other.about.steps > 0


@pytest.mark.slow
def test_a_signal_among_candidates_is_heard_and_nothing_is_lost(agent, tmp_path, monkeypatch):
    play, seen = Judged.play_until, []

    def interrupted(one, *how):
        seen.append(one)
        os.kill(os.getpid(), signal.SIGINT)
        return play(one, *how)

    with monkeypatch.context() as patch:
        patch.setattr(Judged, "play_until", interrupted)
        with pytest.raises(
            InterruptedRunError, match="Stopped by SIGINT after iteration 10 of 10, before its policy was chosen"
        ):
            elbert.train(Probe(), max_bias=0.1, out=tmp_path, **SHORT)
    assert len(seen) == 1
    run = RunFolder(tmp_path)
    assert run.manifest["status"] == "interrupted"
    evaluate_policy(run, Conditions(env=Probe(), episodes=4), keep=True)
    assert run.evaluation() is not None
    told: list[Progress] = []
    elbert.train(Probe(), max_bias=0.1, out=tmp_path, resume=True, progress=told.append, **SHORT)
    assert {(each.activity, each.unit) for each in told} == {("choosing the policy", "episodes")}, (
        "no iteration is left"
    )
    assert [each.done for each in told] == sorted(each.done for each in told)
    assert told[-1].done == told[-1].total
    assert run.manifest["status"] == "finished"
    assert run.evaluation() is None, "it was of the policy before the choice"


@pytest.mark.slow
@pytest.mark.parametrize("at", [5, 9, 10])
def test_a_stopped_run_goes_on_to_the_same_choice(agent, at, tmp_path):
    def interrupt(progress):
        if progress.iteration == at:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(InterruptedRunError, match=f"Stopped by SIGTERM after iteration {at} of 10"):
        elbert.train(Probe(), max_bias=0.1, out=tmp_path, callbacks=[interrupt], **SHORT)
    again = elbert.train(Probe(), max_bias=0.1, out=tmp_path, resume=True, **SHORT)
    assert same_policy(again, agent)


def test_a_signal_during_the_last_judgement_ends_the_command(tmp_path, monkeypatch):
    play, asked = Judged.play_until, []

    def interrupted(one, *how):
        play(one, *how)
        one.result = replace(one.result, limit=BiasTest(max_bias=0.1, verdict="confirmed" if not asked else "refuted"))
        asked.append(one)
        if len(asked) == 4:  # of four candidates, the others are out after the first round
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Candidates, "_between", lambda candidates, everyone, first: [])
    monkeypatch.setattr(Judged, "play_until", interrupted)
    with pytest.raises(InterruptedRunError, match="Stopped after the training had ended"):
        elbert.train(Probe(), max_bias=0.1, out=tmp_path, **SHORT)
    assert RunFolder(tmp_path).manifest["status"] == "finished"


def test_a_training_that_a_callback_ends_is_judged_by_its_last_policy():
    agent = elbert.train(Probe(), max_bias=0.1, callbacks=[lambda progress: progress.iteration < 4], **SHORT)
    assert agent.about.steps == 4 * 16 * 32


@pytest.mark.slow
def test_a_limit_that_was_never_felt_is_said(caplog):
    host = {"rollout": 8, "minibatch": 32, "hidden": [4], "copies": 4, "steps": 4 * 8 * 2, "epochs": 1}
    with caplog.at_level(logging.WARNING, logger="elbert"):
        elbert.train(lambda: ProbeEnv(horizon=40), max_bias=0.1, **host)
    assert "max_bias had no effect. Give more steps or fewer copies" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="elbert"):
        elbert.train(lambda: ProbeEnv(horizon=4), max_bias=0.1, **host)
    assert not caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("at", [None, 15, 16])
def test_judging_a_users_environment_takes_fewer_steps_than_training(at, tmp_path, monkeypatch):
    asked, play = [], Agent.played

    def counted(one, episodes, **how):
        asked.append(episodes)
        return play(one, episodes, **how)

    def interrupt(progress):
        if progress.iteration == at:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Agent, "played", counted)
    host = {"rollout": 160, "minibatch": 640, "hidden": [4], "copies": 4, "steps": 4 * 160 * 16, "epochs": 1}
    if at is not None:
        with pytest.raises(InterruptedRunError):
            elbert.train(lambda: ProbeEnv(horizon=4), max_bias=0.1, out=tmp_path / "run", callbacks=[interrupt], **host)
        assert not asked
    elbert.train(lambda: ProbeEnv(horizon=4), max_bias=0.1, out=tmp_path / "run", resume=True, **host)
    # 0.3 of 10 240 steps are 768 episodes of 4 steps, of which the first round of 6 policies takes a quarter
    assert asked[:6] == [32] * 6
    assert sum(asked) <= 768


def judged_as(agent, verdict, reward, bias, *, p_confirm=0.5, around=0.01, episodes=1000):
    """A candidate of which this is known."""
    candidate = Judged(agent)
    candidate.play_until(1, 10, None)
    part = candidate.result.criteria[0]
    candidate.result = replace(
        candidate.result,
        episodes=episodes,
        reward=Mean(reward, (reward - around, reward + around)),
        criteria=(replace(part, bias=replace(part.bias, estimate=bias)),),
        limit=BiasTest(max_bias=0.1, verdict=verdict, p_confirm=p_confirm),
    )
    return candidate


def test_the_most_reward_among_confirmed_ones_else_the_smallest_bias(untrained):
    confirmed = [judged_as(untrained, "confirmed", reward, 0.05) for reward in (0.5, 0.6)]
    doubtful = [judged_as(untrained, "not refuted", 0.9, bias) for bias in (0.09, 0.08)]
    refuted = judged_as(untrained, "refuted", 1.0, 0.01)
    assert min([refuted, *doubtful, *confirmed], key=Judged.rank) is confirmed[1]
    assert min([refuted, *doubtful], key=Judged.rank) is doubtful[1]


def test_what_the_usual_evaluation_would_confirm_comes_first(untrained):
    """3 deviations in 4 times the usual episodes are 1.5 in an evaluation, 6 are 3."""
    barely = judged_as(untrained, "confirmed", 0.9, 0.05, p_confirm=0.00135, episodes=400)
    safely = judged_as(untrained, "confirmed", 0.8, 0.02, p_confirm=1e-9, episodes=400)
    assert min([barely, safely], key=Judged.rank) is barely
    assert min([barely, safely], key=lambda each: each.rank(usual=100)) is safely


def test_only_those_are_judged_again_that_can_still_be_first(untrained):
    first = judged_as(untrained, "confirmed", 0.5, 0.05)
    better, worse = (judged_as(untrained, "not refuted", reward, 0.09) for reward in (0.55, 0.4))
    refuted = judged_as(untrained, "refuted", 0.9, 0.3)
    assert [each.is_behind(first) for each in (better, worse, refuted)] == [False, True, True]
    assert [each.is_behind(better) for each in (first, worse, refuted)] == [False, False, True]


def after(agent, steps):
    return replace(agent, about=replace(agent.about, steps=steps))


def test_a_policy_between_two_lies_on_the_line_through_them(untrained):
    other = after(untrained, 100)
    other = replace(other, policy=jax.tree.map(lambda x: x + 1.0, other.policy))
    for part, seen in ((0.25, 0.25), (-0.5, 0.0), (2.0, 1.0)):
        between = mixed(untrained, other, part)
        assert between.about.steps == 100
        for name, moved in (("weights", part), ("moments", seen)):
            here, there = (jax.tree.leaves(getattr(each.policy, name)) for each in (untrained, between))
            assert all(np.allclose(y - x, moved, atol=1e-6) for x, y in zip(here, there, strict=True)), name


def known(untrained, reward, rates):
    """A candidate that has played 1000 episodes in which every step gave as much."""
    candidate = judged_as(untrained, "not refuted", reward, 0.0)
    part = candidate.result.criteria[0]
    bias = replace(part.bias, debiased=abs(rates[0] - rates[1]), ci=(0.0, abs(rates[0] - rates[1]) + 0.001))
    candidate.result = replace(candidate.result, criteria=(replace(part, bias=bias),))
    sums = np.tile(np.array([rates]), (10, 1, 1)) * 4.0
    candidate._sums = [Episodes(np.full(10, 4.0 * reward), np.full(10, 4.0), sums, np.full((10, 1, 2), 4.0))]
    return candidate


def test_the_policy_on_a_line_that_promises_most_within_the_limit_joins(untrained, monkeypatch):
    made = []
    monkeypatch.setattr(choose_policy, "mixed", lambda one, other, part: made.append((one, other, part)) or one)
    trainer = trainer_of(Probe(), max_bias=0.1, **SHORT)
    candidates = Candidates(trainer, None)
    inside = known(after(untrained, 1), 0.4, (0.5, 0.45))
    beyond = known(after(untrained, 2), 0.6, (0.5, 0.25))
    assert len(candidates._between([inside, beyond], inside)) == 1
    one, other, part = made.pop()
    assert (one.about.steps, other.about.steps) == (1, 2)
    assert 0.2 <= part <= 0.25, "at a bias of just less than 0.1"
    also_beyond = known(after(untrained, 3), 0.5, (0.5, 0.35))
    candidates._between([beyond, also_beyond], beyond)
    assert 1.5 < made.pop()[2] < 1.6, "where all are beyond the limit, further on"
    same = known(after(untrained, 4), 0.4, (0.5, 0.45))
    same.result = replace(same.result, limit=BiasTest(max_bias=0.1, verdict="confirmed"))
    assert not candidates._between([same], same), "one alone makes no line"
    assert not candidates._between([same, same], same), "nothing to be gained"


@pytest.mark.slow
def test_every_criterion_has_columns_and_a_verdict(tmp_path):
    small = {"copies": 4, "rollout": 60, "minibatch": 60, "hidden": [4], "steps": 4 * 60 * 4}
    world = {"notion": "equalized-odds", "horizon": 60}
    agent = elbert.train("lending", max_bias=0.1, world=world, out=tmp_path, **small)
    head = (tmp_path / "metrics.csv").read_text().splitlines()[0].split(",")
    assert {"mu_0", "mu_1", "limited_bias_0", "limited_bias_1"} <= set(head)
    found = agent.evaluate(20)
    assert len(found.criteria) == 2
    assert found.limit is not None
    assert found.limit.max_bias == 0.1
    assert found.limit.verdict in VERDICTS
