"""`elbert.tradeoff`: policies for a handful of limits on the bias, and the reward that each limit leaves."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from elbert.checks import as_number
from elbert.envs import World, find_world
from elbert.errors import ElbertError, InvalidInputError
from elbert.exact.frontier import frontier
from elbert.experiments.brought_names import refuse_brought
from elbert.experiments.compare import compare
from elbert.experiments.resolve import listed_seeds
from elbert.experiments.results import VERDICTS, BestPossible
from elbert.experiments.run_folder import NO_LIMIT, RunFolder
from elbert.experiments.train import train, train_many
from elbert.fairness.rate_intervals import mean_ratio_interval
from elbert.files import FileError, as_path, read_sealed, record_from, write_sealed
from elbert.learning import Agent, Environment
from elbert.learning.result import Ends, Interval, Result
from elbert.progress import Progress, Tell, Watch, watched
from elbert.shown import Shown
from elbert.tables import as_text

if TYPE_CHECKING:
    from rich.console import RenderableType

LIMITS = (0.01, 0.02, 0.05, 0.1, None)
"""Limits on the bias if none are given; None is no limit."""
UNIT = 0.01
"""The bias that a price is for."""
FACTOR = 4.0
"""A price is known if both ends of its interval are positive and not further apart than by this factor."""
NEAR = 1e-3
"""Biases that are nearer to each other have no exact price: the solver's tolerance would show in it."""
KEPT = "tradeoff.json"
REMEDY = "The same command with --resume writes it again."
TEXT_WIDTH = 140


@dataclass(frozen=True)
class TradeoffRow:
    """The policies that were trained for one limit, one for each seed."""

    max_bias: float | None  # None: no limit
    result: Result
    best: BestPossible | None  # at the bias of the result; None where it is not known

    @property
    def biases(self) -> tuple[float | None, ...]:
        """The debiased bias of each seed."""
        return tuple(single.worst.bias.debiased for single in self.result.singles)

    @property
    def verdicts(self) -> dict[str, int]:
        """How many seeds have each verdict on the limit, the most favourable first."""
        counts = Counter(single.limit.verdict for single in self.result.singles if single.limit is not None)
        return {verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]}


@dataclass(frozen=True)
class Price(Interval):
    """The reward per step that 0.01 more of bias gains between two neighbouring limits."""

    limits: tuple[float | None, ...]  # the two of them; None: no limit
    gain: float | None  # None where the seeds do not tell
    ci: Ends | None  # None where it has no ends, or there is one seed
    exact: float | None  # the same for the best possible policies with these biases, where they are known


@dataclass(frozen=True)
class Tradeoff(Shown):
    """Reward against the limit on the bias. `print(tradeoff)` shows tables, `plot()` draws the frontier reached."""

    drawn_by: ClassVar[str] = "elbert.report.tradeoff:plot_tradeoff"
    page_by: ClassVar[str] = "elbert.report.tradeoff:tradeoff_page"

    env: str
    rows: tuple[TradeoffRow, ...]  # by rising limit, no limit last
    prices: tuple[Price, ...]  # between neighbouring rows

    def to_dict(self) -> dict[str, Any]:
        """The object that `elbert tradeoff --json` prints."""
        rows = [
            {"max_bias": row.max_bias, "result": row.result.to_dict(), "best": row.best and asdict(row.best)}
            for row in self.rows
        ]
        return {"env": self.env, "rows": rows, "prices": [asdict(price) for price in self.prices]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Tradeoff":
        """What `to_dict` gave; an entry that is missing or does not fit is refused by its name."""
        return record_from(cls, content)

    def __rich__(self) -> "RenderableType":
        """The tables for a rich console."""
        return self._page()

    def __str__(self) -> str:
        """The tables as plain text."""
        return as_text(self._page(), TEXT_WIDTH)


def tradeoff(
    env: Environment,
    *,
    max_bias: Sequence[float | None] = LIMITS,
    seeds: int | Sequence[int] = 3,
    out: str | Path | None = None,
    resume: bool = False,
    progress: Watch = "auto",
    **options: Any,
) -> Tradeoff:
    """Train policies for several limits on the bias, and show what reward each limit leaves.

        found = elbert.tradeoff("lending", max_bias=[0.01, 0.05, None], seeds=3)
        print(found)

    In a world all limits and seeds are trained side by side, as one run. In an environment of your own they are
    trained one after the other, each in a folder of its own within `out`.

    Args:
        env: whatever `elbert.train` takes.
        max_bias: two or more limits above 0; None for no limit.
        seeds: how many, or a list of them. One seed gives no intervals, and so no prices.
        out: folder of the run, as in `elbert.train`; without it nothing is written.
        resume: whether to go on with what is in `out`.
        progress: "auto" shows a display in terminals and notebooks; True, None or a function as in `elbert.train`.
        options: further arguments and settings of `elbert.train`: preset, world, group_names, steps, ...
    """
    limits, listed = checked_limits(max_bias), listed_seeds(seeds)
    for name in options:
        refuse_brought(name)
    asked = [NO_LIMIT if limit is None else limit for limit in limits]
    folder = None if out is None else as_path(out, "out")
    together = isinstance(env, World) or (isinstance(env, str) and find_world(env) is not None)
    with watched(progress, f"trade-off in {env if isinstance(env, str) else type(env).__name__}") as tell:
        if together:
            how = {**options, "out": folder, "resume": resume, "progress": tell}
            agents = train_many(env, seeds=listed, grid={"max_bias": asked}, **how)
        else:
            agents = _train_one_by_one(env, asked, listed, folder, tell, resume=resume, **options)
        run = RunFolder(folder) if folder is not None and together else None  # it keeps the evaluations
        where = None if run is None or isinstance(env, str) else env
        comparison = compare({"": agents if run is None else run}, env=where, progress=tell)
        rows = [
            TradeoffRow(limit, _without_limit(each.result) if limit is None else each.result, each.best)
            for limit, each in zip(limits, comparison.policies, strict=True)
        ]
        prices = tuple(price_between(lower, upper) for lower, upper in pairwise(rows))
    found = Tradeoff(comparison.env, tuple(rows), prices)
    if folder is not None:
        write_sealed(folder / KEPT, found.to_dict())
    return found


def _train_one_by_one(
    env: Environment, limits: Sequence[float], seeds: Sequence[int], folder: Path | None, tell: Tell, **options: Any
) -> list[Agent]:
    """An agent for each limit and seed, the seeds of the first limit first; what is done is not done again."""
    agents = []
    for limit in limits:
        for seed in seeds:

            def told(event: Progress, which: str = f"max_bias={limit:g}, seed {seed}") -> None:
                tell(replace(event, activity=f"{event.activity} {which}"))

            own = None if folder is None else folder / f"max-bias-{limit:g}-seed-{seed}"
            agents.append(train(env, max_bias=limit, seed=seed, out=own, progress=told, **options))
    return agents


def _without_limit(result: Result) -> Result:
    """The result without a test of the number that stood for no limit."""
    return replace(result, limit=None, seeds=tuple(replace(single, limit=None) for single in result.seeds))


def price_between(lower: TradeoffRow, upper: TradeoffRow) -> Price:
    """0.01 (R_2 - R_1) / (b_2 - b_1), with R and b the means over seeds of reward and debiased bias.

    Its interval is Fieller's over the seeds, whose differences are paired: the same seed means the same first weights
    and the same chance in the evaluation. The price is known if the interval tells its sign and its size.
    """
    limits = lower.max_bias, upper.max_bias
    if None in (*lower.biases, *upper.biases):
        return Price(limits, gain=None, ci=None, exact=None)
    (first, before), (second, after) = (
        np.array([(single.reward.mean, single.worst.bias.debiased) for single in row.result.singles], float).T
        for row in (lower, upper)
    )
    exact = _exact_price(lower, upper, max(0.0, float(before.mean())), max(0.0, float(after.mean())))
    gain, low, high = mean_ratio_interval(second - first, after - before)
    if low is None or high is None:
        return Price(limits, gain=None, ci=None, exact=exact)
    known = low > 0 and high <= FACTOR * low
    return Price(limits, gain=UNIT * gain if known else None, ci=(UNIT * low, UNIT * high), exact=exact)


def _exact_price(lower: TradeoffRow, upper: TradeoffRow, before: float, after: float) -> float | None:
    """The same of the best possible policies with these biases; None where they are not known exactly.

    With several criteria each of them takes a minute to find, and they are left out.
    """
    result, best = lower.result, lower.best
    exact = best is not None and best.exact and upper.best is not None and len(result.criteria) == 1
    if best is None or not exact or abs(after - before) < NEAR:
        return None
    options = {"horizon": result.horizon, "rules": False, "progress": None, **best.parameters}
    try:
        first, second = frontier(result.env, max_bias=[before, after], **options).points
    except ElbertError:  # no policy has so little bias
        return None
    return UNIT * (second.reward - first.reward) / (after - before)


def checked_limits(max_bias: Any) -> tuple[float | None, ...]:
    """The limits by rising size, no limit last; each differs from the others."""
    need = "two or more limits on the bias, such as [0.01, 0.05, None], where None is no limit"
    if isinstance(max_bias, str) or not isinstance(max_bias, Sequence) or len(max_bias) < 2:
        raise InvalidInputError(
            f"max_bias is {max_bias!r}. Give {need}. For one limit, use elbert.train(max_bias=...)."
        )
    each = f"numbers above 0 and below {NO_LIMIT:g}, or None for no limit (inf in a shell)"
    low, high = math.ulp(0.0), math.nextafter(NO_LIMIT, 0.0)
    limits = [
        math.inf if limit is None or limit == math.inf else as_number(limit, "max_bias", each, low=low, high=high)
        for limit in max_bias
    ]
    limits = [None if math.isinf(limit) else float(limit) for limit in sorted(limits)]
    names = [limit_text(limit) for limit in limits]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InvalidInputError(f"max_bias has {twice} twice, up to six digits. Give each limit once.")
    return tuple(limits)


def limit_text(limit: float | None) -> str:
    """A limit for people."""
    return "no limit" if limit is None else f"{limit:g}"


def read_tradeoff(path: Path) -> Tradeoff:
    """The trade-off that a file holds; one that was edited, or is of another version, is refused."""
    try:
        return Tradeoff.from_dict(read_sealed(path, remedy=REMEDY))
    except InvalidInputError as error:
        raise FileError(f"{path} is of another version ({error}). {REMEDY}") from error
