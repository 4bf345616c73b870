"""`elbert.sweep`: a study over environments, methods, limits, settings and seeds, on one machine or on a cluster."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from elbert.errors import InvalidInputError
from elbert.experiments.jobs import Engine, Job, do_jobs
from elbert.experiments.plan import AXES, Member, Plan, PlanRow, plan_from
from elbert.experiments.processes import Processes
from elbert.experiments.ray_tasks import RayTasks
from elbert.experiments.results import BestPossible, best_possible, over_seeds
from elbert.experiments.run_folder import RunFolder
from elbert.experiments.search import Search, check_search, do_search
from elbert.experiments.store import Store, open_store
from elbert.files import FileError, as_path, read_sealed, write_sealed
from elbert.frames import Frame
from elbert.learning.result import Result
from elbert.progress import Tell, Watch, watched
from elbert.shown import Shown
from elbert.tables import as_text, visible, whole_ranges

if TYPE_CHECKING:
    from rich.console import RenderableType

PLAN = "plan.json"
REMEDY = "Start the sweep again, which writes it again."
TEXT_WIDTH = 140


@dataclass(frozen=True)
class SweepRow:
    """One combination of a study: what came of it, over the seeds that are done."""

    plan: PlanRow
    result: Result | None  # None if no seed is done
    best: BestPossible | None

    @property
    def done(self) -> int:
        """Number of seeds that are done."""
        return 0 if self.result is None else len(self.result.singles)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers; `missing` where nothing is done."""
        row, result = self.plan, self.result
        head: dict[str, Any] = {**row.axes, "seeds": list(row.seeds), "runs": [member.run for member in row.members]}
        head |= {"note": row.note} if row.note else {}
        if result is None:
            return head | {"missing": True}
        return (
            head
            | {"done": self.done, "result": result.to_dict()}
            | ({} if self.best is None else {"best": asdict(self.best)})
        )


@dataclass(frozen=True)
class Sweep(Shown):
    """What came of a study. `print(sweep)` shows a table, `sweep.to_frame()` the numbers, `sweep.plot()` a picture."""

    drawn_by: ClassVar[str] = "elbert.report.sweep:plot_sweep"
    page_by: ClassVar[str] = "elbert.report.sweep:sweep_page"

    title: str
    folder: Path
    rows: tuple[SweepRow, ...]
    failed: Mapping[str, str]  # name of a training -> why it failed

    @property
    def varied(self) -> list[str]:
        """The names of what differs between rows."""
        every = [row.plan.axes for row in self.rows]
        names = dict.fromkeys(name for axes in every for name in axes)
        return [name for name in names if len({repr(axes.get(name)) for axes in every}) > 1]

    def label(self, row: SweepRow) -> str:
        """What tells a row from the others, in words."""
        axes, names = row.plan.axes, self.varied
        own = [shown(axes[name]) if name in AXES else f"{name}={shown(axes[name])}" for name in names if name in axes]
        parts = [*([row.plan.note] if row.plan.note else []), *own] or [f"{row.plan.method} on {row.plan.env}"]
        return ", ".join([*parts, *([f"seeds {whole_ranges(row.plan.seeds)}"] if self.seeds_differ else [])])

    @property
    def seeds_differ(self) -> bool:
        """Whether rows have different seeds."""
        return len({row.plan.seeds for row in self.rows}) > 1

    @property
    def failures(self) -> str:
        """All failures in one message."""
        reasons = " ".join(f"{name}: {reason}" for name, reason in self.failed.items())
        number = len(self.failed)
        return visible(f"{number} training{'' if number == 1 else 's'} failed; the others are done. {reasons}", 5000)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return {
            "title": self.title,
            "rows": [row.to_dict() for row in self.rows],
            "failed": dict(self.failed),
        }

    def to_frame(self) -> Frame:
        """A line for every row: what differs, reward, bias, limit, each with its interval; None where unknown."""
        names = list(dict.fromkeys(name for row in self.rows for name in row.plan.axes))
        kinds: dict[str, type] = {name: self._kind(name) for name in names}
        lines = []
        for row in self.rows:
            result, axes = row.result, row.plan.axes
            bias = None if result is None else result.worst.bias
            reward_ci = (None, None) if result is None or result.reward.ci is None else result.reward.ci
            bias_ci = (None, None) if bias is None or bias.ci is None else bias.ci
            numbers = {
                "reward": None if result is None else result.reward.mean,
                "reward_low": reward_ci[0],
                "reward_high": reward_ci[1],
                "bias": None if bias is None else bias.estimate,
                "bias_low": bias_ci[0],
                "bias_high": bias_ci[1],
                "best_reward": None if row.best is None else row.best.reward,
            }
            words = {
                "note": row.plan.note or None,
                "limit": None if result is None or result.limit is None else result.limit.verdict,
            }
            own = {name: axes.get(name) if kinds[name] is float else _text(axes.get(name)) for name in names}
            lines.append({**own, **words, **numbers, "seeds": len(row.plan.seeds), "done": row.done})
        floats = ("reward", "reward_low", "reward_high", "bias", "bias_low", "bias_high", "best_reward")
        kinds |= dict.fromkeys(("note", "limit"), str) | dict.fromkeys(floats, float) | {"seeds": int, "done": int}
        return Frame.of_rows(lines, kinds)

    def to_csv(self) -> str:
        """The lines of `to_frame` as CSV."""
        frame, text = self.to_frame(), io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(list(frame))
        writer.writerows(map(_cell, line) for line in zip(*frame.columns.values(), strict=True))
        return text.getvalue()

    def _kind(self, name: str) -> type:
        """Of a column: numbers, if every row that has it has a number."""
        values = [row.plan.axes[name] for row in self.rows if name in row.plan.axes]
        return float if all(isinstance(x, int | float) and not isinstance(x, bool) for x in values) else str

    def __rich__(self) -> "RenderableType":
        """The table for a rich console."""
        return self._page()

    def __str__(self) -> str:
        """The table as plain text."""
        return as_text(self._page(), TEXT_WIDTH)


def shown(value: Any) -> str:
    """A value as a plan has it: 0.05, [64, 64], lending."""
    return f"{value:.10g}" if isinstance(value, float) else visible(str(value), 200)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _cell(value: Any) -> Any:
    """A value for a spreadsheet, which would take a text that begins like a formula for one."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def sweep(
    plan: "str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None" = None,
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    ray: str | None = None,
    store: str | None = None,
    progress: Watch = "auto",
    **grid: Any,
) -> Sweep:
    """Train and evaluate every combination of a study, and put the results side by side.

        study = elbert.sweep(env=["lending", "attention-harder"], max_bias=[0.02, 0.05], seeds=3, out="limits")
        print(study)

    What is done is not done again: a sweep that was stopped or killed goes on in its folder, and so does one that was
    given more environments, methods or settings. On the same kind of machine, a plan gives the same policies to the
    bit, however many workers or nodes train them.

    Args:
        plan: path of a TOML file (docs/howto/sweep.md), a grid, or a list of grids.
        out: folder for runs and results; by default one named after the plan's file, or `sweep`.
        workers: trainings at a time on this machine; by default one for each core, but at most 8.
        ray: address of a Ray cluster whose nodes train in place of this machine; "local" starts one here.
        store: address at which runs are kept, for nodes that share no folder: s3://bucket/study, or any other that
            fsspec knows.
        progress: "auto" shows a display in terminals and notebooks; True, None or a function as in `elbert.train`.
        grid: a grid in place of a plan: `env`, `method`, `preset`, `world`, `seeds` and settings. A list holds several
            values; a value that is a list stands in a list: hidden=[[64, 64]].
    """
    whole = plan_from(plan, **grid)
    folder = folder_of(whole) if out is None else as_path(out, "out")
    with watched(progress, whole.title or "sweep") as tell:
        return do_sweep(whole, folder, workers=workers, ray=ray, store=open_store(store), progress=tell)


def folder_of(plan: Plan) -> Path:
    """The folder of a study whose folder nobody named: called as the study is, as far as a folder can be."""
    name = re.sub(r"[^\w .-]+", "-", plan.title).strip(" .-")[:100]
    return Path(name or "sweep")


def open_engine(workers: int | None, ray: str | None, cores: int) -> "AbstractContextManager[Engine]":
    """What does the trainings: processes of this machine, or a Ray cluster."""
    if ray is not None and workers is not None:
        raise InvalidInputError(
            "Both workers and ray were given. On a cluster, its nodes' cores decide: leave workers out."
        )
    return Processes(workers, cores) if ray is None else RayTasks(ray, cores)


def do_sweep(plan: Plan, folder: Path, *, workers: int | None, ray: str | None, store: Store, progress: Tell) -> Sweep:
    """Do the trainings of a plan that are not done yet, and collect all results."""
    search = search_of(plan)
    runs, failed, rows = folder / "runs", dict[str, str](), list(plan.rows)
    with open_engine(workers, ray, plan.cores) as engine:
        _write_plan(folder, plan.title, rows)
        failed |= do_jobs(plan.jobs, runs, engine, store=store, progress=progress) if plan.jobs else {}
        if search is not None:

            def perform(jobs: Sequence[Job]) -> Mapping[str, str]:
                reasons = do_jobs(jobs, runs, engine, store=store, progress=progress)
                failed.update(reasons)
                return reasons

            def read(row: PlanRow) -> Result | None:
                found = _row(row, runs)
                return found.result if found.done == len(row.seeds) else None

            def note(found: Sequence[PlanRow]) -> None:
                _write_plan(folder, plan.title, [*plan.rows, *found])

            rows += do_search(search, perform, read, note, plan.side_by_side)
    return Sweep(plan.title, folder, tuple(_row(row, runs) for row in rows), failed)


def search_of(plan: Plan) -> Search | None:
    """The search of a plan, checked; None where it has none."""
    if not plan.search:
        return None
    search = Search.of(plan.search)
    check_search(search, plan.side_by_side)
    return search


def _write_plan(folder: Path, title: str, rows: Sequence[PlanRow]) -> None:
    """Write which rows there are and where they are, so that others can follow."""
    write_sealed(
        folder / PLAN, {"title": title, "rows": [asdict(replace(row, members=tuple(row.members))) for row in rows]}
    )


def read_sweep(folder: Path) -> Sweep:
    """What a folder holds of a study, whether it is done or not: nothing is trained."""
    content = read_sealed(folder / PLAN, remedy=REMEDY)
    try:
        rows = [
            PlanRow(
                **{
                    **row,
                    "seeds": tuple(row["seeds"]),
                    "members": tuple(Member(run, part, tuple(seeds)) for run, part, seeds in row["members"]),
                }
            )
            for row in content["rows"]
        ]
        title = content["title"]
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{folder / PLAN} is of another version ({error}). {REMEDY}") from error
    return Sweep(title, folder, tuple(_row(row, folder / "runs") for row in rows), {})


def _row(row: PlanRow, runs: Path) -> SweepRow:
    """A row's result over the seeds that are done."""
    singles: list[Result] = []
    seeds: list[int] = []
    world = None
    for member in row.members:
        run = RunFolder(runs / member.run)
        try:
            result = run.parts()[member.part].evaluation()
        except (FileError, KeyError):  # it has not begun
            continue
        if result is not None:
            singles += result.singles
            seeds += member.seeds
            world = run.world
    if not singles:
        return SweepRow(row, None, None)
    result = over_seeds(singles, seeds)
    return SweepRow(row, result, best_possible(result, world))
