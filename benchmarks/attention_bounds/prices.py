"""Find prices of units that prove a low bound for an attention world."""

import numpy as np

from elbert.envs.attention import Attention
from elbert.exact.attention import Bound, bound_at, gain_and_cost, sites_of
from elbert.exact.attention_limits import schedule_from, schedule_totals
from elbert.exact.finite import Array

STEPS = 150
GUESSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""The price of a unit in the first step over what an incident found brings, from which the search may start."""


def best_bound(world: Attention, *, steps: int = STEPS, prices: Array | None = None) -> tuple[Array, Bound, Array]:
    """Prices that prove a low bound, by subgradient steps: (prices, their bound, the best schedule of units met).

    The length of a step is Polyak's, towards the best schedule's reward.

    Args:
        world: any attention world whose rates lie on a grid.
        steps: how many.
        prices: to start from, [horizon]; by default the best of several guesses.
    """
    sites, available = sites_of(world), int(world.units)
    horizon = int(world.horizon)
    if prices is None:  # a unit is worth more while there is more to come
        shapes = [c * gain_and_cost(world)[0] * (0.3 + 1 - np.arange(horizon) / horizon) for c in GUESSES]
        prices = min(shapes, key=lambda shape: bound_at(world, shape, sites).value)
    now = best_prices = np.array(prices, float)
    best, schedule, reached = None, None, -np.inf
    direction, nearness, since = np.zeros_like(now), 0.5, 0
    for i in range(steps):
        bound = bound_at(world, now, sites)
        since += 1
        if best is None or bound.value < best.value:
            best, best_prices, since = bound, now, 0
        if i % 25 == 0 or i == steps - 1:
            tried = schedule_from(world, best, sites)
            if (reward := schedule_totals(world, tried).reward) > reached:
                schedule, reached = tried, reward
        if since > 8:  # the target was too low: aim nearer to what is proven, from the best prices
            nearness, since, now, bound = 0.5 * nearness, 0, best_prices, best
            direction = np.zeros_like(now)
        direction = 0.5 * direction + (available - bound.units.sum(axis=1))
        size = float(direction @ direction)
        if size == 0 or best.value - reached <= 1e-9 * abs(best.value):
            break
        now = now - nearness * (bound.value - reached) / size * direction
    assert best is not None
    assert schedule is not None
    return best_prices, best, schedule
