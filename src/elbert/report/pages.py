"""Worlds, runs, results and comparisons as tables, and the figures of a comparison."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elbert.errors import ElbertError
from elbert.exact.frontier import Frontier, frontier_for_picture
from elbert.experiments.compare import Comparison
from elbert.experiments.results import BestPossible
from elbert.experiments.run_folder import RunSummary
from elbert.fairness.benefit_report import CAUTION
from elbert.files import write_json, write_whole
from elbert.learning.result import CriterionResult, Ends, LimitResult, Result
from elbert.report.charts import (
    Curve,
    Point,
    curve_legend,
    draw_levels,
    draw_scatter,
    marks_explained,
    point_of,
    read_curve,
)
from elbert.report.frontier import draw_frontier_line
from elbert.report.style import draw_figure
from elbert.tables import Column, Page, Table, columns, facts, interval, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEST_MEANS = {
    True: (
        "of best: the reward as a share of the most that any policy with this bias can expect; what exceeds 100 % is "
        "the luck of the episodes."
    ),
    False: "of best: how far the reward is from an upper bound that no policy exceeds; the best policy may be nearer.",
}


def runs_page(runs: Sequence[RunSummary]) -> Page:
    """The runs with their status and results."""
    if not runs:
        return Page(("No runs here yet. `elbert train lending` makes one.",))
    shown = (*columns("run", "env", "method"), Column("seeds", folds=True), Column("status"))
    shown += columns("iteration", "seconds", "reward", "bias", right=True)
    notes = [f"{run.path}: {run.reason}" for run in runs if run.reason and run.status in ("failed", "damaged")]
    rows = []
    for run in runs:
        mark = "" if run.evaluated else " *"
        reward, bias = ("" if value is None else f"{number(value)}{mark}" for value in (run.reward, run.bias))
        done = f"{run.iteration}/{run.iterations}", f"{run.seconds:.0f}"
        seeds = ", ".join(map(str, run.seeds))
        rows.append((str(run.path), run.env, run.method, seeds, run.status, *done, reward, bias))
    if any(run.reward is not None and not run.evaluated for run in runs):
        notes.append("* of the last rollout in training, not of an evaluation")
    return Page((Table(shown, tuple(rows)), *notes))


def result_page(result: Result) -> Page:
    """An evaluation, of one seed or of several."""
    several = len(result.seeds)
    head = f"# {result.method} on {result.env}: {result.episodes} episodes of up to {result.horizon} steps"
    over = "95 % interval over seeds" if several else "95 % interval"
    rows: list[tuple[str, ...]] = [("reward per step", number(result.reward.mean), around(result.reward.ci), over)]
    for part in result.criteria:
        rows += _bias_rows(part, several=bool(several), named=len(result.criteria) > 1)
    if result.limit is not None:
        rows.append(_limit_row(result.limit))
    return Page(
        (
            head + (f" for each of {several} seeds" if several else ""),
            facts(rows),
            *(f"* {reason}" for reason in result.not_estimable),
            "",
            *(_groups_table(part) for part in result.criteria),
            CAUTION,
        )
    )


def _bias_rows(part: CriterionResult, *, several: bool, named: bool) -> list[tuple[str, ...]]:
    """The bias under one criterion. Its interval is that of the debiased value; over seeds, of the mean observed."""
    of = f", {part.criterion}" if named else ""
    bias, ends = part.bias, around(part.bias.ci)
    if bias.estimate is None:
        return [(f"bias{of}", "not estimable")]
    notes = [] if bias.noise_floor is None else [f"expected from noise alone: {number(bias.noise_floor)}"]
    notes += [f"without {', '.join(bias.left_out)}"] if bias.left_out else []
    notes += ["unreliable: too few episodes carry the demand of a group"] if bias.reliable is False else []
    rows = [(f"observed bias{of}", number(bias.estimate), ends if several else "", "; ".join(notes))]
    if bias.debiased is not None:
        rows.append((f"debiased{of}", number(bias.debiased), "" if several else ends, ""))
    return rows


def _limit_row(limit: LimitResult) -> tuple[str, ...]:
    """The verdict on the limit with the p-value behind it, and what a higher limit would be worth."""
    p_value = {"confirmed": limit.p_confirm, "refuted": limit.p_refute}.get(limit.verdict)
    notes = [f"without {', '.join(limit.left_out)}"] if limit.left_out else []
    if limit.price is not None:
        notes.append(f"raising the limit by 0.01 would gain about {limit.price:.2g} reward per step")
    p_text = "" if p_value is None else f"p = {p_value:.2g}"
    return f"bias <= {limit.max_bias:g}", limit.verdict, p_text, "; ".join(notes)


def _groups_table(part: CriterionResult) -> Table:
    shown = (Column("group", folds=True),)
    shown += columns("rate", "95 % interval", "supply / step", "demand / step", right=True)
    rows = []
    for group in part.groups:
        rate = number(group.rate, unknown="not estimable")
        rows.append((group.group, rate, around(group.ci), f"{group.supply:.4g}", f"{group.demand:.4g}"))
    return Table(shown, tuple(rows), title=part.criterion)


def comparison_table(comparison: Comparison) -> Table:
    """Policies side by side."""
    policies = comparison.policies
    named = [(policy.name, "rule" if policy.run is None else policy.result.method) for policy in policies]
    shown = (Column("run"), Column("method", detail=all(name == method for name, method in named)))
    shown += columns("reward / step", "95 % interval", "of best", "bias", "95 % interval", right=True)
    shown += (Column("rates", right=True, folds=True), Column("seconds", right=True))
    rows = []
    for names, policy in zip(named, policies, strict=True):
        seconds = number(policy.result.train_seconds, 0, unknown="")
        rows.append((*names, *levels(policy.result, policy.best), rates_of(policy.result), seconds))
    return Table(shown, tuple(rows))


def levels(result: Result, best: BestPossible | None) -> tuple[str, ...]:
    """Reward, its interval, how near it is to the best possible, bias, its interval."""
    bias = result.worst.bias
    reward = number(result.reward.mean), around(result.reward.ci)
    return (*reward, nearness(best), number(bias.estimate), around(bias.ci))


def comparison_page(comparison: Comparison) -> Page:
    """Policies side by side, and what the columns mean."""
    exact_or_not = {policy.best.exact for policy in comparison.policies if policy.best is not None}
    return Page((comparison_table(comparison).brief(), *(BEST_MEANS[exact] for exact in sorted(exact_or_not))))


def write_comparison(comparison: Comparison, folder: Path) -> list[Path]:
    """Write the table (Markdown, JSON), learning curves and reward against bias (PNG, SVG); returns the paths."""
    table, data = folder / "comparison.md", folder / "comparison.json"
    write_whole(table, comparison_table(comparison).to_markdown())
    write_json(data, comparison.to_dict())
    policies, env = comparison.policies, comparison.env
    curves = {policy.name: read_curve(policy.run) for policy in policies if policy.run is not None}
    figures: list[Path] = []
    if curves:
        figures += draw_figure(lambda figure: draw_curves(figure, curves, env), (9.0, 3.4), folder / "curves")
    points = [point for policy in policies if (point := point_of(policy.name, policy.result)) is not None]
    if points:
        best = frontier_behind([(policy.result, policy.best) for policy in policies], points)
        size = (5.5, 3.4 + 0.1 * len(points))
        figures += draw_figure(lambda figure: draw_comparison(figure, points, env, best), size, folder / "scatter")
    return [table, data, *figures]


def draw_curves(figure: "Figure", curves: dict[str, Curve], env: str) -> None:
    """Reward and bias of the rollouts over training."""
    left, right = figure.subplots(1, 2)
    draw_levels(left, right, curves)
    left.set(title=f"Reward in {env}", ylabel="reward per step (more is better)")
    right.set(title="Bias", ylabel="bias of a rollout (0: equal rates)")
    figure.legend(*curve_legend(left, curves.values()), loc="outside lower center", ncols=4)


def draw_comparison(figure: "Figure", points: Sequence[Point], env: str, best: Frontier | None = None) -> None:
    """Reward against bias of evaluated runs, with the front of those that no other beats and the best possible."""
    axes = figure.subplots()
    draw_scatter(axes, points)
    if best is not None:
        draw_frontier_line(axes, best)
    axes.set_title(f"Evaluated in {env}")
    handles, labels = axes.get_legend_handles_labels()
    wide = any(len(label) > 30 for label in labels)
    look: dict[str, Any] = {"title": marks_explained(points), "title_fontsize": 8}
    figure.legend(handles, labels, loc="outside lower center", ncols=1 if wide else 2, **look)


def frontier_behind(results: Sequence[tuple[Result, BestPossible | None]], points: Sequence[Point]) -> Frontier | None:
    """The best possible over the range of biases, or the bound, where all results are of one world that has one."""
    worlds = [(result.env, result.horizon, best.parameters) for result, best in results if best is not None]
    if not points or not worlds or any(world != worlds[0] for world in worlds):
        return None
    env, horizon, parameters = worlds[0]
    try:
        return frontier_for_picture(env, horizon, [point.bias for point in points], **parameters)
    except ElbertError:  # a limit that is too small, or too hard to solve: the picture goes without
        return None


def nearness(best: BestPossible | None) -> str:
    """A percentage where the best reward is exact and positive, else how much reward per step is missing."""
    if best is None:
        return ""
    if best.exact and best.share is not None:
        return f"{100 * best.share:.1f} %"
    return f"{best.short:.4f} below" if best.short >= 0 else f"{-best.short:.4f} above"


def rates_of(result: Result) -> str:
    """The groups' rates under the criterion with the largest bias."""
    return " ".join(number(group.rate, 3) for group in result.worst.groups)


def around(ci: Ends | None) -> str:
    """Both ends of an interval; nothing where there is none."""
    return "" if ci is None else interval(*ci)


def worlds_page(worlds: list[dict[str, Any]]) -> Page:
    """All worlds, one row each; what is long folds on a narrow terminal."""
    shown = (Column("name"), Column("groups", right=True), Column("actions", folds=True))
    shown += (Column("horizon", right=True), *columns("notion", "Gymnasium id", folds=True))
    keys = ("name", "groups", "actions", "horizon", "notion", "id")
    rows = tuple(tuple(str(world[key]) for key in keys) for world in worlds)
    return Page((Table(shown, rows, ruled=False), "\nelbert envs NAME describes one with its parameters."))


def world_page(world: dict[str, Any]) -> Page:
    """One world with its parameters."""
    names = ("summary", "groups", "actions", "observations", "horizon", "notion", "rates")
    about = facts([(name, ", ".join(world[name]) if name == "rates" else str(world[name])) for name in names])
    rows = tuple((each["name"], _typed(each["default"]), each["meaning"]) for each in world["parameters"])
    shown = columns("parameter", "default", "meaning", folds=True)
    return Page((f"# {world['name']}  ({world['id']})\n", about, "", Table(shown, rows, ruled=False)))


def _typed(value: Any) -> str:
    """A default as it is typed; a table of numbers has a line for each row."""
    if isinstance(value, list | tuple):
        between = "\n" if value and isinstance(value[0], list | tuple) else ", "
        return between.join(_typed(entry) for entry in value)
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
