"""Table and picture of the paper's motivating example."""

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from elbert.experiments.two_trajectories import GROUPS, STEPS, Reading, TwoTrajectories
from elbert.files import write_json, write_whole
from elbert.report.style import BLUE, GREY, INK, VERMILION, draw_figure
from elbert.tables import Column, Table, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOOKS = {"blue": {"color": BLUE}, "red": {"color": VERMILION, "hatch": "///"}}
NOTIONS = (
    ("sum of step-wise differences (Wen 2021, Chi 2022)", "stepwise_difference"),
    ("sum of squared step-wise differences (Yin 2023)", "stepwise_squared_difference"),
    ("long-term bias (total approved / total applicants)", "long_term_bias"),
)


EXPLANATION = (
    "Both approve 100 of 101 blue and 1 of 101 red applicants; step-wise notions call A unbiased and B biased.\n"
    "The long-term benefit rate gives both the same bias, and every decision the same weight."
)


def trajectories_table(example: TwoTrajectories) -> Table:
    """A column for each trajectory, a row for each thing that is said of it."""
    readings = example.readings
    each_weight = [reading.weight_of_a_decision for reading in readings]
    decisions = [
        (
            f"approved / applicants at {step}, {group}",
            *(f"{reading.approved[t][g]:.0f} / {reading.applicants[t][g]:.0f}" for reading in readings),
        )
        for t, step in enumerate(STEPS)
        for g, group in enumerate(GROUPS)
    ]
    rates = [
        (f"long-term benefit rate, {group}", *(number(reading.long_term_benefit_rates[g]) for reading in readings))
        for g, group in enumerate(GROUPS)
    ]
    notions = [(label, *(number(getattr(reading, field)) for reading in readings)) for label, field in NOTIONS]
    weights = [
        (f"weight of a red decision at {step}, {kind}", *(number(weight[kind][t][1]) for weight in each_weight))
        for kind in ("step-wise", "long-term")
        for t, step in enumerate(STEPS)
    ]
    sections = list(accumulate(len(rows) for rows in (decisions, rates, notions)))
    return Table(
        (Column(""), *(Column(f"trajectory {reading.trajectory}", right=True) for reading in readings)),
        tuple(decisions + rates + notions + weights),
        title="Two trajectories of a bank's decisions",
        sections=tuple(end - 1 for end in sections),
    )


def write_trajectories(example: TwoTrajectories, out: Path) -> list[Path]:
    """Write the table (Markdown, JSON) and the picture (PNG, SVG) into a folder; returns the paths."""
    table, data = out / f"{example.name}.md", out / f"{example.name}.json"
    write_whole(table, trajectories_table(example).to_markdown())
    write_json(data, example.to_dict())
    draw = partial(draw_trajectories, readings=example.readings)
    return [table, data, *draw_figure(draw, (10.0, 3.6), out / example.name)]


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
                due, approved = reading.applicants[t][g], reading.approved[t][g]
                axes.barh(position, due, color="white", edgecolor=LOOKS[group]["color"], height=0.8)
                axes.barh(position, approved, edgecolor=INK, height=0.8, lw=0.4, **LOOKS[group])
                axes.text(due + 3, position, f"{approved:.0f} of {due:.0f}", va="center", fontsize=8)
                labels.append((position, f"{reading.trajectory}, {step}, {group}"))
                position += 1
        position += 0.7
    axes.set_yticks([y for y, _ in labels], [label for _, label in labels])
    axes.invert_yaxis()
    axes.set_xlim(0, 132)
    axes.set_xticks([0, 50, 100])
    axes.set_xlabel("people: applied (outline), approved (filled)")
    axes.set_title("The decisions", pad=22)  # as high as the others, which have a legend below


def _draw_notions(axes: Any, readings: Sequence[Reading]) -> None:
    names = ["step-wise\ndifference", "step-wise\nsquared", "long-term\nbias"]
    for offset, reading, colour, hatch in zip((-0.2, 0.2), readings, (INK, "white"), ("", "..."), strict=True):
        values = [getattr(reading, field) for _, field in NOTIONS]
        places = np.arange(len(values)) + offset
        bars = axes.bar(places, values, 0.38, color=colour, hatch=hatch, edgecolor=INK, label=reading.trajectory)
        axes.bar_label(bars, fmt="{:.2f}", fontsize=8, padding=2)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylim(0, 1.12)
    axes.set_ylabel("observed bias (0: none)")
    axes.set_title("What each notion says", pad=22)
    axes.legend(title=None, loc="lower left", bbox_to_anchor=(-0.02, 0.985), ncols=2, handlelength=1.2)


def _draw_weights(axes: Any, reading: Reading) -> None:
    """The weight of one decision on a red applicant at each step, on a logarithmic scale."""
    for offset, kind, colour, hatch in ((-0.2, "step-wise", VERMILION, "///"), (0.2, "long-term", GREY, "")):
        values = [weights[1] for weights in reading.weight_of_a_decision[kind]]
        places = np.arange(len(values)) + offset
        bars = axes.bar(places, values, 0.38, color=colour, hatch=hatch, edgecolor=INK, label=kind, lw=0.4)
        axes.bar_label(bars, [f"1/{1 / value:.0f}" if value < 1 else "1" for value in values], fontsize=8, padding=2)
    axes.set_yscale("log")
    axes.set_ylim(4e-3, 2.5)
    axes.set_xticks(range(len(STEPS)), [f"step {step}" for step in STEPS])
    axes.set_ylabel("weight (log scale; better: alike)")
    axes.set_title("One red decision's weight", pad=22)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 0.985), ncols=2, handlelength=1.2)
