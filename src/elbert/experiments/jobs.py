"""Trainings as jobs: each is done once, several side by side, and an interrupted call goes on where it stopped."""

import hashlib
import json
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from elbert.checks import as_whole
from elbert.envs import plain_parameters
from elbert.errors import ElbertError
from elbert.experiments.evaluate import Conditions, evaluate_run, protocol_for
from elbert.experiments.jit_cache import keep_compiled
from elbert.experiments.resolve import Request, resolve
from elbert.experiments.run_folder import RunFolder
from elbert.experiments.run_session import InterruptedRunError, asked_to_stop
from elbert.experiments.train import train_many
from elbert.files import FileError
from elbert.learning import Callback, Iteration
from elbert.progress import Progress, Tell, tell_nobody

SECONDS_BETWEEN_LOOKS = 0.5
MOST_WORKERS = 8
QUICK_STEPS = 0.4
"""Part of the preset's steps that a quick picture takes."""

ENOUGH_SECONDS, ENOUGH_DONE = 5.0, 0.05
"""The time left is estimated once this many seconds have passed and this part of a training is done."""


@dataclass(frozen=True)
class Job:
    """One training with its evaluation: all seeds side by side. Jobs that compute the same have the same folder."""

    env: str
    method: str
    preset: str = "fast"
    seeds: int | tuple[int, ...] = 3  # how many from 0 on, or which
    settings: Mapping[str, Any] = field(default_factory=dict)  # over the preset
    world: Mapping[str, Any] = field(default_factory=dict)  # over the preset's
    quick: bool = False

    @cached_property
    def request(self) -> Request:
        """The training, complete."""
        how: dict[str, Any] = {"preset": self.preset, "world": self.world, "seeds": self.seeds}
        usual = resolve(self.env, self.method, settings=self.settings, **how)
        if not self.quick or "steps" in self.settings:
            return usual
        steps = max(usual.settings.batch, int(QUICK_STEPS * usual.settings.steps))
        return resolve(self.env, self.method, settings={**self.settings, "steps": steps}, **how)

    @property
    def changes(self) -> dict[str, Any]:
        """Settings to be asked for over the preset."""
        return dict(self.settings) | ({"steps": self.request.settings.steps} if self.quick else {})

    @property
    def episodes(self) -> int:
        """Number of episodes of the evaluation."""
        episodes = protocol_for("default", self.env).episodes
        return max(2, episodes // 4) if self.quick else episodes

    @cached_property
    def name(self) -> str:
        """Name of the folder: readable, and different for whatever makes a difference."""
        request = self.request
        content = {
            "preset": self.preset,
            "seeds": self.seeds,
            "settings": request.settings.to_dict() | request.method.to_dict(),
            "world": plain_parameters(request.world),
            "episodes": self.episodes,
        }
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return f"{self.env}-{self.method}-{digest[:10]}"


def do_jobs(
    jobs: Sequence[Job], folder: Path, *, workers: int | None = None, progress: Tell = tell_nobody
) -> dict[str, str]:
    """Train and evaluate each job in `folder / job.name`; what is finished there is not done again.

    Returns for each job that failed its name and why; the others are done. `workers` trainings run at a time, by
    default one for each core, but at most 8. Two or more are processes of their own, each on its share of the cores: a
    training alone cannot use all cores all the time.
    """
    if workers is not None:
        as_whole(workers, "workers", "a whole number of at least 1", low=1)
    distinct = list({job.name: job for job in jobs}.values())
    waiting = [job for job in distinct if not finished(folder, job)]
    if not distinct:
        return {}
    keep_compiled()
    board = _Board(len(distinct), len(waiting), progress)
    board.show()
    count = min(len(distinct), MOST_WORKERS, os.cpu_count() or 1) if workers is None else workers
    return _one_by_one(waiting, folder, board) if count == 1 else _side_by_side(waiting, folder, count, board)


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
    agents = train_many(
        job.env,
        seeds=job.seeds,
        method=job.method,
        preset=job.preset,
        world=job.world,
        out=path,
        resume=True,
        callbacks=callbacks,
        **job.changes,
    )
    evaluate_run(RunFolder(path), Conditions(episodes=job.episodes), agents=agents, keep=True)


class _Board:
    """Keeps how far the trainings are and tells it."""

    def __init__(self, total: int, waiting: int, progress: Tell) -> None:
        self.total, self.waiting, self.progress = total, waiting, progress
        self.ended = 0
        self.begun = time.monotonic()

    @property
    def done(self) -> int:
        """Trainings that are done, also those that were done before."""
        return self.total - self.waiting + self.ended

    def show(self, running: Mapping[str, float] | None = None) -> None:
        """Tell, with the name of each training that runs and the part of it that is done."""
        running = running or {}
        seconds = time.monotonic() - self.begun
        part = self.ended + sum(running.values())
        enough = part > ENOUGH_DONE and seconds > ENOUGH_SECONDS
        self.progress(
            Progress(
                activity="training",
                done=self.done,
                total=self.total,
                unit="trainings",
                facts=", ".join(f"{name} {100 * fraction:.0f} %" for name, fraction in running.items()),
                left=seconds / part * (self.waiting - part) if enough else None,
            )
        )


def _one_by_one(jobs: Sequence[Job], folder: Path, board: _Board) -> dict[str, str]:
    failed: dict[str, str] = {}
    for job in jobs:

        def told(iteration: Iteration, name: str = job.name) -> None:
            board.show({name: iteration.iteration / iteration.iterations})

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
                board.show({job.name: _part_done(folder / job.name) for job, _, _ in running.values()})
        finally:
            for _, process, _ in running.values():
                process.terminate()  # which saves and ends
            for _, process, _ in running.values():
                process.join()
    if asked:
        raise InterruptedRunError(
            f"Stopped with {board.done} of {board.total} trainings done; everything is saved in {folder}. The same "
            "command goes on.",
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


def _part_done(path: Path) -> float:
    try:
        manifest: dict[str, Any] = RunFolder(path).manifest
        return manifest["iteration"] / manifest["iterations"]
    except (FileError, KeyError, ZeroDivisionError):
        return 0.0
