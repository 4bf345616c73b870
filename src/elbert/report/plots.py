"""What `.plot()` draws of agents, their trainings, comparisons and frontiers, and the pages that notebooks show."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from elbert.errors import InvalidInputError, unknown_name
from elbert.exact.frontier import Frontier
from elbert.experiments.compare import Comparison
from elbert.frames import Frame
from elbert.learning import Agent
from elbert.learning.history import History
from elbert.report.charts import Point, smoothed, unit_of_steps
from elbert.report.frontier import draw_frontier, rule_points
from elbert.report.pages import curves_picture, levels_picture
from elbert.report.style import INK, figure_of
from elbert.tables import Column, Page, Table, facts, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS_SHOWN = 10  # of a frame: the first and the last five
KINDS = ("levels", "curves")


def plot_history(history: History, *, columns: Sequence[str] = ("reward", "bias"), smooth: float = 0.0) -> "Figure":
    """Columns over the steps of the environment, a panel for each.

    Args:
        history: of an agent.
        columns: names of columns, for example ("rate_0", "rate_1", "kl").
        smooth: part of the training over which curves are averaged, for example 0.05.
    """
    if not len(history):
        raise InvalidInputError("The history has no iterations: there is nothing to draw.")
    names = [columns] if isinstance(columns, str) else list(columns)
    if not 0 <= smooth <= 1:
        raise InvalidInputError(f"smooth is {smooth!r}. Give a part of the training, from 0 to 1.")
    unit, label = unit_of_steps(max(history["steps"]))
    steps = np.asarray(history["steps"]) / unit

    def draw(figure: "Figure") -> None:
        panels = figure.subplots(1, len(names), squeeze=False)[0]
        for axes, name in zip(panels, names, strict=True):
            values = np.asarray(history[name], float)  # None becomes NaN
            axes.plot(steps, smoothed(values[:, None], smooth)[:, 0], color=INK, lw=1.3)
            axes.set(title=name, xlabel=label)

    for name in names:
        history[name]  # an unknown one is refused before anything is drawn
    return figure_of(draw, (3.6 * len(names) + 0.6, 3.0))


def plot_agent(agent: Agent, **options: Any) -> "Figure":
    """The agent's training, with the options of `plot_history`."""
    return plot_history(agent.history, **options)


def plot_comparison(comparison: Comparison, *, kind: str = "levels") -> "Figure":
    """Reward against bias with the best possible behind ("levels"), or the trainings of runs ("curves")."""
    if kind not in KINDS:
        raise unknown_name("kind of plot", kind, KINDS)
    picture = (curves_picture if kind == "curves" else levels_picture)(comparison)
    if picture is None:
        lacking = {
            "curves": "None of the policies is a run with a folder",
            "levels": "The bias of no policy is estimable",
        }
        raise InvalidInputError(f"{lacking[kind]}: there is nothing to draw.")
    return figure_of(*picture)


def plot_frontier(found: Frontier, *, points: Sequence[Point] = ()) -> "Figure":
    """The best possible as a line, with rules and further points below it."""
    shown = [*points, *rule_points(found)]
    if not shown and not found.points:
        raise InvalidInputError("The frontier has neither points nor rules: there is nothing to draw.")
    return figure_of(lambda figure: draw_frontier(figure, found, shown), (5.8, 3.6 + 0.1 * len(shown)))


def agent_page(agent: Agent) -> Page:
    """What notebooks show of an agent."""
    about = agent.about
    limit = () if about.max_bias is None else (("trained for", f"bias <= {about.max_bias:g}"),)
    rows = (
        ("method", about.method),
        ("environment", about.env),
        ("seed", str(about.seed)),
        ("steps", f"{about.steps:,}"),
        ("seconds", f"{about.train_seconds:.1f}"),
        *limit,
    )
    return Page(("# Agent", facts(rows)))


def frame_page(frame: Frame) -> Page:
    """The first and the last rows of a frame."""
    places = list(range(len(frame)))
    shown = sorted({*places[: ROWS_SHOWN // 2], *places[-ROWS_SHOWN // 2 :]})
    columns = tuple(Column(name, right=kind is not str) for name, kind in frame.kinds.items())
    rows = tuple(tuple(_cell(values[place]) for values in frame.columns.values()) for place in shown)
    which = "." if shown == places else ", the first and the last of them shown."
    return Page((Table(columns, rows), f"{len(frame)} rows{which}"))


def _cell(value: Any) -> str:
    return number(value, unknown="") if value is None or isinstance(value, float) else str(value)
