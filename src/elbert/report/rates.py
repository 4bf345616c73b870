"""The groups' rates with their intervals: what a report or a result draws."""

from typing import TYPE_CHECKING, Any

from elbert.report.style import GREY, GROUP_COLOURS, GROUP_MARKERS, figure_of, plain
from elbert.tables import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from elbert.fairness.benefit_report import BenefitReport, CriterionBenefit
    from elbert.learning.result import CriterionResult, Result


def plot_rates(shown: "BenefitReport | Result") -> "Figure":
    """Every group's rate with its interval, a panel for each criterion; the grey span is the observed bias."""
    groups = max(len(part.groups) for part in shown.criteria)
    size = (5.6, 0.5 + (0.75 + 0.3 * groups) * len(shown.criteria))
    return figure_of(lambda figure: _draw(figure, shown), size)


def _draw(figure: "Figure", shown: Any) -> None:
    panels = figure.subplots(len(shown.criteria), 1, squeeze=False, sharex=True)[:, 0]
    for axes, part in zip(panels, shown.criteria, strict=True):
        draw_groups(axes, part)
    panels[-1].set_xlabel(f"rate; line: {interval_words(shown)}; grey: observed bias")


def interval_words(shown: "BenefitReport | Result") -> str:
    """What the bars around rates are."""
    confidence = getattr(shown, "confidence", 0.95)
    return f"{100 * confidence:g} % interval{' over seeds' if getattr(shown, 'seeds', ()) else ''}"


def draw_groups(axes: "Axes", part: "CriterionBenefit | CriterionResult") -> None:
    """One line for each group, the first at the top."""
    names = [group.group for group in part.groups]
    for place, group in enumerate(part.groups):
        look: dict[str, Any] = {"color": GROUP_COLOURS[place % len(GROUP_COLOURS)], "zorder": 3}
        if group.rate is None:
            axes.text(0.01, place, "not estimable", va="center", color=GREY, transform=axes.get_yaxis_transform())
            continue
        if group.low is not None and group.high is not None:
            axes.plot([group.low, group.high], [place, place], lw=2, **look)
        axes.plot(group.rate, place, marker=GROUP_MARKERS[place % len(GROUP_MARKERS)], ms=6, ls="none", **look)
    compared = [group.rate for group in part.groups if group.rate is not None and group.group not in part.bias.left_out]
    if part.bias.estimate is not None and compared:
        axes.axvspan(min(compared), max(compared), color=GREY, alpha=0.18, lw=0, zorder=1)
    bias = number(part.bias.estimate, unknown="not estimable")
    axes.set_title(f"{plain(part.criterion)}: observed bias {bias}")
    axes.set_yticks(range(len(names)), [plain(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.margins(x=0.04)
