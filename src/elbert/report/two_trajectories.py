"""Table and picture of the paper's motivating example."""

import json
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elbert.experiments.two_trajectories import GROUPS, STEPS, Reading, TwoTrajectories
from elbert.files import write_whole
from elbert.report.style import BLUE, GREY, INK, VERMILION, draw_figure
from elbert.tables import Column, Page, Table, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"blue": BLUE, "red": VERMILION}
HATCHES = {"blue": "", "red": "///"}
NOTIONS = (
    ("sum of step-wise differences (Wen 2021, Chi 2022)", "difference"),
    ("sum of squared step-wise differences (Yin 2023)", "squared_difference"),
    ("long-term bias (total approved / total applicants)", "bias"),
)


EXPLANATION = (
    "Both approve 100 of 101 blue and 1 of 101 red applicants; step-wise notions call A unbiased and B biased.\n"
    "The long-term benefit rate gives both the same bias, and every decision the same weight."
)


def trajectories_table(example: TwoTrajectories) -> Table:
    """A column for each trajectory, a row for each thing that is said of it."""
    readings = example.readings
    decisions = [
        (f"approved / applicants at {step}, {group}", *(_share(reading, t, g) for reading in readings))
        for t, step in enumerate(STEPS)
        for g, group in enumerate(GROUPS)
    ]
    rates = [
        (f"long-term benefit rate, {group}", *(number(float(reading.rates[g])) for reading in readings))
        for g, group in enumerate(GROUPS)
    ]
    notions = [(label, *(number(getattr(reading, field)) for reading in readings)) for label, field in NOTIONS]
    weights = [
        (
            f"weight of a red decision at {step}, {kind}",
            *(number(float(getattr(reading, field)[t, 1])) for reading in readings),
        )
        for kind, field in (("step-wise", "stepwise_weights"), ("long-term", "long_term_weights"))
        for t, step in enumerate(STEPS)
    ]
    sections = list(accumulate(len(rows) for rows in (decisions, rates, notions)))
    return Table(
        (Column(""), *(Column(f"trajectory {reading.trajectory.name}", right=True) for reading in readings)),
        tuple(decisions + rates + notions + weights),
        title="Two trajectories of a bank's decisions",
        sections=tuple(end - 1 for end in sections),
    )


def trajectories_page(example: TwoTrajectories) -> Page:
    """The table and what it shows."""
    return Page((trajectories_table(example), EXPLANATION))


def write_trajectories(example: TwoTrajectories, out: Path) -> list[Path]:
    """Write the table (Markdown, JSON) and the picture (PNG, SVG) into a folder; returns the paths."""
    table, data, picture = out / f"{example.name}.md", out / f"{example.name}.json", out / example.name
    write_whole(table, trajectories_table(example).to_markdown())
    write_whole(data, json.dumps(example.to_dict(), indent=2) + "\n")
    figures = draw_figure(lambda figure: draw_trajectories(figure, example.readings), (10.0, 3.6), picture)
    return [table, data, *figures]


def draw_trajectories(figure: "Figure", readings: Sequence[Reading]) -> None:
    """Left: the decisions. Middle: what each notion says. Right: what one decision weighs."""
    decisions, notions, weights = figure.subplots(1, 3, width_ratios=[1.25, 1.1, 1.0])
    _draw_decisions(decisions, readings)
    _draw_notions(notions, readings)
    _draw_weights(weights, readings[0])


def _draw_decisions(axes: Any, readings: Sequence[Reading]) -> None:
    """Applicants as outlined bars, approvals filled, one row per trajectory, step and group."""
    labels, position = [], 0.0
    for reading in readings:
        for t, step in enumerate(STEPS):
            for g, group in enumerate(GROUPS):
                due, approved = reading.trajectory.demand[t, g], reading.trajectory.supply[t, g]
                axes.barh(position, due, color="white", edgecolor=COLOURS[group], height=0.8)
                axes.barh(
                    position, approved, color=COLOURS[group], hatch=HATCHES[group], edgecolor=INK, height=0.8, lw=0.4
                )
                axes.text(due + 3, position, f"{approved:.0f} of {due:.0f}", va="center", fontsize=8)
                labels.append((position, f"{reading.trajectory.name}, {step}, {group}"))
                position += 1
        position += 0.7
    axes.set_yticks([y for y, _ in labels], [label for _, label in labels])
    axes.invert_yaxis()
    axes.set_xlim(0, 132)
    axes.set_xticks([0, 50, 100])
    axes.set_xlabel("people: applied (outline), approved (filled)")
    axes.set_title("The decisions")


def _draw_notions(axes: Any, readings: Sequence[Reading]) -> None:
    names = ["step-wise\ndifference", "step-wise\nsquared", "long-term\nbias"]
    for offset, reading, colour, hatch in zip((-0.2, 0.2), readings, (INK, "white"), ("", "..."), strict=True):
        values = [getattr(reading, field) for _, field in NOTIONS]
        places = np.arange(len(values)) + offset
        axes.bar(places, values, 0.38, color=colour, hatch=hatch, edgecolor=INK, label=reading.trajectory.name)
        for x, value in zip(places, values, strict=True):
            axes.text(x, value + 0.02, f"{value:.2f}", ha="center", fontsize=8)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylim(0, 1.12)
    axes.set_ylabel("observed bias (0: none)")
    axes.set_title("What each notion says", pad=22)
    axes.legend(title=None, loc="lower left", bbox_to_anchor=(-0.02, 0.985), ncols=2, handlelength=1.2)


def _draw_weights(axes: Any, reading: Reading) -> None:
    """The weight of one decision on a red applicant at each step, on a logarithmic scale."""
    for offset, field, colour, hatch, label in (
        (-0.2, "stepwise_weights", VERMILION, "///", "step-wise"),
        (0.2, "long_term_weights", GREY, "", "long-term"),
    ):
        values = getattr(reading, field)[:, 1]
        places = np.arange(len(values)) + offset
        axes.bar(places, values, 0.38, color=colour, hatch=hatch, edgecolor=INK, label=label, lw=0.4)
        for x, value in zip(places, values, strict=True):
            axes.text(x, value * 1.12, f"1/{1 / value:.0f}" if value < 1 else "1", ha="center", fontsize=8)
    axes.set_yscale("log")
    axes.set_ylim(4e-3, 2.5)
    axes.set_xticks(range(len(STEPS)), [f"step {step}" for step in STEPS])
    axes.set_ylabel("weight (log scale; better: alike)")
    axes.set_title("One red decision's weight", pad=22)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 0.985), ncols=2, handlelength=1.2)


def _share(reading: Reading, t: int, g: int) -> str:
    return f"{reading.trajectory.supply[t, g]:.0f} / {reading.trajectory.demand[t, g]:.0f}"
