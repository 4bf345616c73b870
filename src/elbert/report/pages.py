"""Worlds, runs, results and comparisons as tables, and the figures of a comparison."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from elbert.errors import ElbertError
from elbert.exact.frontier import Frontier, frontier_for_picture
from elbert.experiments.compare import Comparison
from elbert.experiments.results import BestPossible
from elbert.experiments.run_folder import RunSummary, coefficients_text
from elbert.experiments.settings_in_use import SettingsInUse, overview
from elbert.fairness.benefit_report import CAUTION
from elbert.fairness.bias_inference import BiasTest
from elbert.files import write_json, write_whole
from elbert.learning.onnx_model import CAUTION as NOT_CARRIED
from elbert.learning.onnx_model import Exported
from elbert.learning.result import CriterionResult, Ends, Result
from elbert.report.charts import (
    Curve,
    Point,
    curve_legend,
    draw_enlarged,
    draw_levels,
    draw_scatter,
    marks_explained,
    point_of,
    read_curve,
)
from elbert.report.frontier import draw_frontier_line, highest_reward
from elbert.report.style import GREY, draw_figure
from elbert.tables import COLOURS, Column, Page, Table, Toned, columns, facts, interval, number, toned, whole_ranges

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Picture: TypeAlias = tuple[Callable[["Figure"], None], tuple[float, float]]
"""What draws a figure, and its size in inches."""

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
    shown = (*columns("run", "env", "method"), *columns("coefficients", "seeds", folds=True), Column("status"))
    shown += columns("seconds", "reward / step", "observed bias", right=True)
    notes = [f"{run.path}: {run.reason}" for run in runs if run.reason and run.status in ("failed", "damaged")]
    rows = []
    for run in runs:
        mark = "" if run.evaluated else " *"
        reward, bias = ("" if value is None else f"{number(value)}{mark}" for value in (run.reward, run.bias))
        at = "" if run.status in ("finished", "damaged") else f" at {run.iteration}/{run.iterations}"
        status = Toned(run.status + at, COLOURS.get(run.status, ""))
        varied = coefficients_text(run.coefficients), whole_ranges(run.seeds)
        rows.append((str(run.path), run.env, run.method, *varied, status, f"{run.seconds:.0f}", reward, bias))
    if any(run.reward is not None and not run.evaluated for run in runs):
        notes.append("* of the last rollout in training, not of an evaluation")
    return Page((Table(shown, tuple(rows)).brief(), *notes))


def result_page(result: Result) -> Page:
    """An evaluation, of one seed or of several."""
    several = len(result.seeds)
    head = f"# {result.method} on {result.env}: {episodes_in([result])}"
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
            *(_groups_table(part, result.notion) for part in result.criteria),
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
        rows.append((f"debiased{of}", number(bias.debiased), "" if several else ends, meaning(bias.debiased)))
    return rows


def meaning(debiased: float) -> str:
    """What a debiased value below 0 says."""
    return "below 0: equal groups would differ more by chance" if debiased < 0 else ""


def _limit_row(limit: BiasTest) -> tuple[str, ...]:
    """The verdict on the limit with the p-value behind it, and whom it leaves out."""
    p_value = {"confirmed": limit.p_confirm, "refuted": limit.p_refute}.get(limit.verdict)
    note = f"without {', '.join(limit.left_out)}" if limit.left_out else ""
    p_text = "" if p_value is None else f"p = {p_value:.2g}"
    return f"bias <= {limit.max_bias:g}", toned(limit.verdict), p_text, note


def _groups_table(part: CriterionResult, notion: str | None) -> Table:
    shown = (Column("group", folds=True),)
    shown += columns("rate", "95 % interval", "supply / step", "demand / step", right=True)
    rows = []
    for group in part.groups:
        rate = number(group.rate, unknown="not estimable")
        rows.append((group.group, rate, around(group.ci), f"{group.supply:.4g}", f"{group.demand:.4g}"))
    return Table(shown, tuple(rows), title=part.criterion + ("" if notion is None else f" ({notion})"))


def export_page(exported: Exported) -> Page:
    """How an exported policy compares with the original, and what goes in and out."""
    sides = (("input", exported.inputs), ("output", exported.outputs))
    rows = [
        (side, each.name, each.type, f"[{', '.join(map(str, each.shape))}]", each.meaning)
        for side, values in sides
        for each in values
    ]
    shown = (*columns("", "name", "type", "shape"), Column("meaning", folds=True))
    return Page((exported.comparison, Table(shown, tuple(rows)), NOT_CARRIED))


def comparison_table(comparison: Comparison) -> Table:
    """Policies side by side."""
    policies = comparison.policies
    named = [(policy.name, policy.method) for policy in policies]
    shown = (Column("run"), Column("method", detail=all(name == method for name, method in named)))
    rows = tuple((*names, *side_by_side(each.result, each.best)) for names, each in zip(named, policies, strict=True))
    return Table((*shown, *LEVELS), rows)


def episodes_in(results: Sequence[Result]) -> str:
    """How much was played for each of these."""
    played = sorted({single.episodes for result in results for single in result.singles})
    return f"{'at least ' if len(played) > 1 else ''}{played[0]} episodes of up to {results[0].horizon} steps"


def coefficients_page(results: Mapping[str, Result]) -> Page:
    """The policies of one run by coefficient, each a mean over its seeds."""
    first = next(iter(results.values()))
    head = f"# {first.method} on {first.env}: {episodes_in(list(results.values()))}"
    over = f" for each of {len(first.singles)} seeds" if first.seeds else ""
    rows = tuple((label, *side_by_side(result, None)) for label, result in results.items())
    table = Table((Column("coefficients"), *LEVELS), rows).brief()
    return Page((head + over, table, "elbert compare RUN draws the trade-off between reward and bias."))


LEVELS = (
    *columns("reward / step", "95 % interval", "of best", "observed bias", "debiased", "95 % interval", right=True),
    Column("limit"),
    Column("rates", right=True, folds=True),
    Column("seconds", right=True),
)


def side_by_side(result: Result, best: BestPossible | None) -> tuple[str, ...]:
    """The cells of `LEVELS`. The interval of the bias belongs to the number before it: over seeds the observed one."""
    *reward, observed, ends = levels(result, best)
    bias, limit = result.worst.bias, result.limit
    debiased = "" if result.seeds or bias.debiased is None else number(bias.debiased)
    verdict = "" if limit is None else toned(limit.verdict)
    seconds = number(result.train_seconds, 0, unknown="")
    return (*reward, observed, debiased, ends, verdict, rates_of(result), seconds)


def levels(result: Result, best: BestPossible | None) -> tuple[str, ...]:
    """Reward, its interval, how near it is to the best possible, bias, its interval."""
    bias = result.worst.bias
    reward = number(result.reward.mean), around(result.reward.ci)
    return (*reward, nearness(best), number(bias.estimate), around(bias.ci))


def comparison_page(comparison: Comparison) -> Page:
    """Policies side by side, and what the columns mean."""
    exact_or_not = {policy.best.exact for policy in comparison.policies if policy.best is not None}
    groups = [group.group for group in comparison.policies[0].result.worst.groups]
    named = groups != [str(number) for number in range(len(groups))]
    notes = [f"rates: of {', '.join(groups)}, in this order."] if named else []
    notes += [BEST_MEANS[exact] for exact in sorted(exact_or_not)]
    return Page((comparison_table(comparison).brief(), *notes))


def write_comparison(comparison: Comparison, folder: Path) -> list[Path]:
    """Write a page, the table (Markdown, JSON), learning curves, reward against bias (PNG, SVG); returns the paths."""
    table, data = folder / "comparison.md", folder / "comparison.json"
    write_whole(table, comparison_table(comparison).to_markdown())
    write_json(data, comparison.to_dict())
    pictures = {"curves": curves_picture(comparison), "scatter": levels_picture(comparison)}
    figures = [draw_figure(*picture, folder / name) for name, picture in pictures.items() if picture is not None]
    page = folder / "comparison.html"
    comparison.to_html(page)
    return [page, table, data, *(path for paths in figures for path in paths)]


def curves_picture(comparison: Comparison) -> Picture | None:
    """The trainings of the runs; None where there are none."""
    curves = {policy.name: read_curve(policy.run) for policy in comparison.policies if policy.run is not None}
    return (lambda figure: draw_curves(figure, curves, comparison.env), (9.0, 3.4)) if curves else None


def levels_picture(comparison: Comparison) -> Picture | None:
    """Reward against bias; None where no bias is estimable."""
    policies, sweeps = comparison.policies, _sweeps(comparison)
    points = [point for policy in policies if (point := point_of(policy.name, policy.result)) is not None]
    best = frontier_behind([(policy.result, policy.best) for policy in policies], points)
    size = (5.5, 3.4 + 0.1 * len(points))
    return (
        (lambda figure: draw_comparison(figure, points, comparison.env, best, sweeps=sweeps), size) if points else None
    )


def _sweeps(comparison: Comparison) -> list[list[Point]]:
    """The points of every run of several coefficients, in the order of these."""
    sweeps: dict[Path, list[tuple[Any, Point]]] = {}
    for policy in comparison.policies:
        point = point_of(policy.name, policy.result)
        if point is not None and policy.run is not None and policy.run.coefficients:
            order = tuple(policy.run.coefficients.values())
            sweeps.setdefault(policy.run.path, []).append((order, point))
    return [[point for _, point in sorted(sweep, key=lambda each: each[0])] for sweep in sweeps.values()]


def draw_curves(figure: "Figure", curves: dict[str, Curve], env: str) -> None:
    """Reward and bias of the rollouts over training."""
    left, right = figure.subplots(1, 2)
    draw_levels(left, right, curves)
    left.set(title=f"Reward in {env}", ylabel="reward per step (more is better)")
    right.set(title="Bias", ylabel="bias of a rollout (0: equal rates)")
    figure.legend(*curve_legend(left, curves.values()), loc="outside lower center", ncols=4)


def draw_comparison(
    figure: "Figure",
    points: Sequence[Point],
    env: str,
    best: Frontier | None = None,
    *,
    sweeps: Sequence[Sequence[Point]] = (),
) -> None:
    """Reward against bias of evaluated runs, with the front of those that no other beats and the best possible.

    The points of a sweep over coefficients are joined in the order of these.
    """
    axes = figure.subplots()

    def draw(axes: "Axes", points: Sequence[Point]) -> None:
        draw_scatter(axes, points, front=not sweeps)
        for sweep in sweeps:
            axes.plot([p.bias for p in sweep], [p.reward for p in sweep], color=GREY, lw=0.8, ls=":", zorder=1)
        if best is not None:
            draw_frontier_line(axes, best)

    draw_enlarged(axes, draw, points, highest=highest_reward(best))
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


def settings_page(used: SettingsInUse) -> Page:
    """The settings of one method in one environment, each with where it comes from."""
    shown = (Column("setting"), Column("value", folds=True), Column("from"), Column("meaning", folds=True))
    rows = [(each.name, _as_given(each.value), each.source, each.meaning) for each in used.settings]
    rows += [(f"world: {each.name}", _as_given(each.value), each.source, each.meaning) for each in used.world]
    protocol = used.evaluation
    length = "" if protocol.horizon is None else f" of {protocol.horizon:,} steps"
    notes = [
        f"Evaluated in {protocol.episodes:,} episodes{length} (--protocol default), with a limit in more, to tell."
    ]
    notes += [used.needs] if used.needs else []
    return Page((f"# {used.method} on {used.env}, preset {used.preset}", Table(shown, tuple(rows)), *notes))


def presets_table(preset: str, envs: Sequence[str] | None = None) -> Table:
    """What a preset sets, by environment; what it leaves out has the default everywhere."""
    settings = overview(preset, envs)
    names = list(dict.fromkeys(env for row in settings.values() for env in row))
    shown = (Column("setting"), *columns(*names, right=True))
    cells = (
        (name, *(_as_given(row[env].value) if env in row else "" for env in names)) for name, row in settings.items()
    )
    return Table(shown, tuple(cells))


def presets_page(preset: str) -> Page:
    """What a preset sets, by environment."""
    note = (
        "Other settings have their default everywhere. elbert presets ENV lists all settings of one environment and "
        "where each comes from; own stands for your own environments, where alpha or max_bias has to be given."
    )
    return Page((f"# preset {preset}", presets_table(preset), note))


def _as_given(value: Any) -> str:
    """A setting as --set takes it."""
    return f"[{_typed(value)}]" if isinstance(value, list | tuple) else _typed(value)


def _typed(value: Any) -> str:
    """A default as it is typed; a table of numbers has a line for each row."""
    if isinstance(value, list | tuple):
        between = "\n" if value and isinstance(value[0], list | tuple) else ", "
        return between.join(_typed(entry) for entry in value)
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
