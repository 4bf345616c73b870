"""A run is a folder that survives: killed, interrupted, damaged, without room; and agents that are files."""
# pyright: reportArgumentType=false, reportCallIssue=false, reportOptionalOperand=false, reportOperatorIssue=false

import csv
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import gymnasium
import numpy as np
import pytest

import elbert
from elbert.errors import InvalidInputError
from elbert.experiments import run_folder as run_module
from elbert.experiments import train as train_module
from elbert.experiments.evaluate import Conditions, evaluate_run
from elbert.experiments.results import over_seeds
from elbert.experiments.run_folder import RunFolder, find_runs, only_writer, summary
from elbert.experiments.train import InterruptedRunError
from elbert.files import FileError, read_tensors
from elbert.learning import DivergedError
from elbert.learning.evaluation import Episodes, judged
from tests.command_line import ENVIRONMENT, SCHEMA, cli
from tests.learning.tiny import ProbeEnv

TINY: dict[str, Any] = {"copies": 4, "rollout": 64, "minibatch": 64, "hidden": [4], "epochs": 1, "steps": 4 * 64 * 12}
WORLD: dict[str, Any] = {"horizon": 64}
OPTIONS = [
    *("--set", "copies=4", "--set", "rollout=64", "--set", "minibatch=64", "--set", "hidden=[4]", "--set", "epochs=1"),
    *("--world", "horizon=64"),
]


def final(path):
    """Everything the last checkpoint holds."""
    last = max((path / "checkpoints").glob("*.safetensors"))
    return last.name, read_tensors(last)[0]


def same(one, other):
    (name, arrays), (other_name, others) = final(one), final(other)
    return (
        name == other_name
        and arrays.keys() == others.keys()
        and all(np.array_equal(arrays[key], others[key]) for key in arrays)
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted run of two seeds."""
    path = tmp_path_factory.mktemp("runs") / "whole"
    elbert.train_many("lending", seeds=2, world=WORLD, out=path, **TINY)
    return path


class StopError(Exception):
    pass


def stop_after(iteration):
    def callback(progress):
        if progress.iteration == iteration:
            raise StopError

    return callback


def test_a_run_holds_everything(whole):
    config, manifest = (json.loads((whole / name).read_text()) for name in ("config.json", "manifest.json"))
    assert (config["env"], config["method"], config["seeds"]) == ("lending", "elbert-po", [0, 1])
    assert config["settings"]["hidden"] == [4]
    assert config["parameters"] == WORLD
    assert (manifest["status"], manifest["iteration"], manifest["iterations"]) == ("finished", 12, 12)
    assert set(manifest["versions"]) >= {"elbert", "jax", "numpy", "python", "optax", "equinox"}
    rows = list(csv.DictReader((whole / "metrics.csv").read_text().splitlines()))
    assert [(row["iteration"], row["seed"]) for row in rows] == [(str(i), s) for i in range(1, 13) for s in ("0", "1")]
    assert {"reward", "bias", "soft_bias", "rate_0", "supply_1", "demand_1", "kl", "clip_fraction"} <= set(rows[0])
    assert {"policy_loss", "value_loss", "seconds", "steps", "explained_variance"} <= set(rows[0])
    row = rows[-1]
    assert float(row["bias"]) == pytest.approx(abs(float(row["rate_0"]) - float(row["rate_1"])), abs=1e-6)
    assert len(list((whole / "checkpoints").iterdir())) == 2


def test_a_stopped_run_goes_on_to_the_same_bits(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(train_module, "CHECKPOINT_SECONDS", 0.0)
    out = tmp_path / "stopped"
    arguments: dict[str, Any] = {"seeds": 2, "world": WORLD, "out": out, **TINY}
    with pytest.raises(StopError):
        elbert.train_many("lending", callbacks=[stop_after(5)], **arguments)
    assert summary(out).iteration == 4
    with pytest.raises(InvalidInputError, match="is not empty"):
        elbert.train_many("lending", **arguments)
    with pytest.raises(InvalidInputError, match=r"has epochs = 1, but 2 is asked for now"):
        elbert.train_many("lending", resume=True, **(arguments | {"epochs": 2}))
    agents = elbert.train_many("lending", resume=True, **arguments)
    assert same(whole, out)
    ours, theirs = ((path / "metrics.csv").read_text().splitlines() for path in (whole, out))
    without_time = [[line.split(",")[:2] + line.split(",")[3:] for line in lines] for lines in (ours, theirs)]
    assert without_time[0] == without_time[1]
    again = elbert.train_many("lending", resume=True, **arguments)
    for one, other in zip(agents, again, strict=True):
        assert np.array_equal(one.weights.actor.layers[0].weight, other.weights.actor.layers[0].weight)


def test_kill_and_resume_from_the_command_line(whole, tmp_path):
    out = tmp_path / "killed"
    arguments = [
        "train",
        "lending",
        "--seeds",
        "2",
        "--steps",
        str(TINY["steps"]),
        *OPTIONS,
        "--out",
        str(out),
    ]
    patched = (
        "import sys, elbert.experiments.train as t, elbert.cli as c; t.CHECKPOINT_SECONDS = 0.0; c.app(sys.argv[1:])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", patched, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    )
    limit = time.monotonic() + 120
    while not list((out / "checkpoints").glob("*[1-9]*.safetensors")) and time.monotonic() < limit:
        time.sleep(0.005)
    process.kill()
    process.communicate()
    assert summary(out).status in ("killed", "finished")  # a quick machine may have been done
    done = cli(*arguments, "--resume", "--no-evaluate")
    assert done.returncode == 0, done.stderr
    assert same(whole, out)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_and_say_how_to_resume(number, tmp_path):
    out = tmp_path / "asked"

    def ask(progress):
        if progress.iteration == 2:
            os.kill(os.getpid(), number)

    with pytest.raises(
        InterruptedRunError, match=r"after iteration 2 of 12; everything is saved in .*--resume"
    ) as caught:
        elbert.train("lending", world=WORLD, out=out, callbacks=[ask], **TINY)
    assert caught.value.signal_number == number
    assert summary(out).status == "interrupted"
    assert elbert.train("lending", world=WORLD, out=out, resume=True, **TINY).about.steps == TINY["steps"]


def test_a_damaged_checkpoint_is_passed_over_by_name(whole, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(train_module, "CHECKPOINT_SECONDS", 0.0)
    out = tmp_path / "damaged"
    arguments: dict[str, Any] = {"seeds": 2, "world": WORLD, "out": out, **TINY}
    with pytest.raises(StopError):
        elbert.train_many("lending", callbacks=[stop_after(6)], **arguments)
    last = max((out / "checkpoints").iterdir())
    content = bytearray(last.read_bytes())
    content[-5] ^= 1
    last.write_bytes(content)
    rows = (out / "metrics.csv").read_text()
    (out / "metrics.csv").write_text(rows.replace(",", ";"))
    with pytest.raises(FileError, match=r"metrics.csv is damaged \(KeyError\('iteration'\)\). Move it away"):
        elbert.train_many("lending", resume=True, **arguments)
    (out / "metrics.csv").write_text(rows)
    elbert.train_many("lending", resume=True, **arguments)
    assert f"{last} is damaged" in caplog.text
    assert same(whole, out)
    for path in (out / "checkpoints").iterdir():
        path.write_bytes(path.read_bytes()[:100])
    found = elbert.train_many("lending", resume=True, **arguments)
    assert [agent.about.seed for agent in found] == [0, 1], "what is finished needs no checkpoint"
    RunFolder(out).note(status="interrupted")
    with pytest.raises(FileError, match=r"No checkpoint in .* can be read"):
        elbert.train_many("lending", resume=True, **arguments)


def test_a_full_disk_stops_with_a_message_and_loses_nothing(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(train_module, "CHECKPOINT_SECONDS", 0.0)
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


def test_what_diverges_is_recorded_with_the_last_good_state(tmp_path):
    out = tmp_path / "diverged"
    with pytest.raises(DivergedError, match=r"Iteration 3 of 6: the rewards.*last good state is in .*00000002"):
        elbert.train(lambda: ProbeEnv(break_at=140), method="g-ppo", out=out, **(TINY | {"steps": 4 * 64 * 6}))
    seen = summary(out)
    assert (seen.status, seen.iteration) == ("failed", 2)
    assert "the rewards became infinite or NaN" in seen.reason
    assert elbert.load(out).about.env == "ProbeEnv"


def test_a_host_run_that_resets_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(train_module, "CHECKPOINT_SECONDS", 0.0)
    small: dict[str, Any] = TINY | {"copies": 2, "steps": 2 * 64 * 12, "reset_each_rollout": True}
    elbert.train(ProbeEnv, method="g-ppo", out=tmp_path / "whole", **small)
    with pytest.raises(StopError):
        elbert.train(ProbeEnv, method="g-ppo", out=tmp_path / "cut", callbacks=[stop_after(7)], **small)
    elbert.train(ProbeEnv, method="g-ppo", out=tmp_path / "cut", resume=True, **small)
    assert same(tmp_path / "whole", tmp_path / "cut")


def test_agents_are_saved_and_loaded_without_code(whole, tmp_path):
    agent = elbert.load(whole, seed=1)
    copy = elbert.load(agent.save(tmp_path / "mine"))
    env = gymnasium.make("elbert/Lending-v0")
    observation, _ = env.reset(seed=0)
    batch = np.stack([observation] * 5)
    for one in (agent, copy):
        one.seed(3)
    assert agent.predict(observation) == copy.predict(observation)
    assert agent.predict(batch).shape == (5,)
    assert env.action_space.contains(int(agent.predict(observation, deterministic=True)))
    assert copy.about == agent.about
    first, second = (one.evaluate(20, horizon=64).to_dict() for one in (agent, copy))
    assert first == second
    with pytest.raises(InvalidInputError, match=r"shape \(3,\). Give one of shape \(11,\)"):
        agent.predict(np.zeros(3))
    with pytest.raises(InvalidInputError, match=r"holds agents of the seeds 0, 1. Say which one"):
        elbert.load(whole)


def test_episodes_are_counted_on_from_seed_to_seed(whole):
    told: list[tuple[int, int | None]] = []
    conditions = Conditions(episodes=6, horizon=64)
    evaluate_run(RunFolder(whole), conditions, progress=lambda progress: told.append((progress.done, progress.total)))
    assert told == [(6, 12), (12, 12)]


@pytest.mark.parametrize("damage", ["cut", "flipped", "pickle", "empty", "renamed setting"])
def test_damaged_agents_are_refused_by_name(damage, whole, tmp_path):
    path = tmp_path / "agent.safetensors"
    content = (whole / "agent-0.safetensors").read_bytes()
    path.write_bytes(
        {
            "cut": content[: len(content) // 2],
            "flipped": content[:-3] + bytes([content[-3] ^ 4]) + content[-2:],
            "pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix",
            "empty": b"",
            "renamed setting": content.replace(b"gae_lambda", b"gae_lambdo"),
        }[damage]
    )
    with pytest.raises(FileError, match=r"agent\.safetensors"):
        elbert.load(path)
    with pytest.raises(FileError, match=r"Cannot read .*nowhere\.safetensors"):
        elbert.load(tmp_path / "nowhere")


def test_protocols_change_what_they_say(whole):
    agent = elbert.load(whole, seed=0)
    published = elbert.evaluate(agent, protocol="paper", horizon=64)
    assert (published.episodes, published.extra_demand) == (3, 1.0)
    plain = agent.evaluate(3, horizon=64)
    for ours, theirs in zip(plain.criterion.groups, published.criterion.groups, strict=True):
        assert theirs.demand == pytest.approx(ours.demand + 1)
    shown = published.to_dict()["groups"]
    assert [row["demand"] for row in shown] == pytest.approx([row.demand / 64 for row in plain.criterion.groups])
    with pytest.raises(InvalidInputError, match="No evaluation protocol is called 'papr'"):
        elbert.evaluate(agent, protocol="papr")


def test_runs_are_found_in_every_state(whole, tmp_path):
    for name in ("finished", "killed", "broken"):
        folder = tmp_path / name
        folder.mkdir()
        for part in ("config.json", "manifest.json", "metrics.csv"):
            (folder / part).write_bytes((whole / part).read_bytes())
    RunFolder(tmp_path / "killed").note(status="running")  # and nobody holds its lock
    (tmp_path / "broken" / "manifest.json").write_text("{")
    states = {run.path.name: run.status for run in find_runs(tmp_path)}
    assert states == {"finished": "finished", "killed": "killed", "broken": "damaged"}
    assert run_module.summary(whole).reward is not None


def test_evaluations_over_seeds_are_means(whole):
    each = [agent.evaluate(20, seed=1 + i, horizon=64) for i, agent in enumerate(RunFolder(whole).agents())]
    result = evaluate_run(RunFolder(whole), Conditions(episodes=20, horizon=64))
    assert result.reward.mean == pytest.approx(np.mean([one.reward.mean for one in each]))
    assert result.worst.bias.estimate == pytest.approx(np.mean([one.criterion.bias.estimate for one in each]))
    assert result.reward.ci is not None
    assert result.reward.ci[0] < result.reward.mean < result.reward.ci[1]
    assert set(result.to_dict()) > SCHEMA
    assert [one.seed for one in result.seeds] == [0, 1]


def test_one_writer_at_a_time(whole, tmp_path):
    out = tmp_path / "run"
    with only_writer(out), pytest.raises(InvalidInputError, match=r"Another process trains in .*run now"):
        elbert.train("lending", world=WORLD, out=out, **TINY)
    assert not (out / "config.json").exists()
    for part in ("config.json", "manifest.json", "metrics.csv"):
        (out / part).write_bytes((whole / part).read_bytes())
    RunFolder(out).note(status="running")
    with only_writer(out):
        assert summary(out).status == "running"
    assert summary(out).status == "killed"


def test_what_a_killed_writer_began_is_taken_away(tmp_path):
    begun = tmp_path / "checkpoints" / ".00000004.safetensors.0123456789abcdef"
    begun.parent.mkdir()
    begun.write_bytes(b"half")
    mine = tmp_path / ".notes"
    mine.write_text("mine")
    with only_writer(tmp_path):
        assert not begun.exists()
    assert mine.exists()


def test_an_evaluation_of_an_older_policy_does_not_count(whole, tmp_path):
    for part in ("config.json", "manifest.json", "metrics.csv", "agent-0.safetensors", "agent-1.safetensors"):
        (tmp_path / part).write_bytes((whole / part).read_bytes())
    run = RunFolder(tmp_path)
    evaluate_run(run, Conditions(episodes=5, horizon=64))
    assert run.evaluation() is None, "conditions other than the usual ones are not kept by default"
    evaluate_run(run, Conditions(episodes=5, horizon=64), keep=True)
    assert run.evaluation() is not None
    elbert.load(tmp_path / "agent-1.safetensors").timed(1.0).save(tmp_path / "agent-1")
    assert run.evaluation() is None
    (tmp_path / "evaluation.json").write_text("{}")
    with pytest.raises(FileError, match=r"evaluation.json is damaged: it lacks env"):
        run.evaluation()
    assert summary(tmp_path).status == "damaged"


def test_several_criteria_over_seeds():
    rng = np.random.default_rng(0)
    each = []
    for _ in range(2):
        demand = rng.integers(5, 20, (20, 2, 3)).astype(float)
        sums = Episodes(np.ones(20), np.full(20, 4.0), rng.binomial(demand.astype(int), 0.5).astype(float), demand)
        each.append(judged(sums, env="lending", method="g-ppo", criteria=("first", "second")))
    result = over_seeds(each, [0, 1])
    assert [part.criterion for part in result.criteria] == ["first", "second"]
    for c, part in enumerate(result.criteria):
        low, high = part.bias.ci or (1.0, 0.0)
        assert part.bias.estimate == pytest.approx(np.mean([e.report.criteria[c].bias.estimate for e in each]))
        assert 0 <= low <= part.bias.estimate <= high
    assert result.worst.bias.estimate == max(part.bias.estimate for part in result.criteria)


def test_a_grid_in_a_folder_is_told_apart(tmp_path):
    out = tmp_path / "grid"
    elbert.train_many(
        "lending", seeds=1, grid={"alpha": [1.0, 9.0]}, world=WORLD, out=out, **(TINY | {"steps": 4 * 64})
    )
    assert [elbert.load(out, member=i).settings.alpha for i in range(2)] == [1.0, 9.0]
    with pytest.raises(InvalidInputError, match="Say which one"):
        elbert.load(out, seed=0)
    with pytest.raises(InvalidInputError, match="trained with different coefficients"):
        evaluate_run(RunFolder(out))
    rows = list(csv.DictReader((out / "metrics.csv").read_text().splitlines()))
    assert [row["alpha"] for row in rows] == ["1.0", "9.0"]
