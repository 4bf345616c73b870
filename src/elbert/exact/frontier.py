"""The frontier: the most reward within each limit on the bias, what proves it, and simple rules beside it.

    elbert.frontier("lending", max_bias=[0, 0.01, 0.05])

Lending's frontier is exact (see `elbert.exact.lending`). In attention the points are upper bounds that no policy within
the limit exceeds (see `elbert.exact.attention_limits`). In infectious no bound is known to us: only rules are shown.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from elbert.checks import as_number
from elbert.envs import get_entry
from elbert.envs.attention import Attention
from elbert.envs.lending import Lending
from elbert.envs.world import World
from elbert.errors import InvalidInputError
from elbert.exact.branch_and_bound import best_within

LIMITS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, None)
"""Of the frontier where none are given; None is no limit."""
HORIZONS = {"lending": 10_000}
"""Where policies are evaluated over more steps than they are trained."""
TOLERANCE = 1e-6
DRAWN = 12
"""Limits on the bias at which a frontier is computed for a picture, besides 0."""
RULES = {
    Lending: ("thresholds-3-3", "thresholds-2-2", "thresholds-1-1", "thresholds-2-1"),
    Attention: ("best", "index", "proportional"),
}
ROUNDING = 200
"""Attention's limits are rounded up to a 200th in comparisons, so that few bounds are computed."""
EPISODES = 1000
"""Of rules whose values must be simulated."""


@dataclass(frozen=True)
class FrontierPoint:
    """The most reward with a bias of at most max_bias."""

    max_bias: float | None  # None: no limit
    reward: float  # per step; an upper bound where the frontier is not exact
    bound: float  # per step: no policy within the limit has more
    rates: tuple[tuple[float | None, ...], ...] | None  # [criteria][groups] of the best policy; None for a mere bound
    bias: float | None  # of the best policy
    price: float | None  # reward per step that one more unit of bias would allow, at the margin

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers; with one criterion, `rates` is a plain list."""
        rates = self.rates[0] if self.rates is not None and len(self.rates) == 1 else self.rates
        return {
            "max_bias": self.max_bias,
            "reward": self.reward,
            "rates": rates,
            "price": self.price,
            "bound": self.bound,
            "bias": self.bias,
        }


@dataclass(frozen=True)
class RulePoint:
    """A rule beside the frontier."""

    name: str
    reward: float  # per step
    bias: float
    simulated: bool  # an estimate from episodes, not an expected value

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        bias = None if np.isnan(self.bias) else self.bias
        return {"rule": self.name, "reward": self.reward, "bias": bias, "simulated": self.simulated}


@dataclass(frozen=True)
class Frontier:
    """The most reward within each limit on the bias, and rules beside it."""

    env: str
    horizon: int
    exact: bool  # whether the points are what a policy reaches in the simulated world, not mere bounds
    points: tuple[FrontierPoint, ...]
    rules: tuple[RulePoint, ...]
    note: str  # what the numbers are

    def to_dict(self) -> dict[str, Any]:
        """The object that `elbert frontier --json` prints."""
        return {
            "env": self.env,
            "horizon": self.horizon,
            "exact": self.exact,
            "points": [point.to_dict() for point in self.points],
            "rules": [rule.to_dict() for rule in self.rules],
            "note": self.note,
        }


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
    tell: Callable[[int], None] | None = None,
    **parameters: Any,
) -> Frontier:
    """max reward subject to bias <= max_bias, for every max_bias.

    Args:
        env: the name of a world.
        max_bias: a limit on the bias or several; None for no limit.
        horizon: steps of an episode; by default those over which policies are evaluated.
        rules: whether simple rules are shown beside it.
        tell: is told how many limits are solved; attention's take seconds each.
        parameters: of the world.
    """
    entry = get_entry(env)
    given = tuple(max_bias) if isinstance(max_bias, Sequence) else (max_bias,)
    limits = tuple(None if limit == np.inf else limit for limit in given)
    for limit in limits:
        if limit is not None:
            as_number(limit, "max_bias", "a limit on the bias, 0 or more (None for no limit)", low=0.0, high=np.inf)
    if not limits:
        raise InvalidInputError("No limit was given. Give max_bias, for example 0.05, or None for no limit.")
    world = _world(entry.name, horizon, parameters)
    steps = int(world.horizon)
    names = (*_fair_rules(world, limits), *RULES.get(type(world), ())) if rules else ()
    beside = tuple(point for name in dict.fromkeys(names) if (point := _rule_point(entry.name, name, world)))
    if isinstance(world, Lending):
        points = _solved(lambda limit: _lending_point(world, limit), limits, tell)
        return Frontier(entry.name, steps, _is_exact(world), points, beside, _lending_note(world))
    if isinstance(world, Attention):
        points = _solved(lambda limit: _attention_point(world, limit), limits, tell)
        note = "Upper bounds that no policy within the limit exceeds; the best rules we know are beside them."
        return Frontier(entry.name, steps, False, points, beside, note)
    names = ("nobody", "exposed", "degree") if rules else ()
    simulated = tuple(point for name in names if (point := _rule_point(entry.name, name, world)))
    return Frontier(entry.name, steps, False, (), simulated, "No bound is known to us here; these are simple rules.")


def best_reward_at(env: str, horizon: int | None, bias: float, **parameters: Any) -> BestReward | None:
    """The most reward per step that a policy with this bias can have, or an upper bound; None where neither is known.

    Args:
        env: the name of a world.
        horizon: steps of an episode; None for those over which policies are evaluated.
        bias: of the policy to compare with.
        parameters: of the world.
    """
    world = _world(get_entry(env).name, horizon, parameters)
    if isinstance(world, Lending):
        return BestReward(_lending_point(world, _rounded(bias)).reward, _is_exact(world))
    if isinstance(world, Attention):
        from elbert.exact.attention import stored_prices

        # a bound for other parameters takes minutes: `frontier` finds it for those who ask
        if stored_prices(world) is None:
            return None
        quick = [value for max_bias, value in _stored_bounds(world) if max_bias >= bias]
        if quick:
            return BestReward(quick[0], False)
        limit = float(np.ceil(max(0.0, bias) * ROUNDING - 1e-9) / ROUNDING)
        return BestReward(_attention_point(world, limit).reward, False)
    return None


def frontier_for_picture(env: str, horizon: int | None, biases: Sequence[float], **parameters: Any) -> Frontier:
    """The frontier over the range of these biases, without rules; from stored bounds where there are some.

    With several criteria a point takes a minute, and only those at the biases are computed, as `best_reward_at` does.

    Args:
        env: the name of a world.
        horizon: steps of an episode; None for those over which policies are evaluated.
        biases: of the policies to be shown beside it.
        parameters: of the world.
    """
    world = _world(get_entry(env).name, horizon, parameters)
    bounds = _stored_bounds(world) if isinstance(world, Attention) else []
    if not bounds:
        right = max(0.02, 1.1 * max(biases))
        limits = [round(right * i / DRAWN, 4) for i in range(DRAWN + 1)]
        if len(world.benefit.criteria) > 1:
            limits = sorted({_rounded(bias) for bias in biases})
        return frontier(env, max_bias=limits, horizon=horizon, rules=False, **parameters)
    points = tuple(
        FrontierPoint(None if np.isinf(max_bias) else max_bias, value, value, None, None, None)
        for max_bias, value in bounds
    )
    return Frontier(get_entry(env).name, int(world.horizon), False, points, (), "Upper bounds that were stored.")


def _solved(
    point: Callable[[float | None], FrontierPoint],
    limits: Sequence[float | None],
    tell: Callable[[int], None] | None,
) -> tuple[FrontierPoint, ...]:
    """The points at the limits, one after another."""
    points: list[FrontierPoint] = []
    for limit in limits:
        points.append(point(limit))
        if tell is not None:
            tell(len(points))
    return tuple(points)


def _rounded(bias: float) -> float:
    """Up to a ten-thousandth, so that few limits are solved; the most reward only rises by that."""
    return float(np.ceil(max(0.0, bias) * 1e4) / 1e4)


def _stored_bounds(world: Attention) -> list[tuple[float, float]]:
    """(max_bias, reward per step that no policy within it exceeds)."""
    from elbert.exact.attention_limits import stored_bounds

    return [(max_bias, value / int(world.horizon)) for max_bias, value in stored_bounds(world)]


def _world(name: str, horizon: int | None, parameters: dict[str, Any]) -> World:
    """The named world; worlds that are asked for again are the same object, so that what was found is kept."""
    chosen = dict(parameters)
    steps = horizon if horizon is not None else chosen.pop("horizon", HORIZONS.get(name))
    if steps is not None:
        chosen["horizon"] = steps
    try:
        return _kept(name, _hashable(chosen))
    except TypeError:  # a parameter that cannot be kept by its value
        return get_entry(name).make(**chosen)


@lru_cache(maxsize=32)
def _kept(name: str, parameters: tuple[tuple[str, Any], ...]) -> World:
    return get_entry(name).make(**dict(parameters))


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(sorted((key, _hashable(one)) for key, one in value.items()))
    return tuple(_hashable(one) for one in value) if isinstance(value, list | tuple) else value


@lru_cache(maxsize=32)
def _lending_program(world: Lending) -> Any:
    from elbert.exact.lending import lending_program

    return lending_program(world)


@lru_cache(maxsize=1024)
def _lending_point(world: Lending, limit: float | None) -> FrontierPoint:
    best = best_within(_lending_program(world), np.inf if limit is None else limit, tolerance=TOLERANCE)
    steps = int(world.horizon)
    rates = tuple(tuple(None if np.isnan(z) else float(z) for z in row) for row in best.rates)
    return FrontierPoint(limit, best.reward / steps, best.bound / steps, rates, best.bias, best.price / steps)


def _is_exact(world: Lending) -> bool:
    from elbert.exact.lending import lending_is_exact

    return lending_is_exact(world)


def _lending_note(world: Lending) -> str:
    if _is_exact(world):
        return (
            "Expected values in the simulated world. No policy has more reward at the same bias, except by the luck of "
            "the episodes that it was evaluated on."
        )
    return (
        "Values of the population equations, which approximate the simulated world here: the shift does not divide the "
        "initial scores, or the bank's cash may not last."
    )


def _attention_point(world: Attention, limit: float | None) -> FrontierPoint:
    from elbert.exact.attention_limits import fair_bound

    found, steps = fair_bound(world, np.inf if limit is None else float(limit)), int(world.horizon)
    return FrontierPoint(limit, found.value / steps, found.value / steps, None, None, found.price / steps)


def _fair_rules(world: World, limits: Sequence[float | None]) -> list[str]:
    """Schedules that are known within the limits, where some are stored."""
    if not isinstance(world, Attention):
        return []
    from elbert.exact.attention_schedules import stored_schedules

    known = [bias for bias, _ in stored_schedules(world)]
    return [f"best-{limit:g}" for limit in limits if limit is not None and known and known[0] <= limit]


def _rule_point(env: str, name: str, world: World) -> RulePoint | None:
    """A rule's values; None if it does not fit the world, by its groups or doses."""
    try:
        return _values_of(env, name, world)
    except InvalidInputError:
        return None


def _values_of(env: str, name: str, world: World) -> RulePoint:
    """A rule's expected values where they can be computed, else simulated ones."""
    if isinstance(world, Lending) and name.startswith("thresholds") and name.count("-") == world.groups:
        from elbert.exact.lending import threshold_totals

        totals = threshold_totals(world, [int(part) for part in name.split("-")[1:]])
        return RulePoint(f"rule:{env}/{name}", totals.reward / int(world.horizon), totals.bias, False)
    if isinstance(world, Attention) and name.startswith("best"):
        from elbert.exact.attention import schedule_totals
        from elbert.exact.attention_schedules import fair_schedule

        limit = name.partition("-")[2]
        totals = schedule_totals(world, fair_schedule(world, float(limit) if limit else np.inf))
        return RulePoint(f"rule:{env}/{name}", totals.reward / int(world.horizon), totals.bias, False)
    return _simulated(env, name, world)


def _simulated(env: str, name: str, world: World) -> RulePoint:
    from elbert.exact.rules import get_rule

    episodes = EPISODES if int(world.horizon) < 100 else 64
    found = get_rule(f"rule:{env}/{name}").evaluate(episodes, env=world)
    bias = found.criterion.bias.estimate
    return RulePoint(f"rule:{env}/{name}", found.reward.mean, np.nan if bias is None else bias, True)
