"""The metrics of a run, in memory and in metrics.csv: a row per iteration and seed. A torn last one is left out."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np

from elbert.errors import ElbertError
from elbert.files import FileError, append_lines, read_text, write_whole
from elbert.learning import Iteration, Member, Metrics
from elbert.learning.history import History

NAME = "metrics.csv"
NEEDED = ("iteration", "steps", "seed", "reward", "bias", "episodes")  # without which the file is damaged
WHOLE = ("iteration", "steps", "seed", "episodes")  # columns of whole numbers


class MetricsFile:
    """The metrics of the run in a folder; the file need not be there yet."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / NAME
        self._unwritten: list[dict[str, Any]] = []

    def record(self, iteration: Iteration) -> None:
        """Add an iteration, in memory; `write` writes it."""
        self._unwritten += [
            {name: "" if value is None else value for name, value in row.items()} for row in rows_of(iteration)
        ]

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
    cells, coefficients, members = _read_cells(path)
    with _damaged(path):
        return {
            name: np.asarray([float(cell) if cell else np.nan for cell in column]).reshape(-1, members)
            for name, column in cells.items()
            if name not in coefficients
        }


def read_history(folder: Path, member: int) -> History:
    """The rows of one member of a run, from 0."""
    path = folder / NAME
    cells, coefficients, members = _read_cells(path)
    if not cells:
        raise FileError(f"{path} holds no iteration. Wait for the run's first ones, or look for the run's folder.")
    with _damaged(path):
        rows = list(zip(*cells.values(), strict=True))[member::members]
        readers = [_value if name in coefficients else _number for name in cells]
        return history_of(
            {name: read(cell) for name, read, cell in zip(cells, readers, row, strict=True)} for row in rows
        )


def history_of(rows: Iterable[Mapping[str, Any]]) -> History:
    """From the rows of one member. A coefficient that is no number, such as a list, becomes text."""
    rows = list(rows)
    plain = int | float | None
    kinds = {
        name: int if name in WHOLE else float if isinstance(value, plain) else str
        for name, value in (rows[0] if rows else {}).items()
    }
    typed = [{name: None if row[name] is None else kind(row[name]) for name, kind in kinds.items()} for row in rows]
    return History.of_rows(typed, kinds)


def _read_cells(path: Path) -> tuple[dict[str, tuple[str, ...]], Sequence[str], int]:
    """The columns as text, the names of coefficients among them, and the number of members."""
    text = read_text(path) if path.exists() else ""
    with _damaged(path):
        lines = list(csv.reader(io.StringIO(text[: text.rfind("\n") + 1])))
        if len(lines) < 2:
            return {}, (), 1
        header, rows = lines[0], lines[1:]
        missing = [name for name in NEEDED if name not in header]
        if missing:
            raise ValueError(f"it has no column {missing[0]}")
        members = sum(row[0] == rows[0][0] for row in rows)
        rows = rows[: len(rows) // members * members]
        cells = dict(zip(header, zip(*rows, strict=True), strict=True))
        return cells, header[header.index("seed") + 1 : header.index("reward")], members


@contextmanager
def _damaged(path: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, IndexError, csv.Error) as error:
        raise FileError(f"{path} is damaged ({error}). Move it away to go on without its rows.") from error


def _number(cell: str) -> float | None:
    return float(cell) if cell else None


def _value(cell: str) -> Any:
    """A coefficient: a number, or text as it stands."""
    with suppress(ValueError):
        return float(cell)
    return cell


def rows_of(iteration: Iteration) -> list[dict[str, Any]]:
    """An iteration as a row for each member; None where a group has no rate."""
    head = {"iteration": iteration.iteration, "steps": iteration.steps, "seconds": round(iteration.seconds, 3)}
    return [
        head | {"seed": member.seed, **member.coefficients} | metric_row(iteration.metrics, i)
        for i, member in enumerate(iteration.trainer.members)
    ]


def member_name(members: Sequence[Member], i: int) -> str:
    """What tells a member from the others in logs; empty for the only one."""
    return f"seed-{members[i].seed}-{i}" if len(members) > 1 else ""


def metric_row(every: Metrics, member: int) -> dict[str, Any]:
    """One member's metrics as columns; groups and criteria are numbered from 0."""
    metrics = jax.tree.map(lambda values: np.asarray(values)[member], every)
    criteria, groups = metrics.rates.shape
    names = [f"{g}" if criteria == 1 else f"{c}_{g}" for c in range(criteria) for g in range(groups)]
    row: dict[str, Any] = {name: float(getattr(metrics, name)) for name in ("reward", "bias", "soft_bias")}
    for field in ("rates", "supply", "demand"):
        label = "rate" if field == "rates" else field
        values = np.asarray(getattr(metrics, field)).reshape(-1)
        row |= {f"{label}_{name}": None if np.isnan(x) else float(x) for name, x in zip(names, values, strict=True)}
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
            raise ElbertError("TensorBoard output needs tensorboardX. Install it: pip install tensorboardX.") from error
        self._folder, self._make = folder, SummaryWriter
        self._writers: dict[int, SummaryWriter] = {}

    def __call__(self, iteration: Iteration) -> None:
        """Add one iteration."""
        members = iteration.trainer.members
        for i in range(len(members)):
            if i not in self._writers:
                self._writers[i] = self._make(str(self._folder / member_name(members, i)))
            for name, value in metric_row(iteration.metrics, i).items():
                if value is not None:
                    self._writers[i].add_scalar(name, value, iteration.steps)
            self._writers[i].flush()
