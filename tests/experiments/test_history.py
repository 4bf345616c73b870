"""`agent.history`: the same numbers in memory, in the run's folder, and after loading."""
# pyright: reportArgumentType=false, reportCallIssue=false

import csv
import os
import shutil
import subprocess
import sys

import pytest

import elbert
from elbert.errors import InvalidInputError
from elbert.files import FileError
from tests.experiments.small_runs import TINY, WORLD, StopError, stop_after

pytestmark = pytest.mark.slow


def test_history_is_the_same_with_and_without_a_folder(whole):
    """Red if a member gets another's rows, or if a number is rounded on its way through the file."""
    in_memory = elbert.train_many("lending", seeds=2, world=WORLD, **TINY)
    for place, agent in enumerate(in_memory):
        stored = elbert.load(whole, seed=place).history
        assert stored["seed"] == (place,) * 12
        assert agent.history.kinds == stored.kinds
        ours, theirs = (each.to_dict() for each in (agent.history, stored))
        assert ours.pop("seconds") != theirs.pop("seconds")
        assert ours == theirs


def test_history_holds_what_metrics_csv_holds(whole):
    with (whole / "metrics.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["seed"] == "1"]
    history = elbert.load(whole, seed=1).history
    assert list(history) == list(rows[0])
    assert history["iteration"] == tuple(range(1, 13))
    assert [repr(value) for value in history["reward"]] == [row["reward"] for row in rows]
    assert [str(value) for value in history["steps"]] == [row["steps"] for row in rows]
    assert history.to_pandas()["episodes"].dtype.kind == "i"


def test_a_resumed_training_has_its_whole_history(tmp_path):
    out = tmp_path / "run"
    small = TINY | {"steps": 4 * 64 * 4}
    with pytest.raises(StopError):
        elbert.train("lending", world=WORLD, out=out, callbacks=[stop_after(2)], **small)
    agent = elbert.train("lending", world=WORLD, out=out, resume=True, **small)
    assert agent.history["iteration"] == (1, 2, 3, 4)
    again = elbert.train("lending", world=WORLD, out=out, resume=True, **small)
    assert again.history == agent.history
    shutil.copy(out / "agent.safetensors", tmp_path / "alone.safetensors")
    with pytest.raises(InvalidInputError, match=r"no history: .*elbert.load\(FOLDER\)"):
        _ = elbert.load(tmp_path / "alone.safetensors").history
    (out / "metrics.csv").unlink()
    with pytest.raises(FileError, match="holds no iteration"):
        _ = again.history


def test_a_grid_has_its_coefficients_as_columns(tmp_path):
    small = TINY | {"steps": 4 * 64}
    grid = {"alpha": [1, 2.5]}
    for out in (None, tmp_path / "run"):
        agents = elbert.train_many("lending", seeds=1, grid=grid, world=WORLD, out=out, **small)
        assert [agent.history["alpha"] for agent in agents] == [(1.0,), (2.5,)]
        assert agents[0].history.kinds["alpha"] is float


def test_tensorboard_writes_into_the_folder_that_is_named(tmp_path):
    pytest.importorskip("tensorboardX")
    small = TINY | {"steps": 4 * 64}
    elbert.train("lending", world=WORLD, tensorboard=tmp_path / "board", **small)
    assert list((tmp_path / "board").glob("events.*"))
    elbert.train("lending", world=WORLD, out=tmp_path / "run", tensorboard=True, **small)
    assert list((tmp_path / "run" / "tensorboard").glob("events.*"))
    with pytest.raises(InvalidInputError, match=r"give out=..., or tensorboard=FOLDER"):
        elbert.train("lending", world=WORLD, tensorboard=True, **small)
    with pytest.raises(InvalidInputError, match="tensorboard is 3"):
        elbert.train("lending", world=WORLD, tensorboard=3, **small)


def test_python_keeps_what_it_compiled_as_the_command_line_does(tmp_path):
    """Red if training in Python leaves the cache off, or if the switch does nothing."""

    code = (
        "import os, jax, elbert; from elbert.exact.rules import get_rule\n"
        "rule = get_rule('rule:lending/thresholds-2-1')\n"
        f"for folder in ('', {str(tmp_path / 'kept')!r}):\n"
        "    os.environ['ELBERT_COMPILATION_CACHE'] = folder\n"
        "    elbert.evaluate(rule, episodes=2, horizon=2)\n"
        "    print(jax.config.jax_compilation_cache_dir)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["None", str(tmp_path / "kept")], done.stderr
