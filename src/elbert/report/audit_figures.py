"""What an audit looks like: long-term rates with bands, the bias with its noise floor, and demand over time."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elbert.auditing.results import Audit, Course
from elbert.errors import InvalidInputError
from elbert.report.style import GREY, GROUP_COLOURS, INK, SERIES_LINES, draw_figure, figure_of, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GROUPS_DRAWN = 8


def plot_audit(audit: Audit) -> "Figure":
    """The course of the first comparison over time, or its rates where there is no time."""
    courses = audit.comparison.courses
    if courses:
        return figure_of(lambda figure: draw_course(figure, audit, courses[0]), (9.0, 5.6))
    if audit.report is None:
        raise InvalidInputError(
            "There is nothing to draw: no two groups can be compared, or too few outcomes are known."
        )
    return audit.report.plot()


def write_figures(audit: Audit, folder: Path) -> list[Path]:
    """A figure of every course; returns the paths."""
    written: list[Path] = []
    number = 0
    for comparison in audit.comparisons:
        for course in comparison.courses:
            number += 1

            def draw(figure: "Figure", course: Course = course) -> None:
                draw_course(figure, audit, course)

            written += draw_figure(draw, (9.0, 5.6), folder / f"course-{number}")
    return written


def draw_course(figure: "Figure", audit: Audit, course: Course) -> None:
    """Long-term rates with bands, rates of single periods, the bias so far, and the demand."""
    (rates, bias), (single, demand) = figure.subplots(2, 2, sharex=True)
    steps = np.arange(len(course.periods))
    for place, group in enumerate(course.groups[:GROUPS_DRAWN]):
        look: dict[str, Any] = {
            "color": GROUP_COLOURS[place % len(GROUP_COLOURS)],
            "ls": SERIES_LINES[place % len(SERIES_LINES)],
        }
        rates.plot(steps, _floats(group.cumulative), lw=1.6, label=plain(group.group), **look)
        rates.fill_between(steps, _floats(group.low), _floats(group.high), color=look["color"], alpha=0.15, lw=0)
        single.plot(steps, _floats(group.rate), lw=1.0, **look)
        demand.plot(steps, group.demand, lw=1.2, **look)
    bias.plot(steps, _floats(course.bias), color=INK, lw=1.6, label="bias so far")
    bias.plot(steps, _floats(course.noise_floor), color=GREY, lw=1.2, ls="--", label="expected from noise alone")
    if audit.max_bias is not None:
        bias.axhline(audit.max_bias, color=GREY, lw=1.0, ls=":", label="limit")
    percent = 100 * audit.question.get("confidence", 0.95)
    rates.set_title(f"Long-term {plain(course.criterion)}, {percent:g} % bands")
    bias.set_title("Bias of the rates so far")
    single.set_title(f"Rate in each {audit.period}")
    demand.set_title(f"Demand in each {audit.period}")
    bias.set_ylim(bottom=0)
    demand.set_ylim(bottom=0)
    bias.legend(loc="upper right", fontsize=8)
    for axes in (single, demand):
        _name_periods(axes, course.periods)
    for jump in audit.jumps:
        first, last = course.periods.index(jump.first), course.periods.index(jump.last)
        for axes in (rates, bias, single, demand):
            axes.axvspan(first - 0.5, last + 0.5, color=GREY, alpha=0.12, lw=0, zorder=0)
    handles, labels = rates.get_legend_handles_labels()
    title = "grey: a stretch in which the log is unlike itself" if audit.jumps else None
    figure.legend(handles, labels, loc="outside lower center", ncols=4, title=title, title_fontsize=8)


def _floats(values: tuple[float | None, ...]) -> Any:
    return np.array([np.nan if value is None else value for value in values])


def _name_periods(axes: "Axes", periods: tuple[str, ...]) -> None:
    places = sorted({round(place) for place in np.linspace(0, len(periods) - 1, min(6, len(periods)))})
    axes.set_xticks(places, [periods[place] for place in places])
