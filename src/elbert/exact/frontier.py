"""The frontier: the most reward within each limit on the bias, what proves it, and simple rules to compare with.

    elbert.frontier("lending", max_bias=[0, 0.01, 0.05])

`elbert.exact.world_frontiers` holds what differs from world to world.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from elbert.checks import as_number
from elbert.envs import get_entry
from elbert.envs.world import World
from elbert.errors import InvalidInputError
from elbert.exact.attention import NoStoredPricesError
from elbert.exact.rules import PREFIX, get_rule
from elbert.exact.world_frontiers import FrontierPoint, open_frontier
from elbert.files import record_from
from elbert.progress import Progress, Watch, watched
from elbert.shown import Shown

LIMITS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, None)
"""Limits on the bias if none are given; None is no limit."""
DRAWN = 12
"""Limits on the bias above 0 at which a frontier is computed for a picture."""
EPISODES = 1000
"""Episodes of rules whose values must be simulated, if they are short."""


@dataclass(frozen=True)
class RulePoint:
    """The reward and bias of a rule."""

    rule: str  # its name
    reward: float  # per step
    bias: float | None  # None where the groups cannot be compared
    simulated: bool  # an estimate from episodes, not an expected value


@dataclass(frozen=True)
class Frontier(Shown):
    """The most reward within each limit on the bias, and rules to compare with. `plot()` draws it."""

    drawn_by: ClassVar[str] = "elbert.report.plots:plot_frontier"
    page_by: ClassVar[str] = "elbert.report.frontier:frontier_page"

    env: str
    horizon: int
    exact: bool  # whether the points are what a policy reaches in the simulated world, not mere bounds
    points: tuple[FrontierPoint, ...]
    rules: tuple[RulePoint, ...]
    note: str  # what the numbers are

    def to_dict(self) -> dict[str, Any]:
        """The object that `elbert frontier --json` prints."""
        return asdict(self) | {"points": [point.to_dict() for point in self.points]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Frontier":
        """What `to_dict` gave; an entry that is missing or does not fit is refused by its name."""
        flat = [point["rates"] for point in content["points"]]
        rates = [[each] if each and not isinstance(each[0], list) else each for each in flat]
        points = [{**point, "rates": each} for point, each in zip(content["points"], rates, strict=True)]
        return record_from(cls, {**content, "points": points})


class BestReward(NamedTuple):
    """What the best possible policy reaches at a bias."""

    reward: float  # per step
    exact: bool  # otherwise an upper bound


def frontier(
    env: str = "lending",
    *,
    max_bias: float | Sequence[float | None] | None = LIMITS,
    horizon: int | None = None,
    rules: bool = True,
    progress: Watch = "auto",
    **parameters: Any,
) -> Frontier:
    """max reward subject to bias <= max_bias, for every max_bias.

    Args:
        env: the name of a world.
        max_bias: a limit on the bias or several; None for no limit.
        horizon: steps of an episode; by default those over which policies are evaluated.
        rules: whether to show simple rules as well.
        progress: "auto" shows a display in terminals and notebooks, True lines elsewhere too, None nothing. A function
            is told how many limits are solved.
        parameters: of the world.
    """
    name = get_entry(env).name
    limits = _checked_limits(max_bias)
    known = open_frontier(name, horizon, parameters)
    points: list[FrontierPoint] = []
    if known.point is not None:
        with watched(progress, f"frontier of {name}") as tell:
            for limit in limits:
                points.append(known.point(limit))
                tell(Progress("solving", len(points), len(limits), "limits"))
    shown = dict.fromkeys(known.rules(limits)) if rules else ()
    compared = tuple(point for rule in shown if (point := _rule_point(name, rule, known.world)))
    return Frontier(name, int(known.world.horizon), known.exact, tuple(points), rules=compared, note=known.note)


def best_reward_at(env: str, horizon: int | None, bias: float, **parameters: Any) -> BestReward | None:
    """The most reward per step that a policy with this bias can have, or an upper bound; None where neither is known.

    The limit is rounded up to one that is stored or was solved before, and the most reward only rises by that. `env`,
    `horizon` and parameters are those of `frontier`.
    """
    known = open_frontier(get_entry(env).name, horizon, parameters)
    if known.point is None:
        return None
    for point in known.stored:
        if point.max_bias is None or point.max_bias >= bias:
            return BestReward(point.reward, known.exact)
    try:
        return BestReward(known.point(_rounded_up(bias, known.parts)).reward, known.exact)
    except NoStoredPricesError:
        return None


def frontier_for_picture(env: str, horizon: int | None, biases: Sequence[float], **parameters: Any) -> Frontier:
    """The frontier over the range of these biases, without rules; from stored points where there are some.

    With several criteria a point takes a minute, and only those at the biases are computed, as `best_reward_at` does.
    """
    name = get_entry(env).name
    known = open_frontier(name, horizon, parameters)
    if known.stored:
        note = "Upper bounds that were stored."
        return Frontier(name, int(known.world.horizon), known.exact, known.stored, rules=(), note=note)
    right = max(0.02, 1.1 * max(biases))
    limits = [round(right * i / DRAWN, 4) for i in range(DRAWN + 1)]
    if len(known.world.benefit.criteria) > 1:
        limits = sorted({_rounded_up(bias, known.parts) for bias in biases})
    return frontier(env, max_bias=limits, horizon=horizon, rules=False, progress=None, **parameters)


def _checked_limits(max_bias: float | Sequence[float | None] | None) -> tuple[float | None, ...]:
    """One limit or several as a tuple, None for no limit."""
    asked = tuple(max_bias) if isinstance(max_bias, Sequence) else (max_bias,)
    if not asked:
        raise InvalidInputError("No limit was given. Give max_bias, for example 0.05, or None for no limit.")
    need = "a limit on the bias, 0 or more (None for no limit)"
    return tuple(
        None if limit is None or limit == np.inf else as_number(limit, "max_bias", need, low=0.0) for limit in asked
    )


def _rounded_up(bias: float, parts: int) -> float:
    """The least multiple of 1 / parts that is not below the bias, up to rounding."""
    return float(np.ceil(max(0.0, bias) * parts - 1e-9) / parts)


def _rule_point(env: str, name: str, world: World) -> RulePoint | None:
    """A rule's expected values where they are known, else simulated ones; None if the rule does not fit the world."""
    rule = get_rule(f"{PREFIX}{env}/{name}")
    try:
        totals = rule.policy.expected(world)
        if totals is not None:
            return RulePoint(str(rule), totals.reward / int(world.horizon), totals.bias, simulated=False)
        evaluation = rule.evaluate(EPISODES if int(world.horizon) < 100 else 64, env=world, progress=None)
    except InvalidInputError:  # other groups or doses than the rule is for
        return None
    return RulePoint(str(rule), evaluation.reward.mean, evaluation.criterion.bias.estimate, simulated=True)
