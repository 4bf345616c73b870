"""Tables and figures of the paper's experiments, with the published numbers next to ours."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from elbert.experiments.benchmark import BenchmarkOutcome
from elbert.experiments.paper import Panel
from elbert.experiments.reproduce import Outcome, Reproduction, Row, published
from elbert.experiments.run_folder import RunFolder
from elbert.experiments.two_trajectories import TwoTrajectories
from elbert.files import write_json, write_whole
from elbert.report.benchmark import TITLE, benchmark_table, method_table, write_benchmark
from elbert.report.charts import (
    Point,
    curve_legend,
    draw_levels,
    draw_scatter,
    extremes,
    marks_explained,
    point_of,
    read_curve,
    smoothed,
)
from elbert.report.frontier import draw_frontier_line
from elbert.report.pages import frontier_behind, levels, rates_of
from elbert.report.style import BLUE, VERMILION, draw_figure
from elbert.report.two_trajectories import EXPLANATION, trajectories_table, write_trajectories
from elbert.tables import Column, Page, Part, Table, columns, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = (
    *columns("environment", "training", "published reward / bias"),
    Column("reward per step", right=True),
    Column("95 % interval", right=True, detail=True),
    *columns("of best", "bias", right=True),
    Column("95 % interval", right=True, detail=True),
    Column("noise floor", right=True),
    *columns("rates", "demand per step", right=True, detail=True),
    Column("verdict"),
    Column("on reward, on bias", detail=True),
    Column("seconds", right=True, detail=True),
)


def reproduction_page(reproduction: Reproduction) -> Page:
    """All experiments for a terminal."""
    parts: list[Part] = []
    for outcome in reproduction.outcomes:
        if isinstance(outcome, TwoTrajectories):
            parts += [trajectories_table(outcome), EXPLANATION]
        elif isinstance(outcome, BenchmarkOutcome):
            parts += [f"# {TITLE}", benchmark_table(outcome).brief(), method_table(outcome)]
        else:
            parts += [f"# {outcome.experiment.title}", experiment_table(outcome).brief()]
    return Page(tuple(parts))


def write_reproduction(reproduction: Reproduction, out: Path) -> list[Path]:
    """Write tables and figures of all experiments into a folder, and a page that leads to them; returns the paths."""
    written: list[Path] = []
    for outcome in reproduction.outcomes:
        if isinstance(outcome, TwoTrajectories):
            written += write_trajectories(outcome, out)
        elif isinstance(outcome, BenchmarkOutcome):
            written += write_benchmark(outcome, out)
        else:
            written += write_experiment(outcome, out)
    if any(not isinstance(outcome, TwoTrajectories) for outcome in reproduction.outcomes):
        written.append(out / "reproduction.html")
        reproduction.to_html(written[-1])
    if len(reproduction.outcomes) > 1:
        path = out / "reproduction.md"
        links = "".join(f"- [{outcome.name}]({outcome.name}.md)\n" for outcome in reproduction.outcomes)
        write_whole(path, f"# The paper's experiments, reproduced\n\n{links}")
        written.append(path)
    return written


def write_experiment(outcome: Outcome, out: Path) -> list[Path]:
    """Write `<name>.md`, `<name>.json` and the figure as PNG and SVG; returns the paths."""
    experiment, path = outcome.experiment, out / outcome.name
    draw, size = _draw_levels, (10.5, 2.5 * len(experiment.panels) + 0.6)
    if experiment.picture == "extreme groups":
        draw, size = _draw_extreme_groups, (3.2 * len(experiment.panels) + 0.4, 9.5)
    there = any(row.result is not None for row in outcome.rows)
    figures = draw_figure(lambda figure: draw(figure, outcome), size, path) if there else []
    data, table = out / f"{outcome.name}.json", out / f"{outcome.name}.md"
    source = {"source": published().source} if any(row.published for row in outcome.rows) else {}
    write_json(data, {"experiment": outcome.name, "figure": experiment.figure} | source | outcome.to_dict())
    write_whole(table, markdown(outcome, drawn=bool(figures)))
    return [table, data, *figures]


def markdown(outcome: Outcome, *, drawn: bool) -> str:
    """The experiment as a page: question, picture, table, what the columns mean."""
    experiment = outcome.experiment
    question = f"{experiment.question} In the paper: {experiment.figure}."
    head, rest = Page((f"# {experiment.title}", question)), Page((experiment_table(outcome), *_notes(outcome)))
    picture = f"![{experiment.title}]({experiment.name}.png)\n\n" if drawn else ""
    return f"{head.to_markdown()}\n{picture}{rest.to_markdown()}"


def _notes(outcome: Outcome) -> list[str]:
    """What the columns mean."""
    base = outcome.experiment.base
    over = "over seeds (Student's t)" if base.seeds != 1 else "over evaluation episodes"
    paragraphs = [
        f"Preset {base.preset}, {base.seeds} seed{'' if base.seeds == 1 else 's'}"
        f"{', a quick picture with fewer steps' if base.quick else ''}"
        f"{'' if base.part is None else f', {base.part:g} of the steps'}. Evaluated in fresh episodes with "
        f"sampled actions; intervals {over}. The noise floor is the bias that equal groups would show by "
        "chance in as many episodes. Of best: the share of the most reward that any policy with this bias can expect, "
        "or the distance from an upper bound that no policy exceeds. Seconds: time of training, all seeds together."
    ]
    if any(row.published for row in outcome.rows):
        paragraphs.append(
            "Published: the last point of the paper's curves (three seeds, few episodes, 1 added to every demand). "
            "The verdict is on reward and bias: better or worse where our interval and the published band do not "
            "touch, alike otherwise; a training dominates if neither is worse and one is better."
        )
    return paragraphs


def experiment_table(outcome: Outcome) -> Table:
    """Every training, with the published numbers next to ours."""
    panels = [row.panel.title for row in outcome.rows]
    sections = tuple(place for place in range(len(panels) - 1) if panels[place] != panels[place + 1])
    return Table(COLUMNS, tuple(cells(row) for row in outcome.rows), sections=sections)


def cells(row: Row) -> tuple[str, ...]:
    """One line of the table."""
    theirs, result, words = row.published, row.result, row.verdicts
    head = (row.panel.title, row.series.label, "" if theirs is None else f"{theirs.reward:.3f} / {theirs.bias:.3f}")
    if result is None:
        return (*head, "not there", *[""] * (len(COLUMNS) - len(head) - 1))
    return (
        *head,
        *levels(result, row.best),
        number(result.worst.bias.noise_floor),
        rates_of(result),
        " ".join(f"{group.demand:.3g}" for group in result.worst.groups),
        "" if words is None else words.cell,
        "" if words is None else f"{words.reward}, {words.bias}",
        number(result.train_seconds, 0, unknown=""),
    )


def _draw_levels(figure: "Figure", outcome: Outcome) -> None:
    """A line per panel: reward and bias over training, reward against bias at the end, and the legend."""
    panels = outcome.experiment.panels
    grid = figure.subplots(len(panels), 4, squeeze=False, width_ratios=(1, 1, 1, 0.62))
    grid[0][1].set_title("bias over training")
    grid[0][2].set_title("evaluated")
    explained: set[str] = set()  # labels in the legends above
    for line, panel in zip(grid, panels, strict=True):
        rows = [row for row in _rows_of(panel, outcome) if row.result is not None]
        curves = {row.series.label: read_curve(RunFolder(outcome.runs / row.series.job.name)) for row in rows}
        draw_levels(line[0], line[1], curves)
        results = [(row.series.label, row.result, row.best) for row in rows if row.result is not None]
        points = [point for label, result, _ in results if (point := point_of(label, result)) is not None]
        theirs = [Point(row.series.label, row.published.bias, row.published.reward) for row in rows if row.published]
        draw_scatter(line[2], points, theirs=theirs, front=False)
        best = frontier_behind([(result, best) for _, result, best in results], points)
        if best is not None:
            draw_frontier_line(line[2], best)
        line[0].set(title=panel.title, ylabel="reward per step\n(more is better)")
        line[1].set(ylabel="bias of rollouts\n(less is better)")
        line[2].set(ylabel="reward per step\n(more is better)")
        line[3].set_axis_off()
        handles, labels = curve_legend(line[0], curves.values())
        if best is not None:
            handles, labels = [*handles, line[2].lines[-1]], [*labels, str(line[2].lines[-1].get_label())]
        new = {label: handle for label, handle in zip(labels, handles, strict=True) if label not in explained}
        title = None if explained else marks_explained(points, theirs)
        look: dict[str, Any] = {"loc": "center left", "borderaxespad": 0, "title_fontsize": 8, "fontsize": 8}
        line[3].legend(list(new.values()), list(new), title=title, **look)
        explained |= set(new)


def _draw_extreme_groups(figure: "Figure", outcome: Outcome) -> None:
    """A row per method, a column per environment; supply solid, demand dashed."""
    panels = outcome.experiment.panels
    methods = list(dict.fromkeys(row.series.label for row in outcome.rows))
    grid = figure.subplots(len(methods), len(panels), squeeze=False, sharex="col")
    lines = (
        ("supply_most", "supply, most advantaged", BLUE, "-", "o"),
        ("demand_most", "demand, most advantaged", BLUE, "--", "o"),
        ("supply_least", "supply, least advantaged", VERMILION, "-", "s"),
        ("demand_least", "demand, least advantaged", VERMILION, "--", "s"),
    )
    for c, panel in enumerate(panels):
        for r, row in enumerate(_rows_of(panel, outcome)):
            axes = grid[r][c]
            if row.result is None:
                axes.set_axis_off()
                continue
            curve = extremes(read_curve(RunFolder(outcome.runs / row.series.job.name)))
            for name, label, colour, style, marker in lines:
                values, steps = smoothed(curve[name]).mean(axis=1), curve["steps"].mean(axis=1) / 1e6
                look = {"color": colour, "ls": style, "marker": marker, "markevery": max(1, len(steps) // 6)}
                axes.plot(steps, values, ms=3.5, lw=1.2, label=label, **look)
            axes.set_ylim(bottom=0)
            axes.set_title(f"{panel.title}, {row.series.label}")
            if r == len(methods) - 1:
                axes.set_xlabel("million steps")
            if c == 0:
                axes.set_ylabel("per step")
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2)


def _rows_of(panel: Panel, outcome: Outcome) -> list[Row]:
    return [row for row in outcome.rows if row.panel == panel]
