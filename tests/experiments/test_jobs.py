"""Jobs, tasks and engines: each is done once, what fails is named, what was stopped or killed goes on."""
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false, reportGeneralTypeIssues=false

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import elbert
from elbert.errors import InvalidInputError
from elbert.experiments import jobs, processes
from elbert.experiments.cores import take_cores, usable_cores
from elbert.experiments.jobs import Job, do_jobs, finished
from elbert.experiments.processes import TRIES, Processes
from elbert.experiments.run_folder import RunFolder
from elbert.experiments.run_session import InterruptedRunError
from elbert.fairness import Criterion, Notion, notions
from tests.envs.own import clinic
from tests.experiments.engines import Here
from tests.experiments.small_runs import TINY, WORLD, same
from tests.learning.tiny import Probe

SHORT = TINY | {"alpha": 10.0, "hidden": (4,), "steps": 4 * 64 * 4}
SMALL = Job(Probe(), "elbert-po", seeds=(0,), settings=SHORT, quick=True)


@pytest.mark.slow
def test_a_job_is_a_training_with_its_evaluation_by_coefficient(tmp_path):
    settings = {name: value for name, value in SHORT.items() if name != "alpha"}
    several = Job(Probe(), "elbert-po", seeds=(3, 4), settings=settings, quick=True, grid={"alpha": (1.0, 5.0)})
    engine, told = Here(), []
    assert do_jobs([SMALL, several, SMALL], tmp_path, engine, progress=told.append) == {}
    assert engine.done == [SMALL.name, several.name], "each once"
    assert [finished(RunFolder(tmp_path / job.name)) for job in (SMALL, several)] == [True, True]
    parts = RunFolder(tmp_path / several.name).parts()
    assert list(parts) == ["alpha=1", "alpha=5"]
    assert [single.seed for single in parts["alpha=5"].evaluation().singles] == [3, 4]
    assert (told[0].done, told[-1].done, told[-1].total) == (0, 2, 2)
    do_jobs([SMALL, several], tmp_path, engine)
    assert len(engine.done) == 2, "what is done is not done again"
    (tmp_path / several.name / "evaluation-1.json").unlink()
    assert not finished(RunFolder(tmp_path / several.name)), "an evaluation is missing"


@pytest.mark.slow
def test_an_environment_of_your_own_is_evaluated_where_it_was_trained(tmp_path):
    own = Job(
        clinic,
        "elbert-po",
        seeds=(1,),
        settings={"alpha": 1.0, "steps": 96, "copies": 4, "rollout": 12, "minibatch": 12},
    )
    assert do_jobs([own], tmp_path, Here()) == {}
    evaluation = RunFolder(tmp_path / own.name).evaluation()
    assert evaluation.episodes == own.episodes
    assert len(evaluation.worst.groups) == 3


@pytest.fixture
def _clean_registers():
    known = dict(notions.NOTIONS)
    yield
    notions.NOTIONS.clear()
    notions.NOTIONS.update(known)


@pytest.mark.slow
@pytest.mark.usefixtures("_clean_registers")
def test_workers_know_what_was_registered_and_end_alike(tmp_path):
    """Red if a worker cannot make the world of a notion that only this process knows, or trains on all cores."""
    given = Criterion(
        "given", supply=lambda decision, qualified: decision, demand=lambda decision, qualified: 1 + 0 * decision
    )
    elbert.register(Notion("own-parity", given))
    world = WORLD | {"notion": "own-parity"}
    pair = [
        Job("lending", "elbert-po", seeds=(seed,), settings=dict(SMALL.settings), world=world, quick=True)
        for seed in (0, 1)
    ]
    with Processes(1) as engine:  # one worker, two jobs
        assert do_jobs(pair, tmp_path / "one", engine) == {}
    with Processes(2) as engine:
        assert do_jobs(pair, tmp_path / "two", engine) == {}
    assert all(same(tmp_path / "one" / job.name, tmp_path / "two" / job.name) for job in pair)


def failing():
    raise RuntimeError("no such room")


def dying():
    os.kill(os.getpid(), signal.SIGKILL)


def printing():
    print("hello")  # noqa: T201 - where workers answer
    return clinic()


class Unpicklable:
    """An environment's maker that cannot leave this process."""

    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self):
        return clinic()


OWN = {"alpha": 1.0, "steps": 96, "copies": 4, "rollout": 12, "minibatch": 12}


@pytest.mark.slow
def test_what_fails_or_dies_is_named_and_the_others_are_done(tmp_path, monkeypatch):
    envs = {"failing": failing, "unpicklable": Unpicklable(), "dying": dying, "printing": printing}
    four = [Job(env, "elbert-po", seeds=(0,), settings=OWN, label=label) for label, env in envs.items()]
    monkeypatch.setattr(processes, "MOST_TASKS", 1)  # every worker is replaced
    with Processes(1) as engine:
        failed = do_jobs(four, tmp_path, engine)
    assert set(failed) == {job.name for job in four[:3]}
    assert "RuntimeError: no such room" in failed[four[0].name]
    assert "it could not be handed to another process (TypeError" in failed[four[1].name]
    assert failed[four[2].name] == f"its process ended {TRIES} times, the last time with code -9"
    assert finished(RunFolder(tmp_path / four[3].name))


LONG = Job(Probe(), "elbert-po", seeds=(0,), settings=SHORT | {"steps": 4 * 64 * 12_000})


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_goes_on(tmp_path):
    """Red if the training starts again: then it would not have been started before the kill."""
    run = RunFolder(tmp_path / LONG.name)
    killed = []

    def kill(_):
        if not killed and run.path.is_dir() and run.manifest["iteration"] > 0:
            killed.append(run.manifest)
            os.kill(killed[0]["process"], signal.SIGKILL)

    with Processes(1) as engine:
        assert do_jobs([LONG], tmp_path, engine, progress=kill) == {}
    assert 0 < killed[0]["iteration"] < killed[0]["iterations"]
    assert run.manifest["started"] == killed[0]["started"]
    assert run.manifest["process"] != killed[0]["process"]
    assert finished(run)


SCRIPT = """
import sys
from pathlib import Path
from elbert.experiments.jobs import do_jobs
from elbert.experiments.processes import Processes
from tests.experiments.test_jobs import LONG
with Processes(1) as engine:
    do_jobs([LONG], Path(sys.argv[1]), engine)
"""


@pytest.mark.slow
@pytest.mark.parametrize("with_signal", [signal.SIGKILL, signal.SIGTERM])
def test_workers_save_and_end_with_the_process_that_started_them(tmp_path, with_signal):
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path)], stderr=subprocess.PIPE, text=True)
    run = RunFolder(tmp_path / LONG.name)
    until = time.monotonic() + 120
    while not (run.path.is_dir() and run.metrics.path.exists()) and time.monotonic() < until:
        time.sleep(0.1)
    worker = Path(f"/proc/{run.manifest['process']}")
    assert worker.exists()
    process.send_signal(with_signal)
    process.communicate(timeout=60)
    until = time.monotonic() + 60
    while worker.exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert not worker.exists()
    manifest = run.manifest
    assert manifest["status"] == "interrupted"
    assert 0 < manifest["iteration"] < manifest["iterations"]


def test_a_task_that_ends_without_results_failed(tmp_path):
    """Red if a node that wrote elsewhere counts as done."""

    class Elsewhere(Here):
        def run(self, tasks):
            for task in tasks:
                yield jobs.Ended(task.name, None)

    failed = do_jobs([SMALL], tmp_path, Elsewhere())
    assert "its results did not arrive in" in failed[SMALL.name]


def test_a_job_that_is_another_one_elsewhere_is_not_done(tmp_path):
    task = jobs.Task(SMALL, "lending-elbert-po-0123456789", tmp_path, jobs.NO_STORE, ())
    assert "it is another training here" in str(task())


def test_a_signal_ends_the_work_and_says_how_to_go_on(tmp_path):
    class Slow(Here):
        def run(self, tasks):
            try:
                for _ in tasks:
                    os.kill(os.getpid(), signal.SIGINT)
                    yield None
            finally:
                self.done.append("closed")

    engine = Slow()
    with pytest.raises(InterruptedRunError, match=r"Stopped with 0 of 1 trainings done; .* The same command goes on"):
        do_jobs([SMALL], tmp_path, engine)
    assert engine.done == ["closed"], "which ends what runs"


def test_time_left_leaves_out_what_was_done_before(tmp_path, monkeypatch):
    """Half of one of two trainings was done before: red if it counts as the speed of this call."""
    clock = [0.0]
    monkeypatch.setattr(jobs.time, "monotonic", lambda: clock[0])

    class Known:
        def __init__(self):
            self.parts = {"a": 0.5, "b": 0.0}

        def manifest(self, name, folder):
            return {"iteration": self.parts[name], "iterations": 1}

    store = Known()
    looks = jobs._Looks(store, tmp_path, ["a", "b"])
    assert looks.running(()) == {"a": 0.5, "b": 0.0}
    assert looks.seconds_left(0.5, 2) is None
    clock[0] = 10.0
    store.parts = {"a": 0.75, "b": 0.25}
    done = sum(looks.running(()).values())
    assert done == 1.0
    assert looks.seconds_left(done, 2) == pytest.approx(20.0), "half a training in 10 s, one is left"
    assert looks.running({"a"}) == {"b": 0.25}


def test_looking_at_many_trainings_is_done_in_turns(tmp_path, monkeypatch):
    """A store that takes 0.6 s for each: red if one look would go through all of them."""
    clock, asked = [0.0], []
    monkeypatch.setattr(jobs.time, "monotonic", lambda: clock[0])

    class Slow:
        def manifest(self, name, folder):
            clock[0] += 0.6
            asked.append(name)
            return {"iteration": 1, "iterations": 2}

    looks = jobs._Looks(Slow(), tmp_path, list("abcd"))
    assert looks.running(()) == {"a": 0.5, "b": 0.5}
    clock[0] += 10.0
    assert len(looks.running(())) == 2, "1.2 s may be spent every 24 s"
    clock[0] += 20.0
    assert set(looks.running({"c"})) == {"a", "b", "d"}
    assert asked == ["a", "b", "d", "a"]


def test_cores_are_shared_out(tmp_path):
    if usable_cores() < 2:
        pytest.skip("one core cannot be shared out")
    script = "import os; from elbert.experiments.cores import take_cores; take_cores(1); "
    script += "print(*os.sched_getaffinity(0), flush=True); input()"
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    two = [
        subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(2)
    ]
    cores = [process.stdout.readline().split() for process in two]
    for process in two:
        process.communicate("\n")
    assert all(len(core) == 1 for core in cores)
    assert cores[0] != cores[1]
    before = os.sched_getaffinity(0)
    take_cores(10_000)
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("how", [{"workers": 0}, {"workers": 1.5}, {"cores": 0}])
def test_workers_and_cores_are_whole_numbers(how):
    with pytest.raises(InvalidInputError, match="at least 1"):
        Processes(**how)


def test_a_job_waits_for_a_process_that_still_holds_its_folder(tmp_path):
    """Red if a training that is started again fails because the one before it is just ending."""
    from filelock import FileLock

    run = tmp_path / SMALL.name
    run.mkdir()
    lock = FileLock(run / ".lock", thread_local=False)
    lock.acquire()
    threading.Timer(1.5, lock.release).start()
    assert do_jobs([SMALL], tmp_path, Here()) == {}
