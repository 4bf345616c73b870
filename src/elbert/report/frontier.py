"""The frontier as a table and a picture: the most reward within each limit on the bias."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from elbert.errors import ElbertError
from elbert.exact.frontier import Frontier, frontier_for_picture
from elbert.files import write_json
from elbert.report.curves import labels_of
from elbert.report.scatter import Point, draw_scatter
from elbert.report.style import INK, draw_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def frontier_table(found: Frontier) -> RenderableType:
    """The frontier for the terminal, rules below."""
    parts: list[RenderableType] = []
    if found.points:
        title = "most reward / step" if found.points[0].rates is not None else "reward / step at most"
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("bias at most", title, "proven bound", "rates", "price of bias"):
            table.add_column(column, justify="right")
        for point in found.points:
            rates = () if point.rates is None else (z for row in point.rates for z in row)
            table.add_row(
                "no limit" if point.max_bias is None else f"{point.max_bias:g}",
                f"{point.reward:.5f}",
                f"{point.bound:.5f}",
                " ".join("?" if z is None else f"{z:.4f}" for z in rates),
                "" if point.price is None else f"{point.price:.4f}",
            )
        parts.append(table)
    if found.rules:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("rule")
        for column in ("reward / step", "bias", ""):
            table.add_column(column, justify="right")
        for rule in found.rules:
            how = "simulated" if rule.simulated else "expected"
            table.add_row(Text(rule.name), f"{rule.reward:.4f}", _number(rule.bias), how)
        parts.append(table)
    head = Text(f"{found.env}, episodes of {found.horizon} steps", style="bold")
    return Group(head, *parts, Text(found.note))


def write_frontier(
    found: Frontier, folder: Path, *, points: Sequence[Point] = (), theirs: Sequence[Point] = ()
) -> list[Path]:
    """`frontier-ENV.json` and the figure as PNG and SVG.

    Args:
        found: the frontier.
        folder: where to.
        points: trained agents to show beside the rules.
        theirs: published points, drawn hollow and joined to ours of the same label.
    """
    data = folder / f"frontier-{found.env}.json"
    write_json(data, found.to_dict())
    shown = [*points, *rule_points(found)]
    if not shown and not found.points:
        return [data]
    height = 3.6 + 0.1 * len(shown)
    path = folder / f"frontier-{found.env}"
    return [data, *draw_figure(lambda figure: draw_frontier(figure, found, shown, theirs), (5.8, height), path)]


def rule_points(found: Frontier) -> list[Point]:
    """The rules beside a frontier, for a scatter plot."""
    return [
        Point(rule.name.rpartition("/")[2], rule.bias, rule.reward) for rule in found.rules if not math.isnan(rule.bias)
    ]


def draw_frontier(
    figure: "Figure", found: Frontier, points: Sequence[Point] = (), theirs: Sequence[Point] = ()
) -> None:
    """The best possible as a line, policies below it."""
    axes = figure.subplots()
    draw_scatter(axes, points, theirs=theirs, front=False)
    draw_frontier_line(axes, found)
    for other in theirs:
        if other.label not in {point.label for point in points}:
            axes.plot(other.bias, other.reward, "o", mfc="white", mec=INK, ms=6, label=other.label, zorder=2)
    axes.set_title(f"{found.env}, {found.horizon} steps")
    handles, labels = labels_of(axes)
    title = "hollow: published" if theirs else None
    figure.legend(handles, labels, loc="outside lower center", ncols=2, title=title, title_fontsize=9)


def draw_frontier_line(axes: "Axes", found: Frontier) -> None:
    """The most reward within each limit, to the right edge of the picture; dashed where it is an upper bound only."""
    if not found.points:
        return
    right = axes.get_xlim()[1]
    limited = sorted((point.max_bias, point.reward) for point in found.points if point.max_bias is not None)
    free = [point for point in found.points if point.max_bias is None]
    if free and free[0].bias is not None:
        limited = sorted([*limited, (free[0].bias, free[0].reward)])
        right = max(right, free[0].bias * 1.05)
    elif free:  # a bound for all policies: beyond the last limit
        limited.append((max(right, limited[-1][0] if limited else 0.0) * 1.01, free[0].reward))
    if not limited:
        return
    if limited[-1][0] < right:
        limited.append((right, limited[-1][1]))
    label = "best possible" if found.exact else "upper bound" if found.points[0].rates is None else "best, approximate"
    line = "-" if found.exact else "--"
    drawn = "steps-pre" if found.points[0].rates is None else "default"  # between two limits the larger one's holds
    axes.plot(*zip(*limited, strict=True), color=INK, ls=line, lw=1.4, label=label, zorder=1, drawstyle=drawn)
    axes.set_xlim(-0.04 * right, right)


def frontier_behind(results: Sequence[dict[str, Any]], points: Sequence[Point]) -> Frontier | None:
    """The best possible over the range of biases, or the bound, where all results are of one world that has one."""
    known = [result for result in results if "best" in result]
    worlds = [(result["env"], result["horizon"], result["best"]["parameters"]) for result in known]
    if not points or not worlds or any(world != worlds[0] for world in worlds):
        return None
    env, horizon, parameters = worlds[0]
    try:
        return frontier_for_picture(env, horizon, [point.bias for point in points], **parameters)
    except ElbertError:  # a limit that is too small, or too hard to solve: the picture goes without
        return None


def nearness(best: dict[str, Any] | None) -> str:
    """A percentage where the best reward is exact and positive, else how much reward per step is missing."""
    if best is None:
        return ""
    if best["exact"] and best["share"] is not None:
        return f"{100 * best['share']:.1f} %"
    return f"{best['short']:.4f} below" if best["short"] >= 0 else f"{-best['short']:.4f} above"


def _number(value: float) -> str:
    return "?" if math.isnan(value) else f"{value:.4f}"
