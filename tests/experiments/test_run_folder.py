"""What a run's folder holds, and how it tells what was damaged or edited; agents that are files."""
# pyright: reportArgumentType=false, reportCallIssue=false, reportOptionalOperand=false, reportOperatorIssue=false

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import elbert
from elbert.errors import InvalidInputError
from elbert.experiments import run_session
from elbert.experiments.evaluate import Conditions, evaluate_policy
from elbert.experiments.results import over_seeds
from elbert.experiments.run_folder import REMEDIES, RunFolder, find_runs, only_writer, summarise
from elbert.experiments.run_metrics import MetricsFile, read_metrics
from elbert.files import FileError, write_sealed
from elbert.learning.result import judged
from elbert.learning.simulators import Episodes
from tests.command_line import SCHEMA
from tests.experiments.small_runs import TINY, WORLD, StopError, same, stop_after


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


def test_a_damaged_checkpoint_is_passed_over_by_name(whole, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(run_session, "CHECKPOINT_SECONDS", 0.0)
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
    with pytest.raises(FileError, match=r"metrics.csv is damaged \(.*\). Move it away"):
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
    evaluate_policy(RunFolder(whole), conditions, progress=lambda event: told.append((event.done, event.total)))
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
    assert plain.report is not None
    assert published.report is not None
    for ours, theirs in zip(plain.report.criteria[0].groups, published.report.criteria[0].groups, strict=True):
        assert theirs.demand == pytest.approx(ours.demand + 1)
    shown = published.to_dict()["groups"]
    assert [row["demand"] for row in shown] == pytest.approx([row.demand for row in plain.worst.groups])
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
    assert summarise(whole).reward is not None


def test_evaluations_over_seeds_are_means(whole):
    each = [agent.evaluate(20, seed=1 + i, horizon=64) for i, agent in enumerate(RunFolder(whole).agents())]
    result = evaluate_policy(RunFolder(whole), Conditions(episodes=20, horizon=64))
    assert result.reward.mean == pytest.approx(np.mean([one.reward.mean for one in each]))
    assert result.worst.bias.estimate == pytest.approx(np.mean([one.worst.bias.estimate for one in each]))
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
        assert summarise(out).status == "running"
    assert summarise(out).status == "killed"


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
    evaluate_policy(run, Conditions(episodes=5, horizon=64))
    assert run.evaluation() is None, "conditions other than the usual ones are not kept by default"
    evaluate_policy(run, Conditions(episodes=5, horizon=64), keep=True)
    assert run.evaluation() is not None
    elbert.load(tmp_path / "agent-1.safetensors").replaced(train_seconds=1.0).save(tmp_path / "agent-1")
    assert run.evaluation() is None
    write_sealed(tmp_path / "evaluation.json", {})
    with pytest.raises(FileError, match=r"evaluation.json is damaged: it holds no Result .*'env'"):
        run.evaluation()
    assert summarise(tmp_path).status == "damaged"


@pytest.fixture
def evaluated(whole, tmp_path):
    """A copy of the run with an evaluation in it."""
    folder = shutil.copytree(whole, tmp_path / "evaluated")
    evaluate_policy(RunFolder(folder), Conditions(episodes=5, horizon=64), keep=True)
    assert summarise(folder).evaluated
    return folder


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("config.json", '"env": "lending"', '"env": "lender"'),
        ("config.json", '"format": 2', '"format": 1'),
        ("manifest.json", '"iteration": 12', '"iteration": 11'),
        ("manifest.json", '"status": "finished"', '"status": "running"'),
        ("evaluation.json", '"mean": ', '"mean": 1'),
        ("evaluation.json", '"digest"', '"former digest"'),
        ("manifest.json", '"digest"', '"former digest"'),
    ],
)
def test_edited_files_are_refused_by_name(name, old, new, evaluated):
    """Red if a file is read without a look at its digest, or if one without a digest passes for an old one."""
    text = (evaluated / name).read_text()
    assert old in text
    (evaluated / name).write_text(text.replace(old, new, 1))
    seen = summarise(evaluated)
    assert seen.status == "damaged"
    assert f"{name} was changed since it was written" in seen.reason
    assert seen.reason.endswith(REMEDIES[name])


def test_spaces_and_the_order_of_entries_are_no_edits(evaluated):
    for name in ("config.json", "manifest.json", "evaluation.json"):
        content = json.loads((evaluated / name).read_text())
        (evaluated / name).write_text(json.dumps(dict(reversed(content.items()))))
    assert summarise(evaluated).evaluated


def test_a_removed_manifest_is_written_again(whole, tmp_path):
    out = shutil.copytree(whole, tmp_path / "run")
    (out / "manifest.json").unlink()
    elbert.train_many("lending", seeds=2, world=WORLD, out=out, resume=True, **TINY)
    assert summarise(out).status == "finished"
    assert same(whole, out)


def test_a_run_of_the_first_version_is_refused(tmp_path):
    """The folder was written by elbert 0.1.0: its JSON files have no digests."""
    out = shutil.copytree(Path(__file__).parent / "data" / "run-0.1.0", tmp_path / "run")
    assert summarise(out).status == "damaged"
    with pytest.raises(FileError, match=r"A run of elbert 0\.1\.0 has no digests: read it with that version"):
        elbert.train("lending", world=WORLD, out=out, resume=True, **(TINY | {"steps": 512}))
    with pytest.raises(FileError, match="has format 1; this version of elbert reads format 2"):
        elbert.load(out)


def test_whole_iterations_of_the_metrics_count(whole, tmp_path):
    """Red if a reader takes half a number for a number, or one of two seeds for both."""
    text = (whole / "metrics.csv").read_text()
    lines = text.splitlines(keepends=True)
    for end in [*range(len(text) - 500, len(text) + 1), *range(len(lines[0]) + 3)]:
        (tmp_path / "metrics.csv").write_text(text[:end])
        iterations = max(0, text[:end].count("\n") - 1) // 2
        columns = read_metrics(tmp_path)
        assert [len(column) for column in columns.values()] == [iterations] * len(columns)
        assert bool(columns) == bool(iterations)
        MetricsFile(tmp_path).cut(11)
        rows = 2 * min(iterations, 11)
        assert (tmp_path / "metrics.csv").read_text() == ("".join(lines[: 1 + rows]) if rows else "")


def test_files_that_no_reader_expects_are_refused_by_name(whole, tmp_path):
    out = shutil.copytree(whole, tmp_path / "run")
    deep = "[" * 100_000 + "]" * 100_000
    for name in ("config.json", "manifest.json", "evaluation.json"):
        (out / name).write_text('{"a": ' + deep + "}")
        assert name in summarise(out).reason
        assert summarise(out).status == "damaged"
        shutil.copytree(whole, out, dirs_exist_ok=True)
        (out / "evaluation.json").unlink(missing_ok=True)
    text = (out / "metrics.csv").read_text()
    (out / "metrics.csv").write_text(text.replace("iteration", "iteratiom", 1))
    with pytest.raises(FileError, match=r"metrics\.csv is damaged \(it has no column iteration\)"):
        MetricsFile(out).cut(3)
    (out / "metrics.csv").write_text(text + "9" * 200_000 + "\n")
    assert "metrics.csv is damaged (field larger than field limit" in summarise(out).reason
    with pytest.raises(FileError, match=r"metrics\.csv is damaged"):
        read_metrics(out)


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
