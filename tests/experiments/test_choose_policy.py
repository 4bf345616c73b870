"""The final policy under a limit: candidates on disk, damaged, interrupted, and with several criteria."""

import logging
import os
import signal
from typing import Any

import pytest

import elbert
from elbert.experiments import choose_policy
from elbert.experiments.choose_policy import Candidates
from elbert.experiments.evaluate import Conditions, evaluate_policy
from elbert.experiments.results import VERDICTS
from elbert.experiments.run_folder import RunFolder
from elbert.experiments.run_session import InterruptedRunError
from elbert.progress import Progress
from tests.experiments.small_runs import same_policy
from tests.learning.tiny import Probe, ProbeEnv, trainer_of

SHORT: dict[str, Any] = {"copies": 16, "rollout": 32, "minibatch": 128, "hidden": [8], "steps": 16 * 32 * 10}


@pytest.fixture(scope="module")
def agent():
    return elbert.train(Probe(), max_bias=0.1, **SHORT)


@pytest.mark.slow
def test_candidates_are_the_last_policies_and_survive_on_disk(agent, tmp_path, caplog, monkeypatch):
    trainer = trainer_of(Probe(), max_bias=0.1, **SHORT)
    assert Candidates(trainer, None).iterations == [8, 9, 10]
    found = elbert.train(Probe(), max_bias=0.1, out=tmp_path, **SHORT)
    assert same_policy(found, agent), "in a folder or in memory"
    paths = sorted((tmp_path / "candidates").iterdir())
    assert len(paths) == 3
    stored = RunFolder(tmp_path).agents()[0]
    assert same_policy(stored, agent)
    assert stored.about.price is not None
    assert stored.about.price > 0
    judged = []
    with monkeypatch.context() as patch:
        patch.setattr(choose_policy, "_best", lambda found: judged.append(len(found)) or found[0][0])
        again = elbert.train(Probe(), max_bias=0.1, out=tmp_path, resume=True, **SHORT)
        assert same_policy(again, agent), "what is finished is not chosen again"
        assert again.evaluate(4).episodes == 4, "and knows its environment"
        assert not judged
    RunFolder(tmp_path).note(status="interrupted")
    again = elbert.train(Probe(), max_bias=0.1, out=tmp_path, resume=True, **SHORT)
    assert same_policy(again, agent), "chosen anew from the files"
    head = (tmp_path / "metrics.csv").read_text().splitlines()[0]
    assert {"mu", "price", "limited_bias"} <= set(head.split(","))
    kept = [elbert.load(path) for path in paths]
    assert sum(same_policy(one, agent) for one in kept) == 1
    chosen = next(path for path, one in zip(paths, kept, strict=True) if same_policy(one, agent))
    chosen.write_bytes(chosen.read_bytes()[:100])
    RunFolder(tmp_path).note(status="interrupted")
    with caplog.at_level(logging.WARNING, logger="elbert"):
        other = elbert.train(Probe(), max_bias=0.1, out=tmp_path, resume=True, **SHORT)
    assert chosen.name in caplog.text
    assert "chosen without it" in caplog.text
    assert any(same_policy(other, one) for one in kept)
    assert not same_policy(other, agent)


def test_a_signal_among_candidates_is_heard_and_nothing_is_lost(agent, tmp_path, monkeypatch):
    evaluate, seen = choose_policy.evaluate, []

    def interrupted(one, **how):
        seen.append(one)
        os.kill(os.getpid(), signal.SIGINT)
        return evaluate(one, **how)

    with monkeypatch.context() as patch:
        patch.setattr(choose_policy, "evaluate", interrupted)
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
    with monkeypatch.context() as patch:
        patch.setattr(choose_policy, "_best", lambda found: found[0][0])
        first = elbert.train(Probe(), max_bias=0.1, out=tmp_path, resume=True, progress=told.append, **SHORT)
    assert told == [Progress(activity="choosing the policy", done=i, total=3, unit="policies") for i in range(4)], (
        "no iteration is left"
    )
    assert first.about.steps == 16 * 32 * 8
    assert run.manifest["status"] == "finished"
    assert run.evaluation() is None, "it was of the policy before the choice"


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
    evaluate = choose_policy.evaluate

    def interrupted(one, **how):
        if one.about.steps == SHORT["steps"]:
            os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(one, **how)

    monkeypatch.setattr(choose_policy, "evaluate", interrupted)
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
@pytest.mark.parametrize("at", [None, 3, 4])
def test_judging_a_users_environment_takes_no_more_steps_than_training(at, tmp_path, monkeypatch):
    asked, evaluate = [], choose_policy.evaluate

    def counted(one, *, episodes, **how):
        asked.append(episodes)
        return evaluate(one, episodes=episodes, **how)

    def interrupt(progress):
        if progress.iteration == at:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(choose_policy, "evaluate", counted)
    host = {"rollout": 32, "minibatch": 64, "hidden": [4], "copies": 4, "steps": 4 * 32 * 4, "epochs": 1}
    if at is not None:
        with pytest.raises(InterruptedRunError):
            elbert.train(
                lambda: ProbeEnv(horizon=16), max_bias=0.1, out=tmp_path / "run", callbacks=[interrupt], **host
            )
        assert not asked
    elbert.train(lambda: ProbeEnv(horizon=16), max_bias=0.1, out=tmp_path / "run", resume=True, **host)
    assert asked == [16, 16], "512 steps for 2 policies are 16 episodes of 16 steps each"


@pytest.mark.slow
def test_every_criterion_has_columns_and_a_verdict(tmp_path):
    small = {"copies": 4, "rollout": 60, "minibatch": 60, "hidden": [4], "steps": 4 * 60 * 4}
    world = {"notion": "equalized-odds", "horizon": 60}
    agent = elbert.train("lending", max_bias=0.1, world=world, out=tmp_path, **small)
    head = (tmp_path / "metrics.csv").read_text().splitlines()[0].split(",")
    assert {"mu_0", "mu_1", "price_0", "price_1", "limited_bias_0", "limited_bias_1"} <= set(head)
    found = agent.evaluate(20)
    assert len(found.criteria) == 2
    assert found.limit is not None
    assert found.limit.max_bias == 0.1
    assert found.limit.verdict in VERDICTS
