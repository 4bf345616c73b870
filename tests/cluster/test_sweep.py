"""A sweep on a Ray cluster ends with the same policies as without one, whatever dies on the way."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import elbert
from elbert.experiments.jobs import Job, Task
from elbert.experiments.ray_tasks import RayTasks
from elbert.experiments.store import NO_STORE
from elbert.files import read_tensors
from tests.cluster.conftest import ENVIRONMENT, ROOT
from tests.command_line import command

pytestmark = pytest.mark.cluster

SMALL = {"copies": 4, "rollout": 32, "minibatch": 64, "hidden": [[4]], "epochs": 1}
LONG = {**SMALL, "steps": 4 * 32 * 60}
"""More than six seconds with the pause of the cluster's workers: a kill can hit the middle."""
PATIENCE = 300.0
SEEDS = int(os.environ.get("ELBERT_TEST_SEEDS", "2"))
"""Of each of two methods; a longer record takes more."""


def plan_of(folder, *grids):
    """Write the file of a plan in which every policy is a training."""

    def text(value):
        return json.dumps(value) if not isinstance(value, dict) else f"{{{', '.join(map(entry, value.items()))}}}"

    def entry(item):
        return f"{item[0]} = {text(item[1])}"

    path = folder / "plan.toml"
    lines = ["side_by_side = 1", *("\n".join(["[[grid]]", *map(entry, grid.items())]) for grid in grids)]
    path.write_text("\n".join(lines))
    return path


def agents_of(folder):
    """The arrays of every policy, by run: not the headers, which hold seconds."""
    return {path.parent.name: read_tensors(path)[0] for path in folder.glob("runs/*/agent.safetensors")}


def assert_same_agents(folder, other, number):
    one, two = agents_of(folder), agents_of(other)
    assert one.keys() == two.keys()
    assert len(one) == number
    for name, arrays in one.items():
        assert arrays.keys() == two[name].keys()
        for key, array in arrays.items():
            assert np.array_equal(array, two[name][key]), (name, key)


@pytest.fixture
def start():
    """Starts drivers, each in a session of its own, so that a signal meets nobody else; none outlives its test."""
    drivers = []

    def start(*arguments):
        drivers.append(
            subprocess.Popen(
                command(*map(str, arguments)),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env=ENVIRONMENT,
                start_new_session=True,
            )
        )
        return drivers[-1]

    yield start
    for driver in drivers:
        if driver.returncode is None:
            driver.kill()
            driver.communicate()


def finish(driver):
    """Exit code, and what a driver printed as results and as messages."""
    out, error = driver.communicate(timeout=PATIENCE)
    return driver.returncode, out, error


def until(condition, what):
    """What a condition gives, as soon as it gives something."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen")


def manifest(run):
    try:
        return json.loads((run / "manifest.json").read_text())
    except FileNotFoundError:
        return {"status": "waiting", "iteration": 0, "iterations": 1, "process": 0}


def under_way(runs):
    """The runs that have a checkpoint to go on from, and enough before them to be hit in the middle."""
    found = {run: manifest(run) for run in runs.iterdir() if run.is_dir()} if runs.is_dir() else {}
    return {
        run: at
        for run, at in found.items()
        if at["status"] == "running" and 0 < at["iteration"] < 0.7 * at["iterations"]
    }


def recorded(run, iterations):
    """The metrics of the first iterations with the seconds that they took, which no second training would repeat."""
    lines = (run / "metrics.csv").read_text().splitlines()
    return lines[: 1 + iterations]


def alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def parent(process):
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """Trainings of some seconds, four unless more are asked for."""
    methods = {"elbert-po": {"alpha": 10.0}, "g-ppo": {}}
    world = {"env": "tests.cluster.worlds:coin", "seeds": SEEDS, **LONG}
    grids = [{"method": name, **world, **more} for name, more in methods.items()]
    return plan_of(tmp_path_factory.mktemp("plan"), *grids)


@pytest.fixture(scope="module")
def undisturbed(plan, tmp_path_factory):
    """The same plan in processes of this machine, where nothing happens to it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        assert not elbert.sweep(plan, out=folder, workers=2, progress=None).failed
    return folder


def test_a_cluster_gives_the_same_agents_as_processes(cluster, tmp_path):
    world = {"env": "infectious", "method": ["g-ppo", "r-ppo"], "seeds": 2, **SMALL, "steps": 4 * 32 * 8}
    limit = {"env": "tests.cluster.worlds:coin", "max_bias": 0.2, "seeds": 1, **SMALL, "steps": 4 * 32 * 8}
    own = {"env": "tests.cluster.worlds:sound", "method": "g-ppo", "seeds": 1, **SMALL, "steps": 4 * 32 * 8}
    grids = {"grid": [world, limit, own], "side_by_side": 1}
    ways: dict[str, Any] = {"ray": {"ray": cluster.address}, "processes": {"workers": 2}}
    for folder, how in ways.items():
        study = elbert.sweep(grids, out=tmp_path / folder, progress=None, **how)
        assert not study.failed
        assert all(row.done == len(row.plan.seeds) for row in study.rows)
    assert_same_agents(tmp_path / "ray", tmp_path / "processes", 6)


def test_a_dying_worker_node_and_driver_cost_no_more_than_time(cluster, plan, undisturbed, start, tmp_path):
    runs, kept = tmp_path / "out" / "runs", {}
    arguments = ("sweep", plan, "--ray", cluster.address, "--out", tmp_path / "out")

    def hit(run):
        """Remember what a run had done when it was hit."""
        at = manifest(run)
        assert at["status"] == "running", "the kill came too late"
        assert 0 < at["iteration"] < at["iterations"]
        kept[run] = recorded(run, at["iteration"])
        return at["process"]

    driver = start(*arguments)
    worker = hit(next(iter(until(lambda: under_way(runs), "a training"))))
    os.kill(worker, signal.SIGKILL)

    def on_other_nodes():
        running = {run: parent(at["process"]) for run, at in under_way(runs).items() if alive(at["process"])}
        return [(run, node) for run, node in running.items() if node in cluster.mortal and run not in kept]

    run, node = until(on_other_nodes, "a training on a node that may die")[0]
    lost = hit(run)
    cluster.kill(node)
    until(lambda: not alive(lost), "the end of a worker whose node died")

    def others():
        return [run for run, at in under_way(runs).items() if run not in kept and alive(at["process"])]

    workers = [hit(run) for run in until(others, "a third training")]
    assert len(kept) >= 3
    driver.kill()
    driver.communicate()
    until(lambda: not any(map(alive, workers)), "the end of the workers of a driver that died")
    cluster.replaced()
    statuses = [manifest(run)["status"] for run in runs.iterdir()]
    assert statuses.count("finished") < len(statuses), "the driver was killed too late"

    code, _, messages = finish(start(*arguments))
    assert code == 0, messages
    assert_same_agents(tmp_path / "out", undisturbed, 2 * SEEDS)
    for run, lines in kept.items():
        assert recorded(run, len(lines) - 1) == lines, "it began anew"


def test_nodes_that_share_no_folder_keep_runs_in_a_store(cluster, plan, undisturbed, start, tmp_path):
    store = tmp_path / "store"
    driver = start("sweep", plan, "--ray", cluster.address, "--out", tmp_path / "out", "--store", store.as_uri())
    run, at = next(iter(until(lambda: under_way(store), "a training").items()))
    lines = recorded(run, at["iteration"])
    os.kill(at["process"], signal.SIGKILL)
    code, _, messages = finish(driver)
    assert code == 0, messages
    assert_same_agents(tmp_path / "out", undisturbed, 2 * SEEDS)
    assert recorded(tmp_path / "out" / "runs" / run.name, at["iteration"]) == lines, "it began anew"
    assert not list(tmp_path.glob("out/runs/*/checkpoints")), "only a training needs them"


def test_ctrl_c_saves_and_the_same_command_goes_on(cluster, plan, undisturbed, start, tmp_path):
    runs = tmp_path / "out" / "runs"
    driver = start("sweep", plan, "--ray", cluster.address, "--out", tmp_path / "out")
    until(lambda: len(under_way(runs)) >= 2, "two trainings")
    os.killpg(driver.pid, signal.SIGINT)  # as a terminal does
    code, _, messages = finish(driver)
    assert code == 130, messages
    assert "everything is saved" in messages
    stopped = {run: at for run in runs.iterdir() if (at := manifest(run))["status"] != "finished"}
    assert stopped
    assert {at["status"] for at in stopped.values()} == {"interrupted"}
    kept = {run: recorded(run, at["iteration"]) for run, at in stopped.items()}
    with pytest.MonkeyPatch.context() as patch:  # anywhere: without Ray, too
        patch.chdir(ROOT)
        assert not elbert.sweep(plan, out=tmp_path / "out", workers=2, progress=None).failed
    assert_same_agents(tmp_path / "out", undisturbed, 2 * SEEDS)
    assert all(recorded(run, len(lines) - 1) == lines for run, lines in kept.items())


def test_a_training_that_fails_is_named_and_the_others_are_done(cluster, start, tmp_path):
    names = ("broken", "deadly", "sound")
    grids = [
        {"env": f"tests.cluster.worlds:{name}", "method": "g-ppo", "seeds": 1, **SMALL, "steps": 4 * 32 * 4}
        for name in names
    ]
    plan = plan_of(tmp_path, *grids)
    code, shown, messages = finish(start("sweep", plan, "--ray", cluster.address, "--out", tmp_path / "out"))
    assert code == 1
    assert "2 trainings failed; the others are done." in messages
    assert "the roof fell in" in messages
    assert "its worker or node died 3 times" in messages
    assert manifest(next((tmp_path / "out" / "runs").glob("*-sound-*")))["status"] == "finished"
    assert "sound" in shown


def test_a_node_that_does_not_see_the_folder_says_so(cluster, tmp_path):
    job = Job("lending", "g-ppo", seeds=1)
    task = Task(job, job.name, tmp_path / "elsewhere", NO_STORE, ())
    with RayTasks(cluster.address) as engine:
        ended = [event for event in engine.run([task]) if event is not None]
    assert [event.name for event in ended] == [job.name]
    assert "does not see the folder" in str(ended[0].reason)
    assert "--store" in str(ended[0].reason)
