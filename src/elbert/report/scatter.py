"""Reward against bias: one picture for every comparison."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elbert.learning.result import Result
from elbert.report.style import GREY, INK, series_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Point:
    """A policy, or the mean over seeds."""

    label: str
    bias: float
    reward: float
    bias_ci: Sequence[float] | None = None
    reward_ci: Sequence[float] | None = None


def point_of(label: str, result: Result) -> Point | None:
    """From a result; none where the bias is not estimable."""
    bias, reward = result.worst.bias, result.reward
    return None if bias.estimate is None else Point(label, bias.estimate, reward.mean, bias.ci, reward.ci)


def pareto(points: Sequence[Point]) -> list[Point]:
    """Those that no other beats in both: no less bias with no less reward. By rising bias."""
    best: list[Point] = []
    for point in sorted(points, key=lambda p: (p.bias, -p.reward)):
        if not best or point.reward > best[-1].reward:
            best.append(point)
    return best


def draw_scatter(axes: "Axes", points: Sequence[Point], *, theirs: Sequence[Point] = (), front: bool = True) -> None:
    """Ours filled with 95 % intervals, published ones hollow, joined to ours by a thin line; the front of ours."""
    if front and len(points) > 1:
        line = pareto(points)
        axes.step(
            [p.bias for p in line], [p.reward for p in line], where="post", color=GREY, lw=1, zorder=1, label="_front"
        )
    for i, point in enumerate(points):
        style = series_style(i)
        around = [
            None if ci is None else [[max(0.0, value - max(ci[0], least))], [max(0.0, ci[1] - value)]]
            for value, ci, least in ((point.bias, point.bias_ci, 0.0), (point.reward, point.reward_ci, -math.inf))
        ]
        axes.errorbar(
            point.bias,
            point.reward,
            xerr=around[0],
            yerr=around[1],
            fmt=style["marker"],
            color=style["color"],
            ecolor=style["color"],
            elinewidth=0.8,
            capsize=2,
            markersize=6,
            label=point.label,
            zorder=3,
        )
        for other in theirs:
            if other.label == point.label:
                axes.plot([point.bias, other.bias], [point.reward, other.reward], color=GREY, lw=0.6, ls=":", zorder=1)
                axes.plot(
                    other.bias,
                    other.reward,
                    style["marker"],
                    markerfacecolor="white",
                    markeredgecolor=style["color"],
                    markersize=6,
                    label="_published",
                    zorder=2,
                )
    right = axes.get_xlim()[1]
    axes.set_xlim(-0.04 * right, right)
    axes.set(xlabel="bias (less is better)", ylabel="reward per step (more is better)")
    axes.grid(True, color=INK, alpha=0.08, lw=0.6)
