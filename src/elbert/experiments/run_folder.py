"""A run is a folder: configuration, manifest, metrics, checkpoints, agents. It can be read at any moment.

docs/learning.md lists its files. Those in JSON carry a digest and are refused if they were edited. All are written
whole except metrics.csv, to which rows are added.
"""

import contextlib
import hashlib
import os
import platform
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from elbert.errors import InvalidInputError
from elbert.experiments.run_metrics import MetricsFile, read_history, read_metrics
from elbert.files import (
    FileError,
    as_path,
    read_bytes,
    read_sealed,
    read_tensors,
    record_from,
    remove_begun,
    write_sealed,
    write_tensors,
)
from elbert.learning import Agent, Trainer
from elbert.learning.result import Result
from elbert.learning.trees import MismatchError

FORMAT = 2
LOCK = ".lock"
NO_LIMIT = 1e6  # a limit on the bias that stands for none: no policy comes near it, so the bias weighs next to nothing
KEPT = 2  # checkpoints: if the latest is damaged, there is one before it
PACKAGES = ("elbert", "jax", "jaxlib", "numpy", "equinox", "optax", "gymnasium")

REMEDIES = {  # for a file that was edited
    "config.json": (
        "Put the original back, or train again in another folder. A run of elbert 0.1.0 has no digests: read it "
        "with that version."
    ),
    "manifest.json": "Remove it and go on with --resume (resume=True in Python), which writes it again.",
    "evaluation.json": "Remove it; `elbert evaluate` makes it again.",
}


@contextlib.contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Keep everybody else from training in this folder meanwhile."""
    from filelock import FileLock, Timeout

    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path / LOCK)
        lock.acquire(timeout=1.0)  # `elbert runs` holds it for a moment while it looks
    except Timeout as error:
        raise InvalidInputError(
            f"Another process trains in {path} now. Wait for it, or give another folder."
        ) from error
    except OSError as error:
        raise FileError(
            f"Cannot write {path} ({error.strerror or error}). Name a folder that can be written."
        ) from error
    try:
        for folder in (path, path / "checkpoints", path / "candidates"):
            remove_begun(folder)
        yield
    finally:
        lock.release()


def has_writer(path: Path) -> bool:
    """Whether somebody trains in this folder: holds the lock, which the system takes back from a process that died."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(path / LOCK, timeout=0):
            return False
    except (Timeout, OSError):  # held, or a folder of somebody else's
        return True


class RunFolder:
    """The folder of a run that exists, or of one to be created by `create`.

    A run of several coefficients has `parts`: each is the same folder with the policies of one combination, and keeps
    an evaluation of its own.
    """

    def __init__(self, path: Path, *, part: "Part | None" = None) -> None:
        self.path, self.part = as_path(path, "The folder of the run"), part
        self.metrics = MetricsFile(self.path)

    @property
    def coefficients(self) -> dict[str, Any]:
        """In which this part differs from the others; {} where there are none."""
        return {} if self.part is None else self.part.coefficients

    def parts(self) -> "dict[str, RunFolder]":
        """The run by its coefficients, for example under "alpha=1000"; {"": itself} where they are all the same."""
        members: dict[str, list[int]] = {}
        every = self.config.get("coefficients", [])
        for i, coefficients in enumerate(every):
            members.setdefault(coefficients_text(coefficients), []).append(i)
        if self.part is not None or len(members) < 2:
            return {"": self}
        return {
            label: RunFolder(self.path, part=Part(number, tuple(places), every[places[0]]))
            for number, (label, places) in enumerate(members.items())
        }

    def columns(self) -> dict[str, Any]:
        """The metrics of the run, or of this part, as `read_metrics` gives them."""
        columns = read_metrics(self.path)
        return columns if self.part is None else {name: each[:, self.part.members] for name, each in columns.items()}

    def create(self, config: dict[str, Any]) -> None:
        """Write the configuration and a first manifest; a folder that holds something is never overwritten."""
        path = self.path
        try:
            taken = path.exists() and (not path.is_dir() or any(entry.name != LOCK for entry in path.iterdir()))
        except OSError as error:
            raise FileError(f"Cannot look into {path} ({error.strerror or error}).") from error
        if taken:
            raise InvalidInputError(
                f"{path} is not empty. Go on with the run in it (--resume, or resume=True), or give another folder."
            )
        write_sealed(path / "config.json", {"format": FORMAT, **config})
        self.note()

    @property
    def config(self) -> dict[str, Any]:
        """What was asked for."""
        return self._read("config.json")

    @property
    def world(self) -> dict[str, Any] | None:
        """The world's parameters but for the horizon, which protocols set; None in a user's environment."""
        parameters = self.config["parameters"]
        return None if parameters is None else {name: value for name, value in parameters.items() if name != "horizon"}

    @property
    def manifest(self) -> dict[str, Any]:
        """Where it ran and how it ended; a first one if the run was killed before it had any."""
        return self._read("manifest.json") if (self.path / "manifest.json").exists() else _manifest(self.config)

    def _read(self, name: str) -> dict[str, Any]:
        self._check_is_there()
        return read_sealed(self.path / name, remedy=REMEDIES.get(name, REMEDIES["evaluation.json"]))

    def note(self, **changes: Any) -> None:
        """Change entries of the manifest."""
        write_sealed(self.path / "manifest.json", self.manifest | {"updated": _now()} | changes)

    def checkpoint(
        self, trainer: Trainer, agents: Sequence[Agent] | None = None, *, status: str = "running", **more: Any
    ) -> None:
        """Write metrics, training state, agents (the trainer's, if none are given) and manifest, in this order."""
        agents = trainer.agents() if agents is None else agents
        self.metrics.write()
        about = {"iteration": trainer.iteration, "seconds": trainer.seconds}
        write_tensors(self.checkpoint_path(trainer.iteration), trainer.stored(), about)
        for i, agent in enumerate(agents):
            agent.save(self.path / (f"agent-{i}" if len(agents) > 1 else "agent"))
        self.note(status=status, iteration=trainer.iteration, seconds=trainer.seconds, **more)
        for old in self._checkpoints()[KEPT:]:
            with contextlib.suppress(OSError):  # a file too many does no harm
                old.unlink()

    def restore(self, trainer: Trainer) -> list[str]:
        """Put the latest intact checkpoint back; says which damaged ones were passed over."""
        passed: list[str] = []
        for path in self._checkpoints():
            try:
                arrays, about = read_tensors(path)
                trainer.restore(arrays, about["iteration"], about["seconds"])
            except FileError as error:
                passed.append(str(error))
            except (MismatchError, KeyError, TypeError) as error:
                passed.append(f"{path} does not fit this run: {error}.")
            else:
                break
        else:
            if passed:
                raise FileError(
                    f"No checkpoint in {self.path / 'checkpoints'} can be read. {' '.join(passed)} Train again in "
                    "another folder."
                )
        self.metrics.cut(trainer.iteration)  # to none if the run was stopped before its first checkpoint
        return passed

    def agents(self) -> list[Agent]:
        """The agents of the latest checkpoint, one per seed."""
        self._check_is_there()
        paths = self._agents()
        if not paths:
            raise FileError(f"{self.path} holds no agent yet.")
        return [
            replace(Agent.load(path), recorded=partial(read_history, self.path, _member_of(path))) for path in paths
        ]

    def evaluation(self) -> Result | None:
        """The evaluation that is kept here, if it is of the policies that are here now."""
        path = self._evaluation
        if not path.exists():
            return None
        try:
            result = Result.from_dict(self._read(path.name))
        except InvalidInputError as error:
            raise FileError(f"{path} is damaged: {error} {REMEDIES['evaluation.json']}") from error
        return result if result.agents == self.digest() else None

    def keep_evaluation(self, result: Result) -> None:
        """Write an evaluation; `result.agents` is the `digest` of the policies that it is of."""
        write_sealed(self._evaluation, result.to_dict())

    def judged(self) -> Result | None:
        """The evaluation by every notion that applies, if one is kept of the policies that are here now."""
        path = self._file("judged")
        result = Result.from_dict(self._read(path.name)) if path.exists() else None
        return result if result is not None and result.agents == self.digest() else None

    def keep_judged(self, result: Result) -> None:
        """Write an evaluation of the policies that are here by every notion that applies."""
        write_sealed(self._file("judged"), replace(result, agents=self.digest()).to_dict())

    @property
    def _evaluation(self) -> Path:
        return self._file("evaluation")

    def _file(self, name: str) -> Path:
        return self.path / (f"{name}.json" if self.part is None else f"{name}-{self.part.number}.json")

    def digest(self) -> str:
        """A digest of the agents' files: tells whether they are still those that were evaluated."""
        digest = hashlib.sha256()
        for path in self._agents():
            digest.update(read_bytes(path))
        return digest.hexdigest()

    def _check_is_there(self) -> None:
        if not self.path.is_dir():
            raise FileError(f"There is no run in {self.path}. `elbert runs` lists those that are there.")

    def checkpoint_path(self, iteration: int) -> Path:
        """Where the training state after an iteration is."""
        return self.path / "checkpoints" / f"{iteration:08d}.safetensors"

    def _agents(self) -> list[Path]:
        """One per seed, in order; of this part, if it is one."""
        paths = sorted(self.path.glob("agent*.safetensors"), key=lambda path: (len(path.name), path.name))
        return paths if self.part is None else [paths[i] for i in self.part.members if i < len(paths)]

    def _checkpoints(self) -> list[Path]:
        """The latest first."""
        return sorted((self.path / "checkpoints").glob("[0-9]*.safetensors"), reverse=True)


class Part(NamedTuple):
    """One combination of coefficients in a run of several."""

    number: int  # from 0
    members: tuple[int, ...]  # places of its seeds among all policies of the run
    coefficients: dict[str, Any]


def coefficients_text(coefficients: Mapping[str, Any]) -> str:
    """For people: "alpha=1000, beta=20", "max_bias=0.05", "no limit"."""

    def text(value: Any) -> str:
        if isinstance(value, list | tuple):
            return f"[{','.join(text(entry) for entry in value)}]"
        return f"{value:g}" if isinstance(value, float) else str(value)

    return ", ".join(
        "no limit" if (name, value) == ("max_bias", NO_LIMIT) else f"{name}={text(value)}"
        for name, value in coefficients.items()
    )


def _member_of(path: Path) -> int:
    """The place of an agent among those of its run, from its file's name: agent-3 is the fourth."""
    return int(path.stem.partition("-")[2] or 0)


def _manifest(config: dict[str, Any]) -> dict[str, Any]:
    return {
        "status": "running",
        "iteration": 0,
        "iterations": config["iterations"],
        "seconds": 0.0,
        "seeds": config["seeds"],
        "versions": {name: version(name) for name in PACKAGES} | {"python": platform.python_version()},
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "command": sys.argv,
        "started": _now(),
        "updated": _now(),
        "host": socket.gethostname(),
        "process": os.getpid(),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class RunSummary:
    """A run at a glance."""

    path: Path
    env: str = "?"
    method: str = "?"
    preset: str = "?"
    seeds: tuple[int, ...] = ()
    status: str = "damaged"  # or running, finished, stopped (by a callback), interrupted, failed, killed
    iteration: int = 0
    iterations: int = 0
    seconds: float = 0.0
    reward: float | None = None  # of the evaluation, else of the last iteration; means over seeds
    bias: float | None = None
    evaluated: bool = False
    reason: str = ""
    coefficients: Mapping[str, Any] = field(default_factory=dict)  # of one part of a run of several

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        content = {**vars(self), "path": str(self.path), "seeds": list(self.seeds)}
        return {name: value for name, value in content.items() if name != "coefficients" or value}


def find_runs(folder: Path) -> Iterator[RunSummary]:
    """The runs in a folder and the folders below it, by name; one of several coefficients is listed once for each."""
    if not as_path(folder, "The folder").is_dir():
        raise FileError(f"There is no folder {folder}. Runs are kept in `runs` unless --out says otherwise.")
    for config in sorted(folder.glob("**/config.json")):
        if (config.parent / "manifest.json").exists():
            try:
                parts = [run.part for run in RunFolder(config.parent).parts().values()]
            except (FileError, KeyError, TypeError):  # the summary says why
                parts = [None]
            yield from (summarise(config.parent, part) for part in parts)


def runs(folder: str | Path = "runs") -> list[RunSummary]:
    """The runs in a folder and the folders below it, with their status and results.

    Each has, among others, `path`, `env`, `method`, `seeds`, `status`, `reward` and `bias`; `to_dict()` gives all.
    """
    return list(find_runs(as_path(folder, "The folder")))


def summarise(path: Path, part: Part | None = None) -> RunSummary:
    """Look at a run, or at a part of it. What cannot be read makes it a damaged one, with the reason."""
    run = RunFolder(path, part=part)
    try:
        manifest, evaluation = run.manifest, run.evaluation()
        if manifest["status"] == "running" and manifest["host"] == socket.gethostname() and not has_writer(path):
            manifest["status"] = "killed"  # a run on another machine is believed: nothing is known of it here
        level: dict[str, Any] = {"evaluated": evaluation is not None}
        if evaluation is not None:
            level |= {"reward": evaluation.reward.mean, "bias": evaluation.worst.bias.estimate}
        elif columns := run.columns():
            level |= {name: float(columns[name][-1].mean()) for name in ("reward", "bias")}
        content = run.config | manifest | level | {"path": path, "coefficients": run.coefficients}
        if part is not None:
            content["seeds"] = [content["seeds"][i] for i in part.members]
        return record_from(RunSummary, content)
    except FileError as error:
        return RunSummary(path=path, reason=str(error))
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:  # a digest vouches for no content
        return RunSummary(path=path, reason=f"Its files make no sense ({type(error).__name__}: {error}).")
