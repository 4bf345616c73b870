"""The metrics of a run, metrics.csv: a row per iteration and seed. A torn last iteration is left out."""

import csv
import io
from pathlib import Path
from typing import Any

import jax
import numpy as np

from elbert.errors import ElbertError
from elbert.files import FileError, append_lines, read_text, write_whole
from elbert.learning import Iteration, Metrics

NAME = "metrics.csv"
NEEDED = ("iteration", "steps", "seed", "reward", "bias", "episodes")  # without which the file is damaged


class MetricsFile:
    """The metrics of the run in a folder; the file need not be there yet."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / NAME
        self._unwritten: list[dict[str, Any]] = []

    def record(self, iteration: Iteration) -> None:
        """Add an iteration, in memory; `write` writes it."""
        for i, member in enumerate(iteration.trainer.members):
            head = {
                "iteration": iteration.iteration,
                "steps": iteration.steps,
                "seconds": round(iteration.seconds, 3),
                "seed": member.seed,
                **member.coefficients,
            }
            self._unwritten.append(head | metric_row(iteration.metrics, i))

    def write(self) -> None:
        """Add the rows that are not in the file yet."""
        if not self._unwritten:
            return
        text = io.StringIO()
        writer = csv.DictWriter(text, list(self._unwritten[0]), lineterminator="\n")
        if not self.path.exists() or self.path.stat().st_size == 0:
            writer.writeheader()
        writer.writerows(self._unwritten)
        append_lines(self.path, text.getvalue())
        self._unwritten.clear()

    def cut(self, iteration: int) -> None:
        """Remove the rows after an iteration, which will come again, and a torn one."""
        if not self.path.exists():
            return
        columns, text = read_metrics(self.folder), read_text(self.path)
        rows = int(np.sum(columns["iteration"] <= iteration)) if columns else 0
        kept = "".join(text.splitlines(keepends=True)[: rows + 1]) if rows else ""
        if kept != text:
            write_whole(self.path, kept)


def read_metrics(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Columns of a run's metrics, [iterations, members] each; NaN where a cell is empty, {} where there are no rows.

    Coefficients in which members differ are left out: they are settings, and some of them are lists.
    """
    path = folder / NAME
    text = read_text(path) if path.exists() else ""
    try:
        lines = list(csv.reader(io.StringIO(text[: text.rfind("\n") + 1])))
        if len(lines) < 2:
            return {}
        header, rows = lines[0], lines[1:]
        missing = [name for name in NEEDED if name not in header]
        if missing:
            raise ValueError(f"it has no column {missing[0]}")
        members = sum(row[0] == rows[0][0] for row in rows)
        rows = rows[: len(rows) // members * members]
        cells = dict(zip(header, zip(*rows, strict=True), strict=True))
        coefficients = header[header.index("seed") + 1 : header.index("reward")]
        return {
            name: np.asarray([float(cell) if cell else np.nan for cell in column]).reshape(-1, members)
            for name, column in cells.items()
            if name not in coefficients
        }
    except (ValueError, IndexError, csv.Error) as error:
        raise FileError(f"{path} is damaged ({error}). Move it away to go on without its rows.") from error


def metric_row(every: Metrics, member: int) -> dict[str, Any]:
    """One member's metrics as columns; groups and criteria are numbered from 0."""
    metrics = jax.tree.map(lambda values: np.asarray(values)[member], every)
    criteria, groups = metrics.rates.shape
    names = [f"{g}" if criteria == 1 else f"{c}_{g}" for c in range(criteria) for g in range(groups)]
    row: dict[str, Any] = {name: float(getattr(metrics, name)) for name in ("reward", "bias", "soft_bias")}
    for field in ("rates", "supply", "demand"):
        label = "rate" if field == "rates" else field
        values = np.asarray(getattr(metrics, field)).reshape(-1)
        row |= {f"{label}_{name}": "" if np.isnan(x) else float(x) for name, x in zip(names, values, strict=True)}
    for name, values in metrics.method.items():
        row |= {name if criteria == 1 else f"{name}_{c}": float(x) for c, x in enumerate(values)}
    last = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "gradient_norm", "explained_variance")
    return row | {"episodes": int(metrics.episodes)} | {name: float(getattr(metrics, name)) for name in last}


class TensorBoard:
    """A callback that writes every iteration's metrics into a folder that TensorBoard reads. It needs an extra."""

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise ElbertError(
                "TensorBoard output needs tensorboardX. Install it: pip install elbert[tensorboard]."
            ) from error
        self._folder, self._make = folder, SummaryWriter
        self._writers: dict[int, SummaryWriter] = {}

    def __call__(self, iteration: Iteration) -> None:
        """Add one iteration."""
        members = iteration.trainer.members
        for i, member in enumerate(members):
            if i not in self._writers:
                folder = self._folder / f"seed-{member.seed}-{i}" if len(members) > 1 else self._folder
                self._writers[i] = self._make(str(folder))
            for name, value in metric_row(iteration.metrics, i).items():
                if value != "":
                    self._writers[i].add_scalar(name, value, iteration.steps)
            self._writers[i].flush()
