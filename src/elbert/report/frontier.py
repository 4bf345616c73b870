"""The frontier as a table and a picture: the most reward within each limit on the bias."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from elbert.exact.frontier import Frontier
from elbert.files import write_json
from elbert.report.charts import Point, draw_enlarged, draw_scatter, marks_explained
from elbert.report.style import INK, draw_figure, plain
from elbert.tables import Column, Page, Part, Table, columns, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def frontier_page(found: Frontier) -> Page:
    """The frontier for the terminal, and its rules below."""
    parts: list[Part] = [f"# {found.env}, episodes of {found.horizon} steps"]
    if found.points:
        title = "most reward / step" if found.points[0].rates is not None else "reward / step at most"
        shown = columns("bias at most", title, "proven bound", "rates", "price of bias", right=True)
        rows = []
        for point in found.points:
            limit = "no limit" if point.max_bias is None else f"{point.max_bias:g}"
            rates = " ".join(number(rate) for row in point.rates or () for rate in row)
            levels = number(point.reward, 5), number(point.bound, 5)
            rows.append((limit, *levels, rates, number(point.price, unknown="")))
        parts.append(Table(shown, tuple(rows)))
    if found.rules:
        shown = (Column("rule"), *columns("reward / step", "bias", "", right=True))
        rows = (
            (rule.rule, number(rule.reward), number(rule.bias), "simulated" if rule.simulated else "expected")
            for rule in found.rules
        )
        parts.append(Table(shown, tuple(rows)))
    return Page((*parts, found.note))


def write_frontier(
    found: Frontier, folder: Path, *, points: Sequence[Point] = (), theirs: Sequence[Point] = ()
) -> list[Path]:
    """Write `frontier-ENV.json`, a page, and the figure as PNG and SVG, into a folder.

    `points` are trained agents to show together with the rules; `theirs` are published points, which are drawn hollow
    and joined to ours of the same label.
    """
    data = folder / f"frontier-{found.env}.json"
    write_json(data, found.to_dict())
    shown = [*points, *rule_points(found)]
    page = folder / f"frontier-{found.env}.html"
    found.to_html(page)
    if not shown and not found.points:
        return [page, data]
    size, path = (5.8, 3.6 + 0.1 * len(shown)), folder / f"frontier-{found.env}"
    return [page, data, *draw_figure(lambda figure: draw_frontier(figure, found, shown, theirs), size, path)]


def rule_points(found: Frontier) -> list[Point]:
    """The rules of a frontier whose groups can be compared."""
    return [
        Point(rule.rule.rpartition("/")[2], rule.bias, rule.reward) for rule in found.rules if rule.bias is not None
    ]


def draw_frontier(
    figure: "Figure", found: Frontier, points: Sequence[Point] = (), theirs: Sequence[Point] = ()
) -> None:
    """The best possible as a line, policies below it."""
    axes = figure.subplots()

    def draw(axes: "Axes", points: Sequence[Point]) -> None:
        draw_scatter(axes, points, theirs=theirs, front=False)
        draw_frontier_line(axes, found)
        for other in theirs:
            if other.label not in {point.label for point in points}:
                axes.plot(other.bias, other.reward, "o", mfc="white", mec=INK, ms=6, label=plain(other.label), zorder=2)

    draw_enlarged(axes, draw, points, highest=highest_reward(found))
    axes.set_title(f"{found.env}, {found.horizon:,} steps")
    handles, labels = axes.get_legend_handles_labels()
    title = marks_explained(points, theirs)
    figure.legend(handles, labels, loc="outside lower center", ncols=2, title=title, title_fontsize=8)


def highest_reward(found: Frontier | None) -> float:
    """The top of a frontier's line."""
    return max((point.reward for point in (() if found is None else found.points)), default=-math.inf)


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
