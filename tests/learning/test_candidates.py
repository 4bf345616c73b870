"""The final policy under a limit: candidates on disk, damaged, interrupted, and with several criteria."""

import logging
import os
import signal
from typing import Any

import jax
import numpy as np
import pytest
from tests.learning.tiny import Probe

import elbert
from elbert.experiments import limits
from elbert.experiments.evaluations import evaluate_run
from elbert.experiments.limits import Candidates
from elbert.experiments.runs import RunFolder
from elbert.experiments.training import InterruptedRunError
from elbert.learning import Settings, Trainer, WorldProblem

SHORT: dict[str, Any] = {"copies": 16, "rollout": 32, "minibatch": 128, "hidden": [8], "steps": 16 * 32 * 10}


def same_policy(one, other):
    pairs = zip(jax.tree.leaves(one.weights), jax.tree.leaves(other.weights), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


@pytest.fixture(scope="module")
def agent():
    return elbert.train(Probe(), max_bias=0.1, **SHORT)


def test_candidates_are_the_last_policies_and_survive_on_disk(agent, tmp_path, caplog):
    trainer = Trainer(WorldProblem(Probe(), "Probe"), Settings.of(SHORT | {"max_bias": 0.1}))
    assert Candidates(trainer, None, None).iterations == [8, 9, 10]
    found = elbert.train(Probe(), max_bias=0.1, out=tmp_path, **SHORT)
    assert same_policy(found, agent), "in a folder or in memory"
    paths = sorted((tmp_path / "candidates").iterdir())
    assert len(paths) == 3
    stored = RunFolder(tmp_path).agents()[0]
    assert same_policy(stored, agent)
    assert stored.about.price is not None
    assert stored.about.price > 0
    again = elbert.train(Probe(), max_bias=0.1, out=tmp_path, resume=True, **SHORT)
    assert same_policy(again, agent), "chosen anew from the files"
    head = (tmp_path / "metrics.csv").read_text().splitlines()[0]
    assert {"mu", "price", "limited_bias"} <= set(head.split(","))
    kept = [elbert.load(path) for path in paths]
    assert sum(same_policy(one, agent) for one in kept) == 1
    chosen = next(path for path, one in zip(paths, kept, strict=True) if same_policy(one, agent))
    chosen.write_bytes(chosen.read_bytes()[:100])
    with caplog.at_level(logging.WARNING, logger="elbert"):
        other = elbert.train(Probe(), max_bias=0.1, out=tmp_path, resume=True, **SHORT)
    assert chosen.name in caplog.text
    assert "chosen without it" in caplog.text
    assert any(same_policy(other, one) for one in kept)
    assert not same_policy(other, agent)


def test_a_signal_among_candidates_is_heard_and_nothing_is_lost(agent, tmp_path, monkeypatch):
    evaluate, seen = limits.evaluate, []

    def interrupted(one, **how):
        seen.append(one)
        os.kill(os.getpid(), signal.SIGINT)
        return evaluate(one, **how)

    with monkeypatch.context() as patch:
        patch.setattr(limits, "evaluate", interrupted)
        with pytest.raises(InterruptedRunError, match="Stopped after iteration 10 of 10"):
            elbert.train(Probe(), max_bias=0.1, out=tmp_path, **SHORT)
    assert len(seen) == 1
    run = RunFolder(tmp_path)
    assert run.manifest["status"] == "interrupted"
    evaluate_run(tmp_path, env=Probe(), episodes=4)
    assert run.evaluation() is not None
    told: list[str] = []

    class Listener:
        def __call__(self, progress):
            told.append("iteration")

        def tell(self, text):
            told.append(text)

    again = elbert.train(Probe(), max_bias=0.1, out=tmp_path, resume=True, callbacks=[Listener()], **SHORT)
    assert told == [f"judging the last policies, {i} of 3" for i in (1, 2, 3)]
    assert same_policy(again, agent)
    assert run.manifest["status"] == "finished"
    assert run.evaluation() is None, "it was of the policy before the choice"


def test_every_criterion_has_columns_and_a_verdict(tmp_path):
    small = {"copies": 4, "rollout": 60, "minibatch": 60, "hidden": [4], "steps": 4 * 60 * 4}
    world = {"notion": "equalized-odds", "horizon": 60}
    agent = elbert.train("lending", max_bias=0.1, world=world, out=tmp_path, **small)
    head = (tmp_path / "metrics.csv").read_text().splitlines()[0].split(",")
    assert {"mu_0", "mu_1", "price_0", "price_1", "limited_bias_0", "limited_bias_1"} <= set(head)
    found = agent.evaluate(20)
    assert found.limit is not None
    assert found.limit.verdict == found.report.test(0.1).verdict
