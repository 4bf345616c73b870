"""Doing the trainings of experiments: each once, several side by side, from where an earlier call stopped."""

import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeAlias

from elbert.errors import ElbertError, InvalidInputError
from elbert.experiments.jit_cache import keep_compiled
from elbert.experiments.paper import Experiment, Job
from elbert.experiments.results import evaluate_run
from elbert.experiments.run_folder import RunFolder
from elbert.experiments.run_session import InterruptedRunError, asked_to_stop
from elbert.experiments.train import train_many
from elbert.files import FileError
from elbert.learning import Callback, Iteration

SECONDS_BETWEEN_LOOKS = 0.5
MOST_WORKERS = 8


@dataclass(frozen=True)
class Standing:
    """How far the trainings are."""

    done: int  # trainings that are finished, also those found finished
    total: int
    running: tuple[tuple[str, float], ...]  # name and part done
    seconds: float  # since the start of this call
    left: float | None  # seconds, once enough is known


Teller: TypeAlias = Callable[[Standing], None]


def train_experiments(
    plans: Sequence[Experiment], folder: Path, *, workers: int | None, tell: Teller
) -> dict[str, str]:
    """Do every training of these experiments once; `workers` None takes one for each core. Returns what failed."""
    jobs = {job.name: job for plan in plans for job in plan.jobs}
    if not jobs:
        return {}
    keep_compiled()
    count = min(len(jobs), MOST_WORKERS, os.cpu_count() or 1) if workers is None else workers
    return do_jobs(list(jobs.values()), folder, workers=count, tell=tell)


def do_jobs(
    jobs: Sequence[Job], folder: Path, *, workers: int = 1, tell: Teller = lambda standing: None
) -> dict[str, str]:
    """Train and evaluate each job in `folder / job.name`; what is finished there is not done again.

    Args:
        jobs: each once.
        folder: of all runs.
        workers: trainings at a time. Two or more are processes of their own, each on its share of the cores: what
            cannot be spread over cores within a training is spread over trainings.
        tell: is called with the standing, about twice a second.

    Returns:
        Why, for those that failed; the others are there.
    """
    if workers < 1:
        raise InvalidInputError(f"workers is {workers}. Give a whole number of at least 1.")
    waiting = [job for job in jobs if not finished(folder, job)]
    board = _Board(len(jobs), len(waiting), tell)
    board.show()
    return _one_by_one(waiting, folder, board) if workers == 1 else _side_by_side(waiting, folder, workers, board)


def finished(folder: Path, job: Job) -> bool:
    """Whether the job's run has ended and its evaluation is there."""
    run = RunFolder(folder / job.name)
    try:
        return run.manifest["status"] == "finished" and run.evaluation() is not None
    except (FileError, KeyError):
        return False


def do_job(job: Job, folder: Path, callbacks: Sequence[Callback] = ()) -> None:
    """Train, or go on, and evaluate."""
    path = folder / job.name
    train_many(
        job.env,
        seeds=job.seeds,
        method=job.method,
        preset=job.preset,
        world=job.world,
        out=path,
        resume=True,
        callbacks=callbacks,
        **job.given,
    )
    evaluate_run(path, episodes=job.episodes)


class _Board:
    """Keeps the standing and tells it."""

    def __init__(self, total: int, waiting: int, tell: Teller) -> None:
        self.total, self.waiting, self.tell = total, waiting, tell
        self.ended = 0
        self.begun = time.monotonic()

    def show(self, running: Sequence[tuple[str, float]] = ()) -> None:
        seconds = time.monotonic() - self.begun
        part = self.ended + sum(fraction for _, fraction in running)
        left = seconds / part * (self.waiting - part) if part > 0.05 and seconds > 5 else None
        self.tell(Standing(self.total - self.waiting + self.ended, self.total, tuple(running), seconds, left))


def _one_by_one(jobs: Sequence[Job], folder: Path, board: _Board) -> dict[str, str]:
    failed: dict[str, str] = {}
    for job in jobs:

        def told(progress: Iteration, name: str = job.name) -> None:
            board.show([(name, progress.iteration / progress.iterations)])

        try:
            do_job(job, folder, [told])
        except (InterruptedRunError, FileError):
            raise
        except ElbertError as error:
            failed[job.name] = str(error)
        board.ended += 1
        board.show()
    return failed


def _side_by_side(jobs: Sequence[Job], folder: Path, workers: int, board: _Board) -> dict[str, str]:
    context = multiprocessing.get_context("spawn")
    waiting, failed = list(jobs), dict[str, str]()
    running: dict[int, tuple[Job, BaseProcess, Connection]] = {}
    with asked_to_stop() as asked:
        try:
            while (waiting or running) and not asked:
                for place in range(workers):
                    if place not in running and waiting:
                        job = waiting.pop(0)
                        ours, theirs = context.Pipe(duplex=False)
                        process = context.Process(target=_work, args=(job, folder, place, workers, theirs))
                        process.start()
                        theirs.close()
                        running[place] = job, process, ours
                time.sleep(SECONDS_BETWEEN_LOOKS)
                for place, (job, process, ours) in list(running.items()):
                    if process.is_alive():
                        continue
                    reason = _reason(process, ours)
                    if reason is not None:
                        failed[job.name] = reason
                    del running[place]
                    board.ended += 1
                board.show([(job.name, _part(folder / job.name)) for job, _, _ in running.values()])
        finally:
            for _, process, _ in running.values():
                process.terminate()  # which saves and ends
            for _, process, _ in running.values():
                process.join()
    if asked:
        raise InterruptedRunError(
            f"Stopped with {board.total - board.waiting + board.ended} of {board.total} trainings done; everything is "
            f"saved in {folder}. The same command goes on.",
            asked[0],
        )
    return failed


def _work(job: Job, folder: Path, place: int, workers: int, answer: Connection) -> None:
    """A process: one job on its share of the cores. Its answer is why it failed, or None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal; the first one decides
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[place::workers] or cores)
    logging.basicConfig(level=logging.WARNING)
    keep_compiled()
    reason: str | None = None
    try:
        do_job(job, folder)
    except ElbertError as error:
        reason = str(error)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    answer.send(reason)
    answer.close()


def _reason(process: BaseProcess, answer: Connection) -> str | None:
    process.join()
    try:
        return answer.recv() if answer.poll() else f"its process ended with code {process.exitcode}"
    except EOFError:
        return f"its process ended with code {process.exitcode}"
    finally:
        answer.close()


def _part(path: Path) -> float:
    try:
        manifest: dict[str, Any] = RunFolder(path).manifest
        return manifest["iteration"] / manifest["iterations"]
    except (FileError, KeyError, ZeroDivisionError):
        return 0.0
