"""A trade-off as tables and a picture, and the files of it."""

from pathlib import Path
from typing import TYPE_CHECKING

from elbert.errors import InvalidInputError
from elbert.exact.frontier import Frontier
from elbert.experiments.tradeoff import FACTOR, KEPT, Price, Tradeoff, TradeoffRow, limit_text
from elbert.files import write_whole
from elbert.report.charts import Point, point_of
from elbert.report.pages import BEST_MEANS, around, draw_comparison, episodes_in, frontier_behind, nearness
from elbert.report.style import draw_figure, figure_of
from elbert.tables import Column, Page, Table, columns, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (5.5, 4.0)
PRICED = (
    "Gain: the difference of the rewards over that of the debiased biases, means over seeds, with Fieller's 95 % "
    f"interval. Not known: the interval is not all above 0, has no ends, or has ends more than a factor of "
    f"{FACTOR:g} apart."
)
ONE_SEED = "One seed gives no intervals over seeds, and so no gain is known. Give --seeds 3 or more."
EXACT = "Exact: the same for the best possible policies with these biases."


def tradeoff_page(found: Tradeoff) -> Page:
    """What each limit leaves, what more of bias gains, and what the columns mean."""
    first = found.rows[0].result
    head = f"# {first.method} on {found.env}: {episodes_in([row.result for row in found.rows])}"
    over = f" for each of {len(first.seeds)} seeds" if first.seeds else ""
    shown = columns("bias at most", "reward / step", "95 % interval", "of best", right=True)
    limits = Table((*shown, *columns("debiased bias per seed", "verdicts")), tuple(_line(row) for row in found.rows))
    shown = (Column("0.01 more of bias"), *columns("gain / step", "95 % interval", "exact", right=True))
    prices = Table(shown, tuple(_gain(price) for price in found.prices))
    notes = [BEST_MEANS[exact] for exact in sorted({row.best.exact for row in found.rows if row.best is not None})]
    notes.append(PRICED if first.seeds else ONE_SEED)
    notes += [EXACT] if any(price.exact is not None for price in found.prices) else []
    return Page((head + over, limits.brief(), prices.brief(), *notes))


def _line(row: TradeoffRow) -> tuple[str, ...]:
    reward, biases = row.result.reward, ", ".join(number(bias, unknown="not estimable") for bias in row.biases)
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in row.verdicts.items())
    return limit_text(row.max_bias), number(reward.mean), around(reward.ci), nearness(row.best), biases, verdicts


def _gain(price: Price) -> tuple[str, ...]:
    ci = None if price.gain is None else price.ci
    ends = "" if ci is None else " .. ".join(map(_small, ci))
    between = " to ".join(limit_text(limit) for limit in price.limits)
    return between, _small(price.gain) or "not known", ends, _small(price.exact)


def _small(value: float | None) -> str:
    """A number that may be far below 1, with two digits that say something."""
    return "" if value is None else f"{value:.2g}"


def levels_of(found: Tradeoff) -> tuple[list[Point], Frontier | None]:
    """The limits whose bias is known as points, and the best possible behind them."""
    labels = ("no limit" if row.max_bias is None else f"bias <= {row.max_bias:g}" for row in found.rows)
    points = [point_of(label, row.result) for label, row in zip(labels, found.rows, strict=True)]
    shown = [point for point in points if point is not None]
    return shown, frontier_behind([(row.result, row.best) for row in found.rows], shown)


def draw_tradeoff(figure: "Figure", found: Tradeoff) -> None:
    """Reward against observed bias, joined in the order of the limits, with the best possible or the bound."""
    points, best = levels_of(found)
    draw_comparison(figure, points, found.env, best, sweeps=[points])


def plot_tradeoff(found: Tradeoff) -> "Figure":
    """The figure of `Tradeoff.plot`."""
    if not levels_of(found)[0]:
        raise InvalidInputError("The bias of no policy is estimable: there is nothing to draw.")
    return figure_of(lambda figure: draw_tradeoff(figure, found), SIZE)


def write_tradeoff(found: Tradeoff, folder: Path) -> list[Path]:
    """Write a page, the tables (Markdown) and the figure (PNG, SVG) next to the numbers in the run's folder."""
    page, table = folder / "tradeoff.html", folder / "tradeoff.md"
    write_whole(table, tradeoff_page(found).to_markdown())
    found.to_html(page)
    written = [page, table, folder / KEPT]
    if levels_of(found)[0]:
        written += draw_figure(lambda figure: draw_tradeoff(figure, found), SIZE, folder / "tradeoff")
    return written
