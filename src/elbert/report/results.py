"""Runs as tables, and learning curves."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elbert.errors import InvalidInputError
from elbert.exact.frontier import Frontier
from elbert.exact.rules import is_rule
from elbert.experiments.run_summary import RunSummary
from elbert.fairness.benefit_report import CAUTION
from elbert.files import write_json, write_whole
from elbert.report.curves import draw_curve, labels_of, read_metrics
from elbert.report.frontier import draw_frontier_line, frontier_behind, nearness
from elbert.report.scatter import Point, draw_scatter, point_of
from elbert.report.style import draw_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def runs_table(runs: Sequence[RunSummary]) -> RenderableType:
    """What is there and how it ended."""
    if not runs:
        return Text("No runs here yet. `elbert train lending` makes one.")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("run", overflow="fold")
    for column in ("env", "method", "seeds", "status"):
        table.add_column(column)
    for column in ("iteration", "seconds", "reward", "bias"):
        table.add_column(column, justify="right")
    for run in runs:
        note = "" if run.evaluated or run.reward is None else " *"
        level = ("" if value is None else f"{value:.4f}{note}" for value in (run.reward, run.bias))
        cells = (run.path, run.env, run.method, ",".join(map(str, run.seeds)), run.status)
        table.add_row(
            *(Text(str(cell)) for cell in cells), f"{run.iteration}/{run.iterations}", f"{run.seconds:.0f}", *level
        )
    reasons = [Text(f"{run.path}: {run.reason}") for run in runs if run.reason and run.status in ("failed", "damaged")]
    starred = any(not run.evaluated and run.reward is not None for run in runs)
    return Group(table, *reasons, *([Text("* of the last rollout in training, not of an evaluation")] * starred))


def result_table(result: dict[str, Any]) -> RenderableType:
    """An evaluation, of one seed or of several, as a table for the terminal."""
    several = len(result.get("seeds", []))
    head = f"{result['method']} on {result['env']}: {result['episodes']} episodes of up to {result['horizon']} steps"
    if several:
        head += f" for each of {several} seeds"
    facts = Table(box=None, show_header=False, pad_edge=False, padding=(0, 3, 0, 0))
    what = "95 % interval over seeds" if several else "95 % interval"
    facts.add_row("reward per step", f"{result['reward']['mean']:.4f}", _interval(result["reward"]["ci"]), what)
    bias = result["bias"]
    if bias["estimate"] is None:
        facts.add_row("bias", "not estimable", "", "; ".join(result.get("not_estimable", [])))
    else:
        floor = "" if bias["noise_floor"] is None else f"equal groups would show {bias['noise_floor']:.4f} by chance"
        facts.add_row("bias, as seen", f"{bias['estimate']:.4f}", _interval(bias["ci"]), floor)
        if bias["debiased"] is not None:
            facts.add_row("bias, debiased", f"{bias['debiased']:.4f}")
    limit = result.get("limit")
    if limit is not None:
        price = "" if limit["price"] is None else f"0.01 more would be worth {limit['price']:.2g} reward per step"
        apart = f"without {', '.join(limit['left_out'])}" if limit.get("left_out") else ""
        facts.add_row(Text(f"bias <= {limit['max_bias']:g}"), limit["verdict"], Text(apart), price)
    table = Table(box=box.SIMPLE_HEAD)
    for column, side in (("group", "left"), ("rate", "right"), ("95 % interval", "right")):
        table.add_column(column, justify=side)  # pyright: ignore[reportArgumentType]
    table.add_column("supply / step", justify="right")
    table.add_column("demand / step", justify="right")
    for row in result["groups"]:
        rate = "not estimable" if row["rate"] is None else f"{row['rate']:.4f}"
        table.add_row(
            Text(str(row["group"])), rate, _interval(row["ci"]), _amount(row["supply"]), _amount(row["demand"])
        )
    return Group(Text(head, style="bold"), facts, Text(f"\n{result['criterion']}"), table, Text(CAUTION))


def comparison_rows(results: Sequence[tuple[str, dict[str, Any]]]) -> list[tuple[str, ...]]:
    """Runs side by side, row by row: name, method, reward, how near to the best, bias, rates, seconds of training."""
    rows = []
    for name, result in results:
        bias = result["bias"]
        rates = " ".join("?" if row["rate"] is None else f"{row['rate']:.3f}" for row in result["groups"])
        seconds = result.get("train_seconds")
        rows.append(
            (
                name,
                "rule" if is_rule(result["method"]) else result["method"],
                f"{result['reward']['mean']:.4f}",
                _interval(result["reward"]["ci"]),
                nearness(result.get("best")),
                "?" if bias["estimate"] is None else f"{bias['estimate']:.4f}",
                _interval(bias["ci"]),
                rates,
                "" if seconds is None else f"{seconds:.0f}",
            )
        )
    return rows


HEADINGS = ("run", "method", "reward / step", "95 % interval", "of best", "bias", "95 % interval", "rates", "s")
BEST = {
    True: (
        "of best: the reward as a share of the most that any policy with this bias can expect; what exceeds 100 % is "
        "the luck of the episodes."
    ),
    False: "of best: how far the reward is from an upper bound that no policy exceeds; the best policy may be nearer.",
}


def comparison_table(results: Sequence[tuple[str, dict[str, Any]]]) -> RenderableType:
    """Runs side by side for the terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    rows = comparison_rows(results)
    shown = [
        i
        for i, heading in enumerate(HEADINGS)
        if (heading != "method" or any(row[0] != row[1] for row in rows))
        and (heading != "of best" or any(row[i] for row in rows))
    ]
    for i in shown:
        folds = HEADINGS[i] in ("run", "rates")
        table.add_column(HEADINGS[i], justify="left" if i < 2 else "right", overflow="fold", no_wrap=not folds)
    for row in rows:
        table.add_row(*(Text(row[i]) for i in shown))
    known = {result["best"]["exact"] for _, result in results if "best" in result}
    return Group(table, *(Text(BEST[exact]) for exact in sorted(known)))


def write_comparison(results: Sequence[tuple[str, dict[str, Any]]], runs: Sequence[Path], folder: Path) -> list[Path]:
    """Table (Markdown, JSON), learning curves and reward against bias (PNG, SVG) of some runs."""
    environments = sorted({result["env"] for _, result in results})
    if len(environments) > 1:
        raise InvalidInputError(
            f"The runs are in different environments: {', '.join(environments)}. Compare runs in one environment."
        )
    lines = [HEADINGS, ("---",) * len(HEADINGS), *comparison_rows(results)]
    markdown = "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
    table, data = folder / "comparison.md", folder / "comparison.json"
    write_whole(table, markdown)
    write_json(data, dict(results))
    trained = [(name, path) for (name, _), path in zip(results, runs, strict=True) if not is_rule(path)]
    curves = [(name, read_metrics(path)) for name, path in trained]
    figures: list[Path] = []
    if curves:
        figures = draw_figure(
            lambda figure: draw_curves(figure, curves, environments[0]), (9.0, 3.4), folder / "curves"
        )
    points = [point for name, result in results if (point := point_of(name, result)) is not None]
    if points:
        height = 3.4 + 0.1 * len(points)
        best = frontier_behind([result for _, result in results], points)
        figures += draw_figure(
            lambda figure: draw_comparison(figure, points, environments[0], best), (5.5, height), folder / "scatter"
        )
    return [table, data, *figures]


def draw_curves(figure: "Figure", curves: Sequence[tuple[str, dict[str, np.ndarray[Any, Any]]]], env: str) -> None:
    """Reward and bias of the rollouts over training; a band from the lowest to the highest seed."""
    left, right = figure.subplots(1, 2)
    for i, (name, curve) in enumerate(curves):
        for axes, column in ((left, "reward"), (right, "bias")):
            draw_curve(axes, curve, column, i, name)
    left.set(title=f"Reward in {env}", xlabel="million steps", ylabel="reward per step (more is better)")
    right.set(title="Bias", xlabel="million steps", ylabel="bias of a rollout (0: equal rates)")
    right.set_ylim(bottom=0)
    figure.legend(*labels_of(left), loc="outside lower center", ncols=4)


def draw_comparison(figure: "Figure", points: Sequence[Point], env: str, best: Frontier | None = None) -> None:
    """Reward against bias of evaluated runs, with the front of those that no other beats and the best possible."""
    axes = figure.subplots()
    draw_scatter(axes, points)
    if best is not None:
        draw_frontier_line(axes, best)
    axes.set_title(f"Evaluated in {env}")
    handles, labels = labels_of(axes)
    columns = max(1, min(2, 60 // max(len(label) for label in labels))) if labels else 1
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def _interval(ci: Sequence[float] | None) -> str:
    return "" if ci is None else f"{ci[0]:.4f} .. {ci[1]:.4f}"


def _amount(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
