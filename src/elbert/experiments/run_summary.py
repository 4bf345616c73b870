"""Runs at a glance, whatever state they are in: what `elbert runs` lists."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elbert.experiments.run_folder import RunFolder, has_writer
from elbert.experiments.run_metrics import read_metrics
from elbert.files import FileError, as_path
from elbert.records import record_from


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

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {**vars(self), "path": str(self.path), "seeds": list(self.seeds)}


def find_runs(folder: Path) -> Iterator[RunSummary]:
    """The runs in a folder and the folders below it, by name."""
    if not as_path(folder, "The folder").is_dir():
        raise FileError(f"There is no folder {folder}. Runs are kept in `runs` unless --out says otherwise.")
    for config in sorted(folder.glob("**/config.json")):
        if (config.parent / "manifest.json").exists():
            yield summarise(config.parent)


def summarise(path: Path) -> RunSummary:
    """Look at a run. What cannot be read makes it a damaged one, with the reason."""
    run = RunFolder(path)
    try:
        manifest, evaluation = run.manifest, run.evaluation()
        if manifest["status"] == "running" and manifest["host"] == socket.gethostname() and not has_writer(path):
            manifest["status"] = "killed"  # a run on another machine is believed: nothing is known of it here
        level: dict[str, Any] = {"evaluated": evaluation is not None}
        if evaluation is not None:
            level |= {"reward": evaluation.reward.mean, "bias": evaluation.worst.bias.estimate}
        elif columns := read_metrics(path):
            level |= {name: float(columns[name][-1].mean()) for name in ("reward", "bias")}
        return record_from(RunSummary, run.config | manifest | level | {"path": path})
    except FileError as error:
        return RunSummary(path=path, reason=str(error))
