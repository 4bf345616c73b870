"""A training that is stopped, killed, without room or diverging goes on, or says why it cannot."""
# pyright: reportArgumentType=false, reportCallIssue=false, reportOptionalOperand=false, reportOperatorIssue=false

import os
import re
import shutil
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import elbert
from elbert.errors import InvalidInputError
from elbert.experiments import run_session
from elbert.experiments.run_folder import RunFolder, summarise
from elbert.experiments.run_session import InterruptedRunError
from elbert.files import FileError
from elbert.learning import DivergedError
from elbert.progress import Progress
from tests.command_line import ENVIRONMENT, cli
from tests.experiments.small_runs import OPTIONS, TINY, WORLD, StopError, same, same_policy, stop_after, without_time
from tests.learning.tiny import Probe, ProbeEnv


def test_a_stopped_run_goes_on_to_the_same_bits(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(run_session, "CHECKPOINT_SECONDS", 0.0)
    out = tmp_path / "stopped"
    arguments: dict[str, Any] = {"seeds": 2, "world": WORLD, "out": out, **TINY}
    with pytest.raises(StopError):
        elbert.train_many("lending", callbacks=[stop_after(5)], **arguments)
    assert summarise(out).iteration == 4
    with pytest.raises(InvalidInputError, match="is not empty"):
        elbert.train_many("lending", **arguments)
    with pytest.raises(InvalidInputError, match=r"has epochs = 1, but 2 is asked for now"):
        elbert.train_many("lending", resume=True, **(arguments | {"epochs": 2}))
    agents = elbert.train_many("lending", resume=True, **arguments)
    assert same(whole, out)
    assert without_time(whole) == without_time(out)
    again = elbert.train_many("lending", resume=True, **arguments)
    for one, other in zip(agents, again, strict=True):
        assert np.array_equal(one.weights.actor.layers[0].weight, other.weights.actor.layers[0].weight)


KILL_AFTER_THREE = """
import os, signal, sys
from elbert import cli
from elbert.experiments import run_session

checkpoint = run_session.RunFolder.checkpoint

def killed(run, trainer, *rest, **more):
    checkpoint(run, trainer, *rest, **more)
    if trainer.iteration == 3:
        os.kill(os.getpid(), signal.SIGKILL)

run_session.CHECKPOINT_SECONDS = 0.0
run_session.RunFolder.checkpoint = killed
cli.app(sys.argv[1:])
"""


@pytest.mark.slow
def test_kill_and_resume_from_the_command_line(whole, tmp_path):
    out = tmp_path / "killed"
    arguments = ["train", "lending", "--seeds", "2", "--steps", str(TINY["steps"]), *OPTIONS, "--out", str(out)]
    killed = subprocess.run(
        [sys.executable, "-c", KILL_AFTER_THREE, *arguments], capture_output=True, env=ENVIRONMENT, timeout=300
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    seen = summarise(out)
    assert (seen.status, seen.iteration) == ("killed", 3)
    done = cli(*arguments, "--resume", "--no-evaluate")
    assert done.returncode == 0, done.stderr
    assert same(whole, out)


@pytest.mark.slow
def test_a_process_that_ends_at_any_file_operation_of_the_last_part_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    """The folder is copied before every change of a name in it: what a process leaves that ends there.

    Red if a manifest says "finished" before its agents are there, if what was begun aside counts, or if rows of the
    metrics are there twice.
    """
    monkeypatch.setattr(run_session, "CHECKPOINT_SECONDS", 0.0)
    small: dict[str, Any] = {"max_bias": 0.1, "copies": 4, "rollout": 16, "minibatch": 64, "hidden": [4], "epochs": 1}
    small["steps"] = 4 * 16 * 3
    out, copies = tmp_path / "run", []

    def copied_before(name):
        real = getattr(os, name)

        def wrapped(path, *more, **how):
            if str(path).startswith(str(out)) and (out / "candidates" / "00000003-0.safetensors").exists():
                copies.append(shutil.copytree(out, tmp_path / f"ended-{len(copies)}"))
            return real(path, *more, **how)

        return wrapped

    with monkeypatch.context() as patch:
        for name in ("replace", "unlink"):
            patch.setattr(os, name, copied_before(name))
        agent = elbert.train(Probe(), out=out, **small)
    assert len(copies) >= 8, "two checkpoints of state, agent and manifest, and states that are removed"
    for path in copies:
        again = elbert.train(Probe(), out=path, resume=True, **small)
        assert same(out, path), path
        assert same_policy(again, agent)
        assert same_policy(elbert.load(path), agent)
        assert without_time(path) == without_time(out)
        assert RunFolder(path).manifest["status"] == "finished"
        assert {entry.name for entry in path.rglob(".*")} <= {".lock"}


def test_rows_that_a_killed_writer_left_are_not_written_twice(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(run_session, "CHECKPOINT_SECONDS", 0.0)
    out = tmp_path / "torn"
    arguments: dict[str, Any] = {"seeds": 2, "world": WORLD, "out": out, **TINY}
    with pytest.raises(StopError):
        elbert.train_many("lending", callbacks=[stop_after(4)], **arguments)
    lines = (whole / "metrics.csv").read_text().splitlines(keepends=True)
    (out / "metrics.csv").write_text("".join(lines[:10]) + lines[10][:30])  # a row after the checkpoint, and a part
    elbert.train_many("lending", resume=True, **arguments)
    assert same(whole, out)
    assert without_time(out) == without_time(whole)


def test_a_training_that_a_callback_stops_says_so_and_can_go_on(whole, tmp_path):
    out = tmp_path / "stopped"
    arguments: dict[str, Any] = {"seeds": 2, "world": WORLD, "out": out, **TINY}
    elbert.train_many("lending", callbacks=[lambda iteration: iteration.iteration < 3], **arguments)
    seen = summarise(out)
    assert (seen.status, seen.iteration, seen.iterations) == ("stopped", 3, 12)
    assert seen.reason == "a callback stopped it after iteration 3 of 12"
    elbert.train_many("lending", resume=True, callbacks=[lambda iteration: iteration.iteration < 12], **arguments)
    assert same(whole, out)
    seen = summarise(out)
    assert (seen.status, seen.reason) == ("finished", ""), "stopping after the last iteration stops nothing"


@pytest.mark.slow
def test_progress_is_told_after_every_iteration():
    told: list[Progress] = []
    elbert.train("lending", world=WORLD, progress=told.append, **(TINY | {"steps": 4 * 64 * 3}))
    assert [(each.activity, each.done, each.total, each.unit) for each in told] == [
        ("training", i, 3, "iterations") for i in (1, 2, 3)
    ]
    assert all(re.match(r"reward -?\d\.\d{4}  bias \d\.\d{4}  rates ", each.facts) for each in told)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_and_say_how_to_resume(number, tmp_path):
    out = tmp_path / "asked"

    def ask(progress):
        if progress.iteration == 2:
            os.kill(os.getpid(), number)

    with pytest.raises(
        InterruptedRunError, match=rf"by {number.name} after iteration 2 of 12; everything is saved in .*--resume"
    ) as caught:
        elbert.train("lending", world=WORLD, out=out, callbacks=[ask], **TINY)
    assert caught.value.signal_number == number
    assert summarise(out).status == "interrupted"
    assert elbert.train("lending", world=WORLD, out=out, resume=True, **TINY).about.steps == TINY["steps"]


def test_a_full_disk_stops_with_a_message_and_loses_nothing(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(run_session, "CHECKPOINT_SECONDS", 0.0)
    out = tmp_path / "full"
    arguments: dict[str, Any] = {"seeds": 2, "world": WORLD, "out": out, **TINY}
    full = []

    def fill(progress):
        if progress.iteration == 6:
            full.append(True)

    def fsync(number, real=os.fsync):
        if full:
            raise OSError(28, "No space left on device")
        real(number)

    monkeypatch.setattr("elbert.files.os.fsync", fsync)
    with pytest.raises(FileError, match=r"No space left on device.*last checkpoint in .* is whole"):
        elbert.train_many("lending", callbacks=[fill], **arguments)
    assert {path.name for path in out.rglob(".*")} <= {".lock"}, "what was begun is taken away"
    full.clear()
    elbert.train_many("lending", resume=True, **arguments)
    assert same(whole, out)


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises((FileError, InvalidInputError), match="file"):
        elbert.train("lending", world=WORLD, out=tmp_path / "file", **TINY)
    with pytest.raises(FileError, match="Cannot write"):
        elbert.train("lending", world=WORLD, out=tmp_path / "file" / "run", **TINY)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.slow
def test_what_diverges_is_recorded_with_the_last_good_state(tmp_path):
    out = tmp_path / "diverged"
    with pytest.raises(DivergedError, match=r"Iteration 3 of 6: The reward is nan.*last good state is in .*00000002"):
        elbert.train(lambda: ProbeEnv(break_at=140), method="g-ppo", out=out, **(TINY | {"steps": 4 * 64 * 6}))
    seen = summarise(out)
    assert (seen.status, seen.iteration) == ("failed", 2)
    assert "The reward is nan" in seen.reason
    assert elbert.load(out).about.env == "ProbeEnv"


@pytest.mark.slow
def test_a_host_run_that_resets_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(run_session, "CHECKPOINT_SECONDS", 0.0)
    small: dict[str, Any] = TINY | {"copies": 2, "steps": 2 * 64 * 12, "reset_each_rollout": True}
    elbert.train(ProbeEnv, method="g-ppo", out=tmp_path / "whole", **small)
    with pytest.raises(StopError):
        elbert.train(ProbeEnv, method="g-ppo", out=tmp_path / "cut", callbacks=[stop_after(7)], **small)
    elbert.train(ProbeEnv, method="g-ppo", out=tmp_path / "cut", resume=True, **small)
    assert same(tmp_path / "whole", tmp_path / "cut")
