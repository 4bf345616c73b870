"""What a sweep costs besides its trainings, on one machine and on a Ray cluster: the constants of docs/scale.md.

    python benchmarks/scale.py [--ray] [--only PART ...] [--folder FOLDER]

PART is plan, tasks, throughput, files or record. With --ray, three nodes of one core each are started on this machine;
tasks are then also Ray's, and the record compares 24 trainings on the nodes with the same ones in processes, to the
bit. Times are of one run: note what else the machine does.
"""
# pyright: reportMissingImports=false

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import elbert
from elbert.experiments.jobs import Engine, finished
from elbert.experiments.plan import plan_from
from elbert.experiments.processes import Processes
from elbert.experiments.ray_tasks import RayTasks
from elbert.experiments.run_folder import RunFolder
from elbert.experiments.sweep import read_sweep
from elbert.files import read_tensors

SMALL: dict[str, Any] = {"copies": 4, "rollout": 64, "minibatch": 64, "hidden": [[16]], "epochs": 1}
TASKS = 1_000
MEMORY = 100 * 2**20  # bytes of a node's object store


@dataclass(frozen=True)
class Nothing:
    """A task without work."""

    name: str

    def __call__(self) -> None:
        """Do nothing."""


def seconds_of(act: Callable[[], Any]) -> float:
    """How long a call takes."""
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


@contextmanager
def three_nodes() -> Iterator[str]:
    """The address of a cluster on this machine, whose workers find the package and the examples."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "200")  # on a busy machine
    os.environ.setdefault("RAY_worker_niceness", "0")  # as the processes that they are compared with
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    from ray.cluster_utils import Cluster

    begun = time.perf_counter()
    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": MEMORY}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
        cluster.wait_for_nodes()
        print(f"three nodes started: {time.perf_counter() - begun:.1f} s")
        yield str(cluster.address)
    finally:
        cluster.shutdown()


def measure_plan() -> None:
    """How long it takes to plan."""
    for seeds in (4, 1):
        how = {"side_by_side": seeds, "max_bias": [round(0.001 * (1 + i), 3) for i in range(250)], "seeds": seeds}
        grid = {"env": ["lending", "infectious", "attention", "attention-harder"], **how}
        begun = time.perf_counter()
        plan = plan_from(grid)
        spent = time.perf_counter() - begun
        print(f"a plan of {len(plan.rows)} rows, {len(plan.jobs)} jobs: {spent:.2f} s")


def measure_tasks(engine: Engine, name: str) -> None:
    """What a task costs besides its work: the first one starts a worker."""

    def run(number: int) -> float:
        tasks: Any = [Nothing(f"nothing-{i}") for i in range(number)]
        return seconds_of(lambda: [event for event in engine.run(tasks) if event is not None])

    print(f"{name}: first task {run(1):.2f} s")
    run(8)  # whatever workers there are have started now
    for number in (TASKS, 4 * TASKS):
        print(f"{name}: {number} tasks without work: {1e3 * run(number) / number:.2f} ms each")


def measure_throughput(folder: Path) -> None:
    """The same trainings with one worker and with two, after one call that compiles; then those that are done."""
    grid = {"env": "infectious", "method": "g-ppo", "seeds": 24, "side_by_side": 1, **SMALL, "steps": 4 * 64 * 400}
    spent = {}
    elbert.sweep(grid | {"seeds": [99]}, out=folder / "first", workers=1, progress=None)
    for workers in (1, 2):
        out = folder / f"workers-{workers}"
        spent[workers] = seconds_of(lambda o=out, w=workers: elbert.sweep(grid, out=o, workers=w, progress=None))
        inside = sum(RunFolder(run).manifest["seconds"] for run in sorted((out / "runs").iterdir()))
        print(f"24 trainings, workers={workers}: {spent[workers]:.1f} s, of which {inside:.1f} s in iterations")
    again = seconds_of(lambda: elbert.sweep(grid, out=folder / "workers-2", workers=2, progress=None))
    print(f"two workers: {spent[1] / spent[2]:.2f} times as fast as one; all done already: {again:.2f} s")


def measure_files(folder: Path) -> None:
    """Sizes of what is written, and the time to read it back."""
    elbert.sweep(env="lending", method="g-ppo", seeds=4, steps=1, out=folder, workers=1, progress=None)
    run = next((folder / "runs").iterdir())
    sizes = {path.relative_to(run).as_posix(): path.stat().st_size for path in run.rglob("*") if path.is_file()}
    checkpoint = max(size for name, size in sizes.items() if name.startswith("checkpoints"))
    results = [size for name, size in sizes.items() if not name.startswith("checkpoints")]
    print(
        f"lending, preset fast, 4 policies: checkpoint {checkpoint / 1e3:.0f} kB, everything else "
        f"{sum(results) / 1e3:.0f} kB in {len(results)} files"
    )
    run, rounds = RunFolder(next((folder / "runs").iterdir())), range(100)
    print(f"is a run finished: {10 * seconds_of(lambda: [finished(run) for _ in rounds]):.2f} ms")
    print(f"its manifest: {10 * seconds_of(lambda: [run.manifest for _ in rounds]):.2f} ms")
    print(f"results of a row of one run: {10 * seconds_of(lambda: [read_sweep(folder) for _ in rounds]):.2f} ms")


def measure_record(folder: Path, address: str) -> None:
    """24 trainings on three nodes and in two processes: times, and whether their policies are the same to the bit."""
    worlds = {"env": "infectious", "method": ["elbert-po", "g-ppo"], "seeds": 10}
    own = {"env": "examples.own_environment:make", "method": "elbert-po", "alpha": 100.0, "seeds": 4}
    grids = [{**grid, **SMALL, "steps": 4 * 64 * 24} for grid in (worlds, own)]
    ways: dict[str, Any] = {"ray": {"ray": address}, "processes": {"workers": 2}}
    agents: list[Path] = []
    for name, how in ways.items():
        plan: Any = {"grid": grids, "side_by_side": 1}
        spent = seconds_of(lambda h=how, n=name, p=plan: elbert.sweep(p, out=folder / n, progress=None, **h))
        agents = sorted((folder / name).glob("runs/*/agent.safetensors"))
        print(f"{len(agents)} trainings, {name}: {spent:.1f} s")
    alike = sum(
        _same(read_tensors(path)[0], read_tensors(folder / "ray" / path.relative_to(folder / "processes"))[0])
        for path in agents
    )
    print(f"{alike} of {len(agents)} policies are the same to the bit")


def _same(arrays: dict[str, Any], others: dict[str, Any]) -> bool:
    return arrays.keys() == others.keys() and all(np.array_equal(arrays[name], others[name]) for name in arrays)


def main() -> None:
    """Measure one part, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--only", nargs="+", choices=("plan", "tasks", "throughput", "files", "record"))
    parser.add_argument("--folder", type=Path, help="where runs are kept; a temporary folder by default")
    given = parser.parse_args()
    os.chdir(ROOT)

    def asked(part: str) -> bool:
        return given.only is None or part in given.only

    with ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="elbert-scale-")))
        address = stack.enter_context(three_nodes()) if given.ray else ""  # Ray forks: before JAX has threads
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        if asked("plan"):
            measure_plan()
        if asked("tasks"):
            with Processes(1) as engine:
                measure_tasks(engine, "a process")
        if asked("throughput"):
            measure_throughput(folder)
        if asked("files"):
            measure_files(folder / "files")
        if given.ray and asked("tasks"):
            with RayTasks(address) as engine:
                measure_tasks(engine, "Ray")
        if given.ray and asked("record"):
            measure_record(folder, address)
        print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
