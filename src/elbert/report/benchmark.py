"""The benchmark as a table, a page and a picture: methods by worlds."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elbert.exact.frontier import BestReward
from elbert.experiments.benchmark import FEWEST_ROLLOUTS, BenchmarkOutcome, Cell
from elbert.experiments.results import VERDICTS
from elbert.fairness.bias_inference import Verdict
from elbert.files import write_json, write_whole
from elbert.report.pages import around
from elbert.report.style import draw_figure
from elbert.tables import Column, Page, Table, columns, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Every method in every world, with a limit on the bias"
COLUMNS = (
    *columns("world", "limit", "method"),
    Column("reward per step", right=True),
    Column("95 % interval", right=True, detail=True),
    *columns("best possible", "bias", right=True),
    Column("95 % interval", right=True, detail=True),
    Column("limit is"),
    Column("bias by other rates", detail=True),
    Column("seconds", right=True),
)
METHOD_COLUMNS = (
    *columns("limit", "method"),
    *columns("confirmed", "undetermined", "refuted", "most reward in", right=True),
)
LOOKS = {  # verdict -> colour and mark: the mark says the same in greyscale
    "confirmed": ("#BFDDEE", "\u2713"),
    "not refuted": ("#E8E8E8", "?"),
    "not estimable": ("#E8E8E8", "?"),
    "refuted": ("#F6CFB7", "\u2717"),
}


def benchmark_table(outcome: BenchmarkOutcome) -> Table:
    """Every training; lines between the worlds and limits."""
    places = [(cell.entrant.world, cell.entrant.limit) for cell in outcome.cells]
    sections = tuple(place for place in range(len(places) - 1) if places[place] != places[place + 1])
    return Table(COLUMNS, tuple(cells(cell) for cell in outcome.cells), sections=sections)


def method_table(outcome: BenchmarkOutcome) -> Table:
    """What each method did over all worlds and seeds: verdicts, and where it earned most within the limit."""
    _, methods, limits = _axes(outcome)
    rows = []
    for limit in limits:
        those = [cell for cell in outcome.cells if cell.entrant.limit == limit and cell.result is not None]
        first = _most_reward(those)
        for method in methods:
            verdicts = [word for cell in those if cell.entrant.method == method for word in cell.verdicts]
            sure = [verdicts.count(word) for word in ("confirmed", "refuted")]
            counts = (sure[0], len(verdicts) - sum(sure), sure[1], first.count(method))
            rows.append((f"{limit:g}", method, *map(str, counts)))
    sections = tuple(len(methods) * place - 1 for place in range(1, len(limits)))
    return Table(METHOD_COLUMNS, tuple(rows), sections=sections)


def _most_reward(those: Sequence[Cell]) -> list[str]:
    """For each world the method with most reward among those that no seed refutes; worlds without any are left out."""
    kept = [cell for cell in those if cell.verdict in ("confirmed", "not refuted")]
    best: dict[str, Cell] = {}
    for cell in kept:
        world = cell.entrant.world
        if world not in best or _reward(cell) > _reward(best[world]):
            best[world] = cell
    return [cell.entrant.method for cell in best.values()]


def _reward(cell: Cell) -> float:
    assert cell.result is not None
    return cell.result.reward.mean


def cells(cell: Cell) -> tuple[str, ...]:
    """One line of the table."""
    entrant, result = cell.entrant, cell.result
    head = (entrant.world, f"{entrant.limit:g}", entrant.method)
    if result is None:
        return (*head, "not there", *[""] * (len(COLUMNS) - len(head) - 1))
    bias, own = result.worst.bias, {part.criterion for part in result.criteria}
    others = () if cell.judged is None else (part for part in cell.judged.criteria if part.criterion not in own)
    return (
        *head,
        number(result.reward.mean),
        around(result.reward.ci),
        best_text(cell.best),
        number(bias.estimate),
        around(bias.ci),
        verdicts_text(cell.verdicts),
        ", ".join(f"{part.criterion} {number(part.bias.estimate, 3)}" for part in others),
        number(result.train_seconds, 0, unknown=""),
    )


def verdicts_text(verdicts: Sequence[Verdict]) -> str:
    """The word that all seeds share, or how many have which: 2 confirmed, 1 not refuted."""
    counts = {word: verdicts.count(word) for word in VERDICTS if word in verdicts}
    return next(iter(counts), "") if len(counts) < 2 else ", ".join(f"{count} {word}" for word, count in counts.items())


def best_text(best: BestReward | None) -> str:
    """The most reward at a limit: exact, or a bound that no policy exceeds."""
    return "" if best is None else f"{'' if best.exact else '<= '}{number(best.reward)}"


def benchmark_notes(outcome: BenchmarkOutcome) -> list[str]:
    """What the columns mean, and what they do not show."""
    base = outcome.benchmark.base
    many = base.seeds if isinstance(base.seeds, int) else len(base.seeds)
    extent = "" if base.part is None else f", {base.part:g} of the steps or {FEWEST_ROLLOUTS[base.quick]} rollouts"
    extent += ", a quick picture: about a tenth of the steps, fewer episodes and methods" if base.quick else ""
    over = "evaluation episodes" if many == 1 else "seeds (Student t)"
    return [
        f"Preset {base.preset}, {many} seed{'' if many == 1 else 's'}{extent}. All methods of a world have the same "
        "networks, rollouts and steps. Evaluated in fresh episodes with sampled actions; intervals over "
        f"{over}. Best possible: the most reward that any policy within the limit can expect, or a bound (<=) that "
        "none exceeds; empty where neither is known. The limit is confirmed or refuted at 95 %, seed by seed; the "
        "picture shows the seed that keeps it least. Policies that were not trained for a limit are judged by the "
        "interval of their bias. Most reward in: worlds where the method earns most, on average over seeds, among "
        "those that no seed refutes. Seconds: time of training, all seeds together.",
        "Return-gap is given the limit for the gap of returns, a different notion; R-PPO and A-PPO punish what exceeds "
        "the limit, with the preset's coefficients; G-PPO knows no limit. A method that looks bad here may do better "
        "with settings that nobody tried, and a simulator's groups and labels are right by construction: those of data "
        "are not.",
    ]


def write_benchmark(outcome: BenchmarkOutcome, out: Path) -> list[Path]:
    """Write `benchmark.md`, `benchmark.json` and the picture as PNG and SVG; returns the paths."""
    path = out / outcome.name
    figures = []
    if any(cell.result is not None for cell in outcome.cells):
        size = picture_size(outcome)
        figures = draw_figure(lambda figure: draw_benchmark(figure, outcome), size, path)
    picture = f"![{TITLE}]({outcome.name}.png)\n\n" if figures else ""
    page = Page((method_table(outcome), benchmark_table(outcome), *benchmark_notes(outcome)))
    table, data = out / f"{outcome.name}.md", out / f"{outcome.name}.json"
    write_json(data, outcome.to_dict())
    write_whole(table, f"# {TITLE}\n\n{picture}{page.to_markdown()}")
    return [table, data, *figures]


def picture_size(outcome: BenchmarkOutcome) -> tuple[float, float]:
    """In inches."""
    worlds, methods, limits = _axes(outcome)
    return max(1.25 * len(worlds) + 1.4, 6.0), (0.42 * (len(methods) + 1) + 0.9) * len(limits) + 0.3


def _axes(outcome: BenchmarkOutcome) -> tuple[list[str], list[str], list[float]]:
    entrants = [cell.entrant for cell in outcome.cells]
    return (
        list(dict.fromkeys(each.world for each in entrants)),
        list(dict.fromkeys(each.method for each in entrants)),
        list(dict.fromkeys(each.limit for each in entrants)),
    )


def draw_benchmark(figure: "Figure", outcome: BenchmarkOutcome) -> None:
    """A grid for each limit: methods down, worlds across; reward, bias, and whether the limit is kept."""
    worlds, methods, limits = _axes(outcome)
    found = {(cell.entrant.limit, cell.entrant.world, cell.entrant.method): cell for cell in outcome.cells}
    grid = figure.subplots(len(limits), 1, squeeze=False)[:, 0]
    for axes, limit in zip(grid, limits, strict=True):
        axes.set(xlim=(-0.5, len(worlds) - 0.5), ylim=(len(methods) - 0.5, -1.5))
        axes.set_xticks(range(len(worlds)), worlds, fontsize=8)
        axes.set_yticks(range(-1, len(methods)), ["best possible", *methods], fontsize=8)
        axes.tick_params(length=0, labelbottom=False, labeltop=True)
        axes.set_title(f"bias <= {limit:g}: reward per step, bias, and whether the limit is kept", pad=18)
        for spine in axes.spines.values():
            spine.set_visible(False)
        for x, world in enumerate(worlds):
            each = [found[limit, world, method] for method in methods if (limit, world, method) in found]
            best = next((cell.best for cell in each if cell.best is not None), None)
            axes.text(x, -1, best_text(best) or "unknown", ha="center", va="center", fontsize=7.5)
            for y, method in enumerate(methods):
                _draw_cell(axes, x, y, found.get((limit, world, method)))
    figure.supxlabel(
        "   ".join(f"{LOOKS[word][1]} {word}" for word in ("confirmed", "not refuted", "refuted")), fontsize=8
    )


def _draw_cell(axes: Any, x: int, y: int, cell: Cell | None) -> None:
    if cell is None or cell.result is None:
        axes.text(x, y, "not there", ha="center", va="center", fontsize=7.5)
        return
    colour, mark = LOOKS[cell.verdict or "not estimable"]
    axes.add_patch(_box(x, y, colour))
    text = f"{number(cell.result.reward.mean, 3)}  {number(cell.result.worst.bias.estimate, 3)} {mark}"
    axes.text(x, y, text, ha="center", va="center", fontsize=7.5)


def _box(x: int, y: int, colour: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=colour, edgecolor="none")
