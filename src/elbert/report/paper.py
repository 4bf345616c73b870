"""Tables and figures of the paper's experiments, ours beside the published."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elbert.experiments.paper import Experiment, Panel
from elbert.experiments.published import published
from elbert.files import write_json, write_whole
from elbert.report.curves import SMOOTHED, draw_curve, extremes, labels_of, read_metrics, smoothed
from elbert.report.frontier import draw_frontier_line, frontier_behind, nearness
from elbert.report.scatter import Point, draw_scatter, point_of
from elbert.report.style import BLUE, VERMILION, draw_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADINGS = (
    "environment",
    "training",
    "published reward / bias",
    "reward per step",
    "95 % interval",
    "of best",
    "bias",
    "95 % interval",
    "noise floor",
    "rates",
    "demand per step",
    "verdict",
    "s",
)
IN_TERMINAL = (0, 1, 2, 3, 5, 6, 8, 11)


def write_experiment(
    experiment: Experiment, rows: Sequence[dict[str, Any]], runs: Path, out: Path, about: dict[str, Any]
) -> list[Path]:
    """`<name>.md`, `<name>.json` and the figure as PNG and SVG in the folder `out`."""
    path = out / experiment.name
    there = [row for row in rows if not row.get("missing")]
    figures: list[Path] = []
    if there:
        if experiment.name == "supply-demand":
            size = (3.2 * len(experiment.panels) + 0.4, 9.5)
            figures = draw_figure(lambda figure: _draw_supply_demand(figure, experiment, rows, runs), size, path)
        else:
            size = (10.5, 2.5 * len(experiment.panels) + 0.6)
            figures = draw_figure(lambda figure: _draw_levels(figure, experiment, rows, runs), size, path)
    data, table = out / f"{experiment.name}.json", out / f"{experiment.name}.md"
    source = {"source": published()["source"]} if any(row["published"] for row in rows) else {}
    write_json(data, {"experiment": experiment.name, "figure": experiment.figure, **about, **source, "rows": rows})
    write_whole(table, markdown(experiment, rows, about, bool(figures)))
    return [table, data, *figures]


def markdown(experiment: Experiment, rows: Sequence[dict[str, Any]], about: dict[str, Any], drawn: bool) -> str:
    """The experiment as a page: question, picture, table, what the columns mean."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *(cells(row) for row in rows)]
    table = "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
    picture = f"![{experiment.title}]({experiment.name}.png)\n\n" if drawn else ""
    return (
        f"# {experiment.title}\n\n{experiment.question} In the paper: {experiment.figure}.\n\n{picture}{table}\n"
        f"{notes(rows, about)}\n"
    )


def notes(rows: Sequence[dict[str, Any]], about: dict[str, Any]) -> str:
    """What the columns mean."""
    over = "over seeds (Student's t)" if about["seeds"] > 1 else "over evaluation episodes"
    text = (
        f"Preset {about['preset']}, {about['seeds']} seed{'s' if about['seeds'] > 1 else ''}"
        f"{', a quick picture with fewer steps' if about['quick'] else ''}. Evaluated in fresh episodes with "
        f"sampled actions; intervals {over}. The noise floor is the bias that equal groups would show by "
        "chance in as many episodes. Of best: the share of the most reward that any policy with this bias can expect, "
        "or the distance from an upper bound that no policy exceeds. s: seconds of training, all seeds together."
    )
    if any(row["published"] for row in rows):
        text += (
            "\n\nPublished: the last point of the paper's curves (three seeds, few episodes, 1 added to every demand). "
            "The verdict is on reward and bias: better or worse where our interval and the published band do not "
            "touch, alike otherwise; a training dominates if neither is worse and one is better."
        )
    return text


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table."""
    theirs = row["published"]
    head = (row["panel"], row["label"], "" if theirs is None else f"{theirs['reward']:.3f} / {theirs['bias']:.3f}")
    if row.get("missing"):
        return (*head, "not there", *("",) * (len(HEADINGS) - 4))
    bias, groups = row["bias"], row["groups"]
    verdict = row["verdict"]
    return (
        *head,
        f"{row['reward']['mean']:.4f}",
        _interval(row["reward"]["ci"]),
        nearness(row.get("best")),
        _number(bias["estimate"]),
        _interval(bias["ci"]),
        _number(bias["noise_floor"]),
        " ".join("?" if one["rate"] is None else f"{one['rate']:.3f}" for one in groups),
        " ".join(f"{one['demand']:.3g}" for one in groups),
        "" if verdict is None else f"{verdict['cell']} (reward {verdict['reward']}, bias {verdict['bias']})",
        f"{row['train_seconds']:.0f}",
    )


def experiment_table(experiment: Experiment, rows: Sequence[dict[str, Any]]) -> RenderableType:
    """For the terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    lines = [cells(row) for row in rows]
    shown = [i for i in IN_TERMINAL if any(line[i] for line in lines)]
    for i in shown:
        table.add_column(HEADINGS[i], justify="right" if i in (3, 5, 6, 8) else "left")
    last = None
    for row, line in zip(rows, lines, strict=True):
        verdict = row.get("verdict")
        short = "" if verdict is None else verdict["cell"]
        parts = [short if i == IN_TERMINAL[-1] else line[i] for i in shown]
        parts[0] = "" if row["panel"] == last else parts[0]
        last = row["panel"]
        table.add_row(*(Text(part) for part in parts))
    return Group(Text(experiment.title, style="bold"), table)


def _draw_levels(figure: "Figure", experiment: Experiment, rows: Sequence[dict[str, Any]], runs: Path) -> None:
    """A line per panel: reward and bias over training, reward against bias at the end, and the legend."""
    grid = figure.subplots(len(experiment.panels), 4, squeeze=False, width_ratios=(1, 1, 1, 0.62))
    for line, panel in zip(grid, experiment.panels, strict=True):
        mine = _rows_of(panel, rows)
        for i, row in enumerate(mine):
            if row.get("missing"):
                continue
            curve = read_metrics(runs / row["run"])
            for axes, column in ((line[0], "reward"), (line[1], "bias")):
                draw_curve(axes, curve, column, i, row["label"], part=SMOOTHED)
        points = [_point(row) for row in mine]
        theirs = [
            Point(row["label"], row["published"]["bias"], row["published"]["reward"])
            for row in mine
            if row["published"]
        ]
        there = [point for point in points if point is not None]
        draw_scatter(line[2], there, theirs=theirs, front=False)
        best = frontier_behind([row for row in mine if not row.get("missing")], there)
        if best is not None:
            draw_frontier_line(line[2], best)
        line[0].set(ylabel="reward per step\n(more is better)", xlabel="million steps")
        line[1].set(ylabel="bias of rollouts\n(less is better)", xlabel="million steps")
        line[1].set_ylim(bottom=0)
        line[2].set(ylabel="reward per step\n(more is better)")
        line[0].set_title(panel.title)
        line[1].set_title("over training")
        line[2].set_title("evaluated")
        line[3].set_axis_off()
        handles, labels = labels_of(line[0])
        if best is not None:
            handles, labels = [*handles, line[2].lines[-1]], [*labels, str(line[2].lines[-1].get_label())]
        title = "hollow: published" if theirs else None
        line[3].legend(handles, labels, loc="center left", borderaxespad=0, title=title, title_fontsize=8, fontsize=8)


def _draw_supply_demand(figure: "Figure", experiment: Experiment, rows: Sequence[dict[str, Any]], runs: Path) -> None:
    """A row per method, a column per environment; supply solid, demand dashed."""
    methods = list(dict.fromkeys(row["label"] for row in rows))
    grid = figure.subplots(len(methods), len(experiment.panels), squeeze=False, sharex="col")
    lines = (
        ("supply_most", "supply, most advantaged", BLUE, "-", "o"),
        ("demand_most", "demand, most advantaged", BLUE, "--", "o"),
        ("supply_least", "supply, least advantaged", VERMILION, "-", "s"),
        ("demand_least", "demand, least advantaged", VERMILION, "--", "s"),
    )
    for c, panel in enumerate(experiment.panels):
        for r, row in enumerate(_rows_of(panel, rows)):
            axes = grid[r][c]
            if row.get("missing"):
                axes.set_axis_off()
                continue
            found = extremes(read_metrics(runs / row["run"]))
            for name, label, colour, style, marker in lines:
                values = smoothed(found[name]).mean(axis=1)
                steps = found["steps"].mean(axis=1) / 1e6
                every = max(1, len(steps) // 6)
                axes.plot(
                    steps, values, color=colour, ls=style, marker=marker, markevery=every, ms=3.5, lw=1.2, label=label
                )
            axes.set_ylim(bottom=0)
            axes.set_title(f"{panel.title}, {row['label']}")
            if r == len(methods) - 1:
                axes.set_xlabel("million steps")
            if c == 0:
                axes.set_ylabel("per step")
    figure.legend(*labels_of(grid[0][0]), loc="outside lower center", ncols=2)


def _rows_of(panel: Panel, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if (row["env"], row["panel"]) == (panel.env, panel.title)]


def _point(row: dict[str, Any]) -> Point | None:
    return None if row.get("missing") else point_of(row["label"], row)


def _interval(ci: Sequence[float] | None) -> str:
    return "" if ci is None else f"{ci[0]:.4f} .. {ci[1]:.4f}"


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:.4f}"
