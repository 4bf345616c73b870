"""Trainings as jobs: each is done once, several at a time, and an interrupted call goes on where it stopped."""

import hashlib
import json
import time
from collections import deque
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from elbert.envs import find_world, get_entry, plain_parameters
from elbert.errors import ElbertError
from elbert.experiments.evaluate import Conditions, evaluate_policy, protocol_for
from elbert.experiments.identity import identity
from elbert.experiments.presets import OWN
from elbert.experiments.registered import Registered, register_all, registered_here
from elbert.experiments.resolve import Request, resolve
from elbert.experiments.run_folder import RunFolder, has_writer
from elbert.experiments.run_session import InterruptedRunError, asked_to_stop
from elbert.experiments.store import NO_STORE, Store
from elbert.experiments.train import train_many
from elbert.files import FileError, make_folder
from elbert.learning import Environment, MethodLike
from elbert.progress import Progress, Tell, tell_nobody

SECONDS_BETWEEN_LOOKS = 0.5
PATIENCE = 60.0
"""Seconds that a job waits for a process that still holds its folder, as one does that was told to end."""
QUICK_STEPS = 0.4  # part of the preset's steps that a quick picture takes
ENOUGH = 0.05  # of a training, before the time left is estimated
MOST_SHOWN = 8  # trainings whose progress is named
LOOKING = 0.05  # part of the time that may be spent on looking how far trainings are
LONGEST_LOOK = 1.0  # seconds: with a store, every training that is looked at is a request


@dataclass(frozen=True)
class Job:
    """One training with its evaluation: all members side by side. Jobs that compute the same have the same folder."""

    env: Environment
    method: MethodLike
    preset: str = "fast"
    seeds: int | tuple[int, ...] = 3  # how many from 0 on, or which
    settings: Mapping[str, Any] = field(default_factory=dict)  # over the preset
    world: Mapping[str, Any] = field(default_factory=dict)  # over the preset's
    quick: bool = False  # fewer steps, unless `part` or the settings say how many, and fewer evaluation episodes
    part: float | None = None  # of the preset's steps, unless the settings say how many
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # coefficients that are trained side by side
    label: str = ""  # what the environment is called, where it is a user's own
    code: str = ""  # a digest of the user's code behind it
    cores: int = 1  # on which it is trained: its last bits depend on them
    judged: bool = False  # whether it is also evaluated by every notion that applies: `Entry.judging`

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: what follows from them is computed again where it is needed."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def world_name(self) -> str:
        """The name of the world; `OWN` for everything that is not called by its name."""
        entry = find_world(self.env) if isinstance(self.env, str) else None
        return OWN if entry is None else entry.name

    @cached_property
    def request(self) -> Request:
        """The training, complete."""
        how: dict[str, Any] = {"preset": self.preset, "world": self.world, "seeds": self.seeds, "grid": self.grid}
        usual = resolve(self.world_name, self.method, settings=self.settings, **how)
        part = QUICK_STEPS if self.quick and self.part is None else self.part
        if part is None or "steps" in self.settings:
            return usual
        steps = max(usual.settings.batch, int(part * usual.settings.steps))
        return resolve(self.world_name, self.method, settings={**self.settings, "steps": steps}, **how)

    @property
    def extent(self) -> dict[str, Any]:
        """What the trainings of an experiment have in common, for JSON; `plans_for` takes it back."""
        return {"preset": self.preset, "seeds": self.seeds, "quick": self.quick, "part": self.part}

    @property
    def episodes(self) -> int:
        """Number of episodes of the evaluation."""
        episodes = protocol_for("default", self.world_name).episodes
        return max(2, episodes // 4) if self.quick else episodes

    @property
    def judging(self) -> Mapping[str, Any]:
        """Parameters of the world that count every notion, where several apply and they are asked for."""
        return get_entry(self.world_name).judging if self.judged and self.world_name != OWN else {}

    @property
    def env_name(self) -> str:
        """What the environment is called."""
        return self.world_name if self.world_name != OWN else self.label or identity(self.env).partition(" ")[0]

    @property
    def method_name(self) -> str:
        """What the method is called."""
        return self.request.method.name

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
        content |= {"grid": self.grid} if self.grid else {}
        content |= {"env": self.label or identity(self.env)} if self.world_name == OWN else {}
        content |= {"code": self.code} if self.code else {}
        content |= {"cores": self.cores} if self.cores != 1 else {}
        content |= {"judged": dict(self.judging)} if self.judging else {}
        digest = hashlib.sha256(json.dumps(content, sort_keys=True, default=identity).encode()).hexdigest()
        last = self.env_name.rpartition("/")[2]
        words = f"{last[:60]}-{self.method_name[:60]}"
        readable = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in words)
        return f"{readable}-{digest[:10]}"


def finished(run: RunFolder) -> bool:
    """Whether a run has ended and its evaluations are there."""
    try:
        return run.manifest["status"] == "finished" and all(part.evaluation() for part in run.parts().values())
    except FileError:
        return False


def do_job(job: Job, path: Path) -> None:
    """Train in this folder, or go on with what is there, and evaluate."""
    until = time.monotonic() + PATIENCE
    while path.is_dir() and has_writer(path) and time.monotonic() < until:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    request = job.request
    agents = train_many(
        job.env,
        seeds=job.seeds,
        grid=job.grid,
        method=job.method,
        preset=job.preset,
        world=job.world,
        out=path,
        resume=True,
        progress=None,
        **{name: value for name, value in request.given.items() if name not in job.grid},
    )
    conditions = Conditions(
        episodes=job.episodes if job.quick else None, env=job.env if job.world_name == OWN else None
    )
    for run in RunFolder(path).parts().values():
        own = agents if run.part is None else [agents[i] for i in run.part.members]
        if job.judging and run.judged() is None:
            run.keep_judged(evaluate_policy(own, replace(conditions, world=job.judging)))
        if run.evaluation() is None:
            evaluate_policy(run, conditions, agents=own, keep=True)


@dataclass(frozen=True)
class Task:
    """A job as it travels to the process that does it."""

    job: Job
    name: str
    folder: Path
    store: Store
    registered: tuple[Registered, ...]

    def __call__(self) -> str | None:
        """Do it; why it failed, or None."""
        from elbert.experiments.jit_cache import keep_compiled

        keep_compiled()
        try:
            register_all(self.registered)
            if self.job.name != self.name:
                return "it is another training here: its preset, or the version of elbert, differs from the driver's"
            with self.store.kept(self.name, self.folder) as path:
                do_job(self.job, path)
        except InterruptedRunError:
            raise
        except Exception as error:
            return str(error) if isinstance(error, ElbertError) else f"{type(error).__name__}: {error}"
        return None


class Ended(NamedTuple):
    """A task that ended."""

    name: str
    reason: str | None  # why it failed; None if it did not


class Engine(Protocol):
    """What does tasks, several at a time, each in another process."""

    def run(self, tasks: Sequence[Task]) -> Generator[Ended | None]:
        """Do them; yields each that ended, and None now and then. Closed early, it ends what runs, which saves."""
        ...


def do_jobs(
    jobs: Sequence[Job], folder: Path, engine: Engine, *, store: Store = NO_STORE, progress: Tell = tell_nobody
) -> dict[str, str]:
    """Train and evaluate each job in `folder / job.name`; what is finished there is not done again.

    Returns the name of each job that failed, with the reason; the others are done.
    """
    distinct = {job.name: job for job in jobs}
    waiting = {name: job for name, job in distinct.items() if not _is_done(store, name, folder)}
    registered, failed, ended = registered_here(), dict[str, str](), set[str]()
    tasks = [Task(job, name, folder.absolute(), store, registered) for name, job in waiting.items()]
    looks = _Looks(store, folder, list(waiting))
    if waiting:
        make_folder(folder)  # which tells nodes that do not see it from those that do

    def tell() -> None:
        running = looks.running(ended)
        done = len(ended) + sum(running.values())
        progress(
            Progress(
                activity="training",
                done=len(distinct) - len(waiting) + len(ended),
                total=len(distinct),
                unit="trainings",
                facts=", ".join(f"{name} {100 * part:.0f} %" for name, part in list(running.items())[:MOST_SHOWN]),
                left=looks.seconds_left(done, len(waiting)),
            )
        )

    def results_of(name: str) -> str | None:
        """Bring the results of a task that ended here; why that failed, or None."""
        try:
            store.fetch_results(name, folder)
        except FileError as error:
            return str(error)
        there = finished(RunFolder(folder / name))
        return None if there else f"it ended, but its results did not arrive in {folder / name}"

    if distinct:
        tell()
    with asked_to_stop() as asked, closing(engine.run(tasks)) as events:
        for event in events:
            if asked:
                progress(Progress("saving (again: end at once)", len(ended), len(waiting), "trainings"))
                break
            if event is not None:
                ended.add(event.name)
                reason = results_of(event.name) if event.reason is None else event.reason
                failed |= {} if reason is None else {event.name: reason}
            tell()
    if asked:
        raise InterruptedRunError(
            f"Stopped with {len(ended) - len(failed)} of {len(waiting)} trainings done; everything is saved in "
            f"{store.address or folder}. The same command goes on."
            + "".join(f" Failed: {name}: {reason}" for name, reason in failed.items()),
            asked[0],
        )
    return failed


def _is_done(store: Store, name: str, folder: Path) -> bool:
    """Whether a job is done, here or in the store, from where its results are fetched."""
    return finished(RunFolder(folder / name)) or (
        store.fetch_results(name, folder) and finished(RunFolder(folder / name))
    )


class _Looks:
    """How far the trainings of a folder are; where looking takes long, it is done in turns and less often."""

    def __init__(self, store: Store, folder: Path, names: Sequence[str]) -> None:
        self.store, self.folder = store, folder
        self.begun = time.monotonic()
        self._turns, self._next = deque(names), 0.0
        self._parts: dict[str, float] = {}
        self._before: dict[str, float] = {}  # what an earlier call had done of each, as far as it was looked at

    def running(self, ended: Collection[str]) -> dict[str, float]:
        """Of each training that began and has not ended, the part that was done when it was last looked at."""
        now = time.monotonic()
        if now >= self._next:
            for _ in range(len(self._turns)):
                name = self._turns.popleft()
                if name in ended:
                    continue
                self._turns.append(name)
                if (part := self._part(name)) is not None:
                    self._parts[name] = part
                self._before.setdefault(name, part or 0.0)
                if time.monotonic() - now > LONGEST_LOOK:
                    break
            self._next = time.monotonic() + (time.monotonic() - now) / LOOKING
        return {name: part for name, part in self._parts.items() if name not in ended}

    def _part(self, name: str) -> float | None:
        try:
            manifest = self.store.manifest(name, self.folder)
            return None if manifest is None else manifest["iteration"] / manifest["iterations"]
        except (FileError, KeyError):
            return None

    def seconds_left(self, done: float, total: int) -> float | None:
        """From what was done since the beginning; None if that is too little to tell."""
        new = done - sum(self._before.values())
        return (time.monotonic() - self.begun) / new * (total - done) if new > ENOUGH else None
