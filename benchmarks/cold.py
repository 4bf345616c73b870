"""Trainings from a cold start: each job in a process of its own that compiles everything, with its wall time."""

import multiprocessing
import os
import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from elbert.experiments.jobs import Job, do_job, finished
from elbert.experiments.run_folder import RunFolder
from elbert.files import read_json, write_json
from elbert.learning.result import Result


@dataclass(frozen=True)
class Timed:
    """What a job did in fresh episodes, and how long it took from the start of its process."""

    result: Result
    seconds: float


def train_cold(job: Job, folder: Path) -> Timed:
    """Train and evaluate a job on all cores; one that is done is not done again."""
    wall = folder / job.name / "wall.json"
    if not (finished(RunFolder(folder / job.name)) and wall.exists()):
        print(f"training {job.name} ...", file=sys.stderr, flush=True)
        process = multiprocessing.get_context("spawn").Process(target=do_job, args=(job, folder / job.name))
        begun = time.monotonic()
        process.start()
        process.join()
        if process.exitcode != 0:
            sys.exit(f"{job.name} failed with exit code {process.exitcode}.")
        write_json(wall, {"seconds": time.monotonic() - begun})
    result = RunFolder(folder / job.name).evaluation()
    assert result is not None
    return Timed(result, read_json(wall)["seconds"])


def machine() -> str:
    """Where the numbers come from."""
    return f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}"
