"""Trainings as jobs: each is done once, several side by side, and an interrupted call goes on where it stopped."""

import hashlib
import json
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeAlias

from elbert.checks import as_whole
from elbert.envs import plain_parameters
from elbert.errors import ElbertError
from elbert.experiments.evaluate import Conditions, evaluate_policy, protocol_for
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
QUICK_STEPS = 0.4  # part of the preset's steps that a quick picture takes
ENOUGH = 0.05  # of a training, before the time left is estimated
TellRunning: TypeAlias = Callable[[int, Mapping[str, float]], None]  # trainings that ended; of each that runs, the part


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

    Returns the name of each job that failed, with the reason; the others are done. `workers` trainings run at a time:
    by default one for each core, but at most 8. Two or more run in separate processes, each on its share of the cores,
    because one training alone cannot use all cores all the time.
    """
    if workers is not None:
        as_whole(workers, "workers", "a whole number of at least 1", low=1)
    distinct = list({job.name: job for job in jobs}.values())
    waiting = [job for job in distinct if not finished(folder, job)]
    if not distinct:
        return {}
    keep_compiled()
    begun = time.monotonic()

    def tell(ended: int, running: Mapping[str, float]) -> None:
        seconds, done = time.monotonic() - begun, ended + sum(running.values())
        progress(
            Progress(
                activity="training",
                done=len(distinct) - len(waiting) + ended,
                total=len(distinct),
                unit="trainings",
                facts=", ".join(f"{name} {100 * part:.0f} %" for name, part in running.items()),
                left=seconds / done * (len(waiting) - done) if done > ENOUGH else None,
            )
        )

    tell(0, {})
    count = min(len(distinct), MOST_WORKERS, os.cpu_count() or 1) if workers is None else workers
    return _one_by_one(waiting, folder, tell) if count == 1 else _side_by_side(waiting, folder, count, tell)


def finished(folder: Path, job: Job) -> bool:
    """Whether the job's run has ended and its evaluation is there."""
    run = RunFolder(folder / job.name)
    try:
        return run.manifest["status"] == "finished" and run.evaluation() is not None
    except FileError:
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
        progress=None,
        **job.request.given,
    )
    evaluate_policy(RunFolder(path), Conditions(episodes=job.episodes), agents=agents, keep=True)


def _one_by_one(jobs: Sequence[Job], folder: Path, tell: TellRunning) -> dict[str, str]:
    failed: dict[str, str] = {}
    for ended, job in enumerate(jobs):

        def told(iteration: Iteration, ended: int = ended, name: str = job.name) -> None:
            tell(ended, {name: iteration.iteration / iteration.iterations})

        try:
            do_job(job, folder, [told])
        except (InterruptedRunError, FileError):
            raise
        except ElbertError as error:
            failed[job.name] = str(error)
        tell(ended + 1, {})
    return failed


def _side_by_side(jobs: Sequence[Job], folder: Path, workers: int, tell: TellRunning) -> dict[str, str]:
    context = multiprocessing.get_context("spawn")
    waiting, reasons = list(jobs), dict[str, str | None]()
    running: dict[int, tuple[Job, BaseProcess, Connection]] = {}
    with asked_to_stop() as asked:
        try:
            while (waiting or running) and not asked:
                for place in set(range(workers)) - set(running):
                    if waiting:
                        job = waiting.pop(0)
                        ours, theirs = context.Pipe(duplex=False)
                        process = context.Process(target=_work, args=(job, folder, place, workers, theirs))
                        process.start()
                        theirs.close()
                        running[place] = job, process, ours
                time.sleep(SECONDS_BETWEEN_LOOKS)
                for place, (job, process, ours) in list(running.items()):
                    if not process.is_alive():
                        reasons[job.name] = _reason(process, ours)
                        del running[place]
                tell(len(reasons), {job.name: _part_done(folder / job.name) for job, _, _ in running.values()})
        finally:
            for _, process, _ in running.values():
                process.terminate()  # which saves and ends
            for _, process, _ in running.values():
                process.join()
    if asked:
        raise InterruptedRunError(
            f"Stopped with {len(reasons)} of {len(jobs)} trainings done; everything is saved in {folder}. The same "
            "command goes on.",
            asked[0],
        )
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _work(job: Job, folder: Path, place: int, workers: int, answer: Connection) -> None:
    """A process: one job on its share of the cores. Its answer is why it failed, or None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal; the first one decides
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[place::workers] or cores)
    logging.basicConfig(level=logging.WARNING)
    keep_compiled()
    with answer:
        try:
            do_job(job, folder)
            answer.send(None)
        except Exception as error:
            answer.send(str(error) if isinstance(error, ElbertError) else f"{type(error).__name__}: {error}")


def _reason(process: BaseProcess, answer: Connection) -> str | None:
    process.join()
    with answer:
        try:
            return answer.recv()
        except EOFError:
            return f"its process ended with code {process.exitcode}"


def _part_done(path: Path) -> float:
    try:
        manifest = RunFolder(path).manifest
        return manifest["iteration"] / manifest["iterations"]
    except FileError:
        return 0.0
