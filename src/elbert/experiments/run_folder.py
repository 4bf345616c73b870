"""A run is a folder: configuration, manifest, metrics, checkpoints, agents. Readable at any moment, never half-written.

config.json         what was asked for, complete
manifest.json       versions, platform, command, seeds; how far it is and how it ended
metrics.csv         a row per iteration and seed
checkpoints/        the latest training states
agent.safetensors   the policy of the latest checkpoint (agent-0, agent-1, ... if several seeds train together); under a
                    limit on the bias in the end the one that was chosen
candidates/         the policies to choose from, under such a limit
evaluation.json     how it did in fresh episodes
"""

import contextlib
import csv
import hashlib
import io
import os
import platform
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from elbert.errors import InvalidInputError
from elbert.files import (
    FileError,
    read_bytes,
    read_json,
    read_tensors,
    read_text,
    remove_begun,
    write_json,
    write_tensors,
    write_whole,
)
from elbert.learning import Agent, Metrics, Progress, Trainer
from elbert.learning.agent import agents_of
from elbert.learning.result import Result
from elbert.learning.trees import MismatchError

LOCK = ".lock"
KEPT = 2
"""Checkpoints that are kept: if the latest is damaged, there is one before it."""

PACKAGES = ("elbert", "jax", "jaxlib", "numpy", "equinox", "optax", "gymnasium")


@contextlib.contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Nobody else trains in this folder meanwhile."""
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


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        """Of an existing run, or one to be created by `create`."""
        self.path = path
        self.rows: list[dict[str, Any]] = []

    @classmethod
    def create(cls, path: Path, config: dict[str, Any]) -> "RunFolder":
        """A new folder with the configuration and a first manifest; one that holds something is never overwritten."""
        try:
            taken = path.exists() and (not path.is_dir() or any(entry.name != LOCK for entry in path.iterdir()))
        except OSError as error:
            raise FileError(f"Cannot look into {path} ({error.strerror or error}).") from error
        if taken:
            raise InvalidInputError(
                f"{path} is not empty. Go on with the run in it (--resume, or resume=True), or give another folder."
            )
        run = cls(path)
        write_json(path / "config.json", config)
        write_json(path / "manifest.json", _manifest(config))
        return run

    @property
    def config(self) -> dict[str, Any]:
        """What was asked for."""
        return read_json(self.path / "config.json")

    @property
    def manifest(self) -> dict[str, Any]:
        """Where it ran and how it ended."""
        return read_json(self.path / "manifest.json")

    def ensure_manifest(self) -> None:
        """A first manifest, if the run was killed before it had one."""
        if not (self.path / "manifest.json").exists():
            write_json(self.path / "manifest.json", _manifest(self.config))

    def note(self, **changes: Any) -> None:
        """Change entries of the manifest."""
        write_json(self.path / "manifest.json", self.manifest | {"updated": _now()} | changes)

    def record(self, progress: Progress) -> None:
        """Add an iteration to the metrics, in memory; `write_metrics` writes them."""
        for i, member in enumerate(progress.trainer.members):
            one = Metrics(*(part[i] for part in progress.metrics))
            head = {
                "iteration": progress.iteration,
                "steps": progress.steps,
                "seconds": round(progress.seconds, 3),
                "seed": member.seed,
                **member.coefficients,
            }
            self.rows.append(head | metric_row(one))

    def episodes(self) -> int:
        """How many of the first member have ended, by the metrics."""
        members = len(self.config["seeds"])
        return sum(int(row["episodes"]) for row in self.rows[::members])

    def write_metrics(self) -> None:
        """All rows, whole."""
        if not self.rows:
            return
        text = io.StringIO()
        writer = csv.DictWriter(text, list(self.rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        write_whole(self.path / "metrics.csv", text.getvalue())

    def checkpoint(
        self,
        trainer: Trainer,
        config: dict[str, Any],
        status: str = "running",
        agents: Sequence[Agent] | None = None,
        **more: Any,
    ) -> None:
        """Metrics, training state, agents and manifest, in this order; older states are then removed.

        The agents are those of the training state unless others are given.
        """
        self.write_metrics()
        about = {"iteration": trainer.iteration, "seconds": trainer.seconds}
        path = self.path / "checkpoints" / f"{trainer.iteration:08d}.safetensors"
        write_tensors(path, trainer.stored(), about)
        if agents is None:
            agents = agents_of(trainer, parameters=config["parameters"], seconds=trainer.seconds)
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
                continue
            except (MismatchError, KeyError, TypeError) as error:
                passed.append(f"{path} does not fit this run: {error}.")
                continue
            try:
                self.rows = [row for row in self._read_rows() if int(row["iteration"]) <= trainer.iteration]
                self.episodes()
            except (KeyError, TypeError, ValueError) as error:
                raise FileError(
                    f"{self.path / 'metrics.csv'} is damaged ({error!r}). Move it away to go on without its rows."
                ) from error
            return passed
        if not passed:  # stopped before the first checkpoint was there: from the start, then
            return passed
        reasons = " ".join(passed)
        raise FileError(
            f"No checkpoint in {self.path / 'checkpoints'} can be read. {reasons} Start the run anew elsewhere."
        )

    def agents(self) -> list[Agent]:
        """The agents of the latest checkpoint, one per seed."""
        if not self.path.is_dir():
            raise FileError(f"There is no run in {self.path}. `elbert runs` lists those that are there.")
        paths = self._agents()
        if not paths:
            raise FileError(f"{self.path} holds no agent yet.")
        return [Agent.load(path) for path in paths]

    def evaluation(self) -> Result | None:
        """The evaluation that is kept here, if it is of the policy that is here now."""
        path = self.path / "evaluation.json"
        if not path.exists():
            return None
        try:
            result = Result.from_dict(read_json(path))
        except InvalidInputError as error:
            raise FileError(f"{path} is damaged: {error} Remove it; the run is then evaluated again.") from error
        return result if result.agents == self.digest() else None

    def digest(self) -> str:
        """Of the agents' files: tells whether they are still those that were evaluated."""
        digest = hashlib.sha256()
        for path in self._agents():
            digest.update(read_bytes(path))
        return digest.hexdigest()

    def _agents(self) -> list[Path]:
        """One per seed, in order."""
        return sorted(self.path.glob("agent*.safetensors"), key=lambda path: (len(path.name), path.name))

    def _checkpoints(self) -> list[Path]:
        """The latest first."""
        return sorted((self.path / "checkpoints").glob("[0-9]*.safetensors"), reverse=True)

    def _read_rows(self) -> list[dict[str, Any]]:
        path = self.path / "metrics.csv"
        return list(csv.DictReader(io.StringIO(read_text(path)))) if path.exists() else []


@dataclass(frozen=True)
class RunSummary:
    """A run at a glance."""

    path: Path
    env: str
    method: str
    preset: str
    seeds: list[int]
    status: str  # running, finished, interrupted, failed, killed, damaged
    iteration: int
    iterations: int
    seconds: float
    reward: float | None  # of the evaluation, else of the last iteration, means over seeds
    bias: float | None
    evaluated: bool
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {**vars(self), "path": str(self.path)}


def find_runs(folder: Path) -> Iterator[RunSummary]:
    """The runs in a folder and the folders below it, by name."""
    if not folder.is_dir():
        raise FileError(f"There is no folder {folder}. Runs are kept in `runs` unless --out says otherwise.")
    for config in sorted(folder.glob("**/config.json")):
        if (config.parent / "manifest.json").exists():
            yield summary(config.parent)


def summary(path: Path) -> RunSummary:
    """A run at a glance, whatever state it is in."""
    run = RunFolder(path)
    try:
        config, manifest = run.config, run.manifest
        status = manifest["status"]
        if status == "running" and not _alive(path, manifest):
            status = "killed"
        reward, bias, evaluated = _level(run)
        return RunSummary(
            path,
            config["env"],
            config["method"],
            config["preset"],
            config["seeds"],
            status,
            manifest["iteration"],
            manifest["iterations"],
            manifest["seconds"],
            reward,
            bias,
            evaluated,
            manifest.get("reason", ""),
        )
    except (FileError, KeyError, TypeError, ValueError) as error:
        return RunSummary(path, "?", "?", "?", [], "damaged", 0, 0, 0.0, None, None, False, str(error))


def metric_row(metrics: Metrics) -> dict[str, Any]:
    """One member's metrics as columns; groups and criteria are numbered from 0."""
    criteria, groups = metrics.rates.shape
    names = [f"{g}" if criteria == 1 else f"{c}_{g}" for c in range(criteria) for g in range(groups)]
    row: dict[str, Any] = {name: float(getattr(metrics, name)) for name in ("reward", "bias", "soft_bias")}
    for part in ("rates", "supply", "demand"):
        label = "rate" if part == "rates" else part
        values = np.asarray(getattr(metrics, part)).reshape(-1)
        row |= {f"{label}_{name}": "" if np.isnan(x) else float(x) for name, x in zip(names, values, strict=True)}
    if not np.isnan(metrics.limited_bias).any():  # there is a limit
        for name in ("mu", "price", "limited_bias"):
            each = np.asarray(getattr(metrics, name))
            row |= {name if criteria == 1 else f"{name}_{c}": float(x) for c, x in enumerate(each)}
    last = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "gradient_norm", "explained_variance")
    return row | {"episodes": int(metrics.episodes)} | {name: float(getattr(metrics, name)) for name in last}


def _level(run: RunFolder) -> tuple[float | None, float | None, bool]:
    result = run.evaluation()
    if result is not None:
        return result.reward.mean, result.worst.bias.estimate, True
    rows = run._read_rows()
    if not rows:
        return None, None, False
    last = [row for row in rows if row["iteration"] == rows[-1]["iteration"]]
    reward, bias = (float(np.mean([float(row[name]) for row in last])) for name in ("reward", "bias"))
    return reward, bias, False


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


def _alive(path: Path, manifest: dict[str, Any]) -> bool:
    """Whether somebody still trains here: holds the lock, which the system takes back from a process that died.

    Of another machine nothing is known.
    """
    from filelock import FileLock, Timeout

    if manifest["host"] != socket.gethostname():
        return True
    try:
        with FileLock(path / LOCK, timeout=0):
            return False
    except (Timeout, OSError):  # held, or a folder of somebody else's
        return True


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class Clock:
    """Says when something is due again."""

    def __init__(self, seconds: float) -> None:
        """Every so many seconds."""
        self.seconds, self._last = seconds, time.monotonic()

    def due(self) -> bool:
        """Whether so much time has passed since it last was."""
        if time.monotonic() - self._last < self.seconds:
            return False
        self._last = time.monotonic()
        return True
