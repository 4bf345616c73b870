"""A study as a table and a picture, and the files of it."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from elbert.errors import InvalidInputError
from elbert.experiments.plan import Plan
from elbert.experiments.sweep import Sweep, SweepRow, shown
from elbert.files import write_json, write_whole
from elbert.report.charts import Point, draw_scatter, marks_explained, point_of
from elbert.report.frontier import draw_frontier_line
from elbert.report.pages import LEVELS, frontier_behind, side_by_side
from elbert.report.style import draw_figure, figure_of
from elbert.tables import Column, Page, Table, columns, visible, whole_ranges

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS_IN_A_ROW = 2
MOST_NAMED = 12
"""Points that a legend names; the table has all of them."""


def sweep_page(sweep: Sweep) -> Page:
    """All rows, and what they have in common."""
    failed = [f"Failed: {name}: {visible(reason, 1000)}" for name, reason in sweep.failed.items()]
    return Page((_head(sweep.title), _common(sweep), sweep_table(sweep).brief(), *failed))


def _head(title: str) -> str:
    return f"# {visible(title, 200) or 'Sweep'}"


def _common(sweep: Sweep) -> str:
    """What no row differs in, in words."""
    axes = sweep.rows[0].plan.axes if sweep.rows else {}
    same = [f"{name} {shown(value)}" for name, value in axes.items() if name not in sweep.varied]
    done, seeds = sum(row.done for row in sweep.rows), sum(len(row.plan.seeds) for row in sweep.rows)
    return f"{done} of {seeds} policies are done." + (f" The same for all: {', '.join(same)}." if same else "")


def sweep_table(sweep: Sweep) -> Table:
    """A line for every row: what differs, then reward, bias and limit."""
    names = sweep.varied
    noted = any(row.plan.note for row in sweep.rows)
    heads = [*(["search"] if noted else []), *names]
    rows = tuple(
        (*([row.plan.note] if noted else []), *_own(row, names), _seeds(row, named=sweep.seeds_differ), *_levels(row))
        for row in sweep.rows
    )
    return Table((*columns(*heads, folds=True), Column("seeds", right=True), *LEVELS), rows)


def _own(row: SweepRow, names: list[str]) -> tuple[str, ...]:
    axes = row.plan.axes
    return tuple(shown(axes[name]) if name in axes else "" for name in names)


def _seeds(row: SweepRow, *, named: bool) -> str:
    """How many seeds there are, or which; and how many are done, if not all are."""
    asked = len(row.plan.seeds)
    which = whole_ranges(row.plan.seeds) if named else str(asked)
    return which if row.done == asked else f"{row.done} of {which}"


def _levels(row: SweepRow) -> tuple[str, ...]:
    if row.result is None:
        return ("not there", *[""] * (len(LEVELS) - 1))
    return side_by_side(row.result, row.best)


def plan_page(plan: Plan, finished: int) -> Page:
    """What a plan would train."""
    heads = columns("training", "environment", "method", folds=True)
    rows = tuple(
        (job.name, job.env_name, job.method_name, str(len(job.request.members)), f"{job.request.settings.steps:,}")
        for job in plan.jobs
    )
    table = Table((*heads, *columns("policies", "steps", right=True)), rows)
    number, policies = len(plan.jobs), sum(len(job.request.members) for job in plan.jobs)
    said = (
        f"Trainings: {number}, of which {finished} are done. Policies: {policies}. Rows of the table: {len(plan.rows)}."
    )
    if plan.search:
        said += " The search adds its own, one batch after the other."
    return Page((_head(plan.title), table, said))


def points_by_env(sweep: Sweep) -> dict[str, list[tuple[SweepRow, Point]]]:
    """The rows whose bias is known, by environment."""
    panels: dict[str, list[tuple[SweepRow, Point]]] = {}
    single = len({row.plan.env for row in sweep.rows}) == 1
    for row in sweep.rows:
        label = sweep.label(row) if single else sweep.label(row).removeprefix(f"{row.plan.env}, ")
        point = None if row.result is None else point_of(label, row.result)
        if point is not None:
            panels.setdefault(row.plan.env, []).append((row, point))
    return panels


def draw_sweep(figure: "Figure", sweep: Sweep) -> None:
    """Reward against bias, a panel for each environment."""
    panels = points_by_env(sweep)
    across = min(PANELS_IN_A_ROW, len(panels))
    grid = figure.subplots(math.ceil(len(panels) / across), across, squeeze=False).ravel()
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    for axes, (env, rows) in zip(grid, panels.items(), strict=False):
        points = [point for _, point in rows]
        draw_scatter(axes, points)
        best = frontier_behind([(row.result, row.best) for row, _ in rows if row.result is not None], points)
        if best is not None:
            draw_frontier_line(axes, best)
        axes.set_title(env)
        handles, labels = axes.get_legend_handles_labels()
        if len(labels) > MOST_NAMED:
            handles, labels = (
                handles[:MOST_NAMED],
                [*labels[: MOST_NAMED - 1], f"and {len(labels) - MOST_NAMED + 1} more"],
            )
        axes.legend(handles, labels, fontsize=7, title=marks_explained(points), title_fontsize=7)


def _size(sweep: Sweep) -> tuple[float, float]:
    panels = max(1, len(points_by_env(sweep)))
    across = min(PANELS_IN_A_ROW, panels)
    return 5.5 * across, 4.2 * math.ceil(panels / across)


def plot_sweep(sweep: Sweep) -> "Figure":
    """The figure of `Sweep.plot`."""
    if not points_by_env(sweep):
        raise InvalidInputError("No row of this sweep is done, or no bias is known: there is nothing to draw yet.")
    return figure_of(lambda figure: draw_sweep(figure, sweep), _size(sweep))


def write_sweep(sweep: Sweep) -> list[Path]:
    """Write a page, the table (Markdown, CSV, JSON) and the figure (PNG, SVG) into the study's folder."""
    folder = sweep.folder
    page, table, lines, data = (folder / f"sweep.{ending}" for ending in ("html", "md", "csv", "json"))
    text = Page((_head(sweep.title), _common(sweep), sweep_table(sweep)))
    write_whole(table, text.to_markdown())
    write_whole(lines, sweep.to_csv())
    write_json(data, sweep.to_dict())
    sweep.to_html(page)
    written = [page, table, lines, data]
    if points_by_env(sweep):
        written += draw_figure(lambda figure: draw_sweep(figure, sweep), _size(sweep), folder / "sweep")
    return written
