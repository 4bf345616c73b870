"""What a run's metrics show over training."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from elbert.errors import InvalidInputError
from elbert.experiments.run_folder import RunFolder
from elbert.experiments.run_metrics import read_metrics
from elbert.report.style import series_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curve: TypeAlias = dict[str, np.ndarray[Any, Any]]
"""What was measured at every iteration, [iterations, members] by name."""

SMOOTHED = 1 / 40
"""Part of the training over which a curve in a small panel is averaged."""


def read_curve(run: RunFolder) -> Curve:
    """The metrics of a run that has some."""
    curve = read_metrics(run.path)
    if not curve:
        raise InvalidInputError(f"{run.path} has no metrics yet. Wait for its first iterations.")
    return curve


def smoothed(column: np.ndarray[Any, Any], part: float = SMOOTHED) -> np.ndarray[Any, Any]:
    """Means over a window around every iteration, shorter at the ends. [iterations, members] -> same"""
    half = int(len(column) * part / 2)
    if half == 0:
        return column
    sums = np.cumsum(np.concatenate([np.zeros((1, column.shape[1])), column]), axis=0)
    at = np.arange(len(column))
    low, high = np.maximum(at - half, 0), np.minimum(at + half + 1, len(column))
    return (sums[high] - sums[low]) / (high - low)[:, None]


def draw_curve(axes: "Axes", curve: Curve, column: str, i: int, label: str, *, part: float = 0.0) -> None:
    """The mean over seeds of one column, with a band from the lowest to the highest seed."""
    style = series_style(i)
    steps = curve["steps"].mean(axis=1) / 1e6
    values = smoothed(curve[column], part)
    axes.plot(steps, values.mean(axis=1), label=label, markevery=max(1, len(steps) // 8), markersize=4, lw=1.3, **style)
    if values.shape[1] > 1:
        axes.fill_between(steps, values.min(axis=1), values.max(axis=1), color=style["color"], alpha=0.15, lw=0)


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


def labels_of(axes: "Axes") -> tuple[Sequence[Any], Sequence[str]]:
    """Handles and labels for a legend outside the data."""
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    return list(once.values()), list(once)
