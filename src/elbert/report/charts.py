"""What comparisons draw: metrics over training, and reward against bias at its end."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from elbert.errors import InvalidInputError
from elbert.experiments.run_folder import RunFolder
from elbert.learning.result import Result
from elbert.report.style import GREY, INK, plain, series_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curve: TypeAlias = dict[str, np.ndarray[Any, Any]]  # metrics by name, [iterations, members] each
STEP_UNITS = ((1e6, "million steps"), (1e3, "thousand steps"), (1, "steps"))
MANY = 4  # points from which on a crowd can be told from those outside
OUTSIDE = 1 / 5  # of the points, at most, are left out of a crowd
FLATTENED = 1 / 4  # of the height: a crowd in less than this is enlarged
SMOOTHED = 1 / 40  # part of the training over which a curve in a small panel is averaged


def read_curve(run: RunFolder) -> Curve:
    """The metrics of a run that has some."""
    curve = run.columns()
    if not curve:
        raise InvalidInputError(f"{run.path} has no metrics yet. Wait for its first iterations.")
    return curve


def smoothed(column: np.ndarray[Any, Any], part: float = SMOOTHED) -> np.ndarray[Any, Any]:
    """Means over a window around every iteration, shorter at the ends; NaN counts for nothing.

    [iterations, members] -> same
    """
    half = int(len(column) * part / 2)
    if half == 0:
        return column
    at = np.arange(len(column))
    low, high = np.maximum(at - half, 0), np.minimum(at + half + 1, len(column))

    def in_window(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        sums = np.cumsum(np.concatenate([np.zeros((1, values.shape[1])), values]), axis=0)
        return sums[high] - sums[low]

    there = in_window(np.isfinite(column).astype(float))
    return in_window(np.where(np.isfinite(column), column, 0.0)) / np.where(there, there, np.nan)


def draw_levels(reward: "Axes", bias: "Axes", curves: Mapping[str, Curve]) -> None:
    """Reward and bias of rollouts, smoothed, by label.

    Of several seeds: the mean, and a band from the lowest to the highest seed. Of one: the rollouts faintly behind.
    """
    unit, steps_label = unit_of_steps(max((float(curve["steps"].max()) for curve in curves.values()), default=0.0))
    for (label, curve), look in zip(curves.items(), series_styles(list(curves)), strict=True):
        steps = curve["steps"].mean(axis=1) / unit
        marks = {"markevery": max(1, len(steps) // 8), "markersize": 4}
        for axes, column in ((reward, "reward"), (bias, "bias")):
            values = smoothed(curve[column])
            axes.plot(steps, values.mean(axis=1), label=plain(label), lw=1.4, **marks, **look)
            if values.shape[1] > 1:
                axes.fill_between(steps, values.min(axis=1), values.max(axis=1), color=look["color"], alpha=0.15, lw=0)
            else:
                axes.plot(steps, curve[column][:, 0], color=look["color"], alpha=0.3, lw=0.6, zorder=1)
    for axes in (reward, bias):
        axes.set_xlabel(steps_label)
    bias.set_ylim(bottom=0)


def unit_of_steps(most: float) -> tuple[float, str]:
    """How many steps an axis up to this many counts as one, and what it is called."""
    return next((unit, label) for unit, label in STEP_UNITS if most >= unit or unit == 1)


def curve_legend(axes: "Axes", curves: Iterable[Curve]) -> tuple[list[Any], list[str]]:
    """Handles and labels of the curves in a panel, and what is behind the lines."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles, labels = axes.get_legend_handles_labels()
    members = {curve["reward"].shape[1] for curve in curves}
    if members - {1}:
        handles, labels = [*handles, Patch(color=GREY, alpha=0.35, lw=0)], [*labels, "band: lowest to highest seed"]
    if 1 in members:
        handles, labels = [*handles, Line2D([], [], color=GREY, alpha=0.6, lw=0.6)], [*labels, "thin: single rollouts"]
    return handles, labels


def extremes(curve: Curve) -> Curve:
    """Supply and demand per step of the groups with the highest and the lowest rate, at every iteration.

    [iterations, members] each, under supply_most, demand_most, supply_least, demand_least. One criterion only.
    """
    groups = sorted((name for name in curve if name.startswith("rate_")), key=lambda name: int(name[5:]))
    rates = np.stack([curve[name] for name in groups], axis=-1)
    has_rate = np.isfinite(rates)
    most = np.where(has_rate, rates, -np.inf).argmax(axis=-1)
    least = np.where(has_rate, rates, np.inf).argmin(axis=-1)
    shown = {"steps": curve["steps"]}
    for kind in ("supply", "demand"):
        values = np.stack([curve[f"{kind}_{name[5:]}"] for name in groups], axis=-1)
        for which, index in (("most", most), ("least", least)):
            shown[f"{kind}_{which}"] = np.take_along_axis(values, index[..., None], axis=-1)[..., 0]
    return shown


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


def enlarge_crowd(axes: "Axes", points: Sequence[Point], highest: float = -math.inf) -> "Axes | None":
    """An inset around most of the points, where the rewards of a few are so far below that they flatten the others.

    It reaches up to the reward `highest`, or to the highest point. None where nothing is flattened.
    """
    rewards = np.asarray([point.reward for point in points])
    if len(rewards) < MANY:
        return None
    low, high = float(np.quantile(rewards, OUTSIDE, method="higher")), max(highest, float(rewards.max()))
    if not 0 < high - low < FLATTENED * (high - float(rewards.min())):
        return None
    right = max(point.bias for point in points if point.reward >= low)
    margin = 0.15 * (high - low)
    drawn = (axes.transData + axes.transAxes.inverted()).transform([(point.bias, point.reward) for point in points])
    left = min((0.12, 0.54), key=lambda left: np.sum((np.abs(drawn[:, 0] - left - 0.2) < 0.25) & (drawn[:, 1] < 0.65)))
    inset = axes.inset_axes((left, 0.1, 0.43, 0.5))
    inset.set(xlim=(-0.06 * right, 1.06 * right), ylim=(low - margin, high + margin))
    inset.tick_params(labelsize=7.5)
    inset.grid(True, color=INK, alpha=0.08, lw=0.6)
    axes.indicate_inset_zoom(inset, edgecolor=GREY)
    return inset


def draw_enlarged(
    axes: "Axes", draw: Callable[["Axes", Sequence[Point]], None], points: Sequence[Point], *, highest: float
) -> None:
    """Let `draw` draw the points, and once more, without bars, in an inset if they are crowded."""
    draw(axes, points)
    if (inset := enlarge_crowd(axes, points, highest)) is not None:
        window = inset.get_xlim(), inset.get_ylim()
        draw(inset, [replace(point, bias_ci=None, reward_ci=None) for point in points])
        inset.set(xlim=window[0], ylim=window[1], xlabel="", ylabel="")


def marks_explained(points: Sequence[Point], theirs: Sequence[Point] = ()) -> str | None:
    """The title of a scatter's legend: what bars and hollow marks are; None where there are neither."""
    bars = any(point.bias_ci is not None or point.reward_ci is not None for point in points)
    return "\n".join(["bars: 95 % intervals"] * bars + ["hollow: published"] * bool(theirs)) or None


def draw_scatter(axes: "Axes", points: Sequence[Point], *, theirs: Sequence[Point] = (), front: bool = True) -> None:
    """Ours filled with 95 % intervals, published ones hollow, joined to ours by a thin line; the front of ours."""
    if front and len(points) > 1:
        line = pareto(points)
        biases, rewards = [p.bias for p in line], [p.reward for p in line]
        front_label = "Pareto front" if len(line) > 1 else "_front"  # one point makes no line
        axes.step(biases, rewards, where="post", color=GREY, lw=1, zorder=1, label=front_label)
    for point, style in zip(points, series_styles([point.label for point in points]), strict=True):
        around = [
            None if ci is None else [[max(0.0, value - max(ci[0], least))], [max(0.0, ci[1] - value)]]
            for value, ci, least in ((point.bias, point.bias_ci, 0.0), (point.reward, point.reward_ci, -math.inf))
        ]
        bars: dict[str, Any] = {"xerr": around[0], "yerr": around[1], "elinewidth": 0.8, "capsize": 2}
        look: dict[str, Any] = {"marker": style["marker"], "color": style["color"], "markersize": 6, "ls": "none"}
        axes.errorbar(point.bias, point.reward, label=plain(point.label), zorder=3, **look, **bars)
        for other in theirs:
            if other.label == point.label:
                axes.plot([point.bias, other.bias], [point.reward, other.reward], color=GREY, lw=0.6, ls=":", zorder=1)
                axes.plot(other.bias, other.reward, label="_published", zorder=2, markerfacecolor="white", **look)
    right = axes.get_xlim()[1]
    axes.set_xlim(-0.04 * right, right)
    axes.set(xlabel="bias (less is better)", ylabel="reward per step (more is better)")
    axes.grid(True, color=INK, alpha=0.08, lw=0.6)
