"""Find schedules of units within a limit on the bias for an attention world."""

from functools import cache
from typing import Any

import numpy as np

from elbert.envs.attention import Attention
from elbert.exact.attention import bound_at, gain_and_cost, sites_of
from elbert.exact.attention_limits import Multipliers, schedule_from, schedule_totals, terms_of
from elbert.exact.finite import Array, PolicyTotals
from elbert.fairness.rates import ratio

DEAR = 4.0
"""Reward per step that a unit of bias beyond the limit costs in the search for schedules, more than it ever brings."""
WALL, MARGIN = 0.02, 1e-7
"""What it costs in addition to be beyond the limit, and how far below it the search keeps, as rounding differs."""


def as_text(schedule: Array) -> str:
    """A schedule in the form that is stored: a word per site, a digit of base 36 per step."""
    return " ".join("".join(np.base_repr(unit, 36).lower() for unit in site) for site in np.asarray(schedule).T)


def worth_of(totals: PolicyTotals, horizon: int, max_bias: float) -> float:
    """reward per step - DEAR max(0, bias - max_bias), and - WALL where bias > max_bias."""
    return totals.reward / horizon - float(_fine(totals.bias, max_bias))


def _fine(bias: Any, max_bias: float) -> Any:
    beyond = bias - max(0.0, max_bias - MARGIN)
    return np.where(beyond > 0, DEAR * beyond + WALL, 0.0)


def look_ahead(
    world: Attention, max_bias: float, rho: float, start: Multipliers, *, rounds: int, speed: float = 0.15
) -> tuple[Array, Multipliers]:
    """A schedule that looks ahead with the sites' values at multipliers which are corrected by its rates.

    A site whose rate lies above the others' window of width max_bias gets more b_g and less a_g, one below it the other
    way round. Where that does not help it is tried again with half of it. Returns the best schedule met, by `worth_of`,
    and its multipliers.
    """
    sites, horizon = sites_of(world), int(world.horizon)
    prices, now = start.prices, start.least - start.most
    best, reached, kept, change = None, -np.inf, now, np.zeros_like(now)
    for _ in range(rounds):
        terms = terms_of(world, max_bias, rho, np.maximum(now, 0.0), np.maximum(-now, 0.0))
        schedule = schedule_from(world, bound_at(world, prices, sites, terms), sites, terms[:, 0])
        totals = schedule_totals(world, schedule)
        if (worth := worth_of(totals, horizon, max_bias)) > reached:
            best, reached, kept = schedule, worth, now
            rates = np.nan_to_num(totals.rates[0], nan=float(np.nanmean(totals.rates[0])))
            middle = (rates.max() + rates.min()) / 2
            change = rates - np.clip(rates, middle - 0.45 * max_bias, middle + 0.45 * max_bias)
        else:
            speed *= 0.5
        now = kept - speed * change
    assert best is not None
    return best, Multipliers(prices, np.maximum(kept, 0.0), np.maximum(-kept, 0.0))


def improve(
    world: Attention, schedule: Array, max_bias: float, *, rounds: int, seed: int = 0, many: int = 128
) -> Array:
    """A schedule of more reward within the limit on the bias, by changes of it.   [horizon, sites] -> [horizon, sites]

    In every round units move from one site to another over some steps, in `many` ways, and the best of these is taken
    if its `worth_of` is higher.
    """
    import jax

    rng = np.random.default_rng(seed)
    sites, horizon = sites_of(world), int(world.horizon)
    gain, cost = gain_and_cost(world)
    schedule = np.array(schedule, np.int32)
    with jax.enable_x64(True):

        def totals(g: int, units: Array) -> tuple[Array, Array]:
            supply, demand = _followed(sites[g].jump, sites[g].start)(sites[g].rates, sites[g].found, units)
            return np.asarray(supply), np.asarray(demand)

        def worth(supply: Array, demand: Array) -> Array:  # [..., sites] -> [...]
            rates = ratio(supply, demand, otherwise=np.nan)
            bias = np.nan_to_num(np.nanmax(rates, axis=-1) - np.nanmin(rates, axis=-1))
            return (gain * supply - cost * demand).sum(axis=-1) / horizon - _fine(bias, max_bias)

        supply, demand = np.array([[x[0] for x in totals(g, schedule[None, :, g])] for g in range(len(sites))]).T
        reached = worth(supply, demand)
        for _ in range(rounds if len(sites) > 1 else 0):
            giver, taker = rng.choice(len(sites), 2, replace=False)
            changed = _changes(rng, schedule[:, giver], schedule[:, taker], many)
            supplies, demands = np.tile(supply, (many, 1)), np.tile(demand, (many, 1))
            for g, units in zip((giver, taker), changed, strict=True):
                supplies[:, g], demands[:, g] = totals(g, units)
            tried = worth(supplies, demands)
            best = int(tried.argmax())
            if tried[best] > reached + 1e-12:
                reached, supply, demand = tried[best], supplies[best], demands[best]
                schedule[:, giver], schedule[:, taker] = changed[0][best], changed[1][best]
    return schedule


def _changes(rng: np.random.Generator, giver: Array, taker: Array, many: int) -> tuple[Array, Array]:
    """Ways to move units between two sites, over a stretch of steps or every few of it.   -> 2 x [many, horizon]"""
    horizon = len(giver)
    steps = np.arange(horizon)[None]
    first = rng.integers(0, horizon, (many, 1))
    length = np.exp2(rng.uniform(0, np.log2(horizon), (many, 1))).astype(int)
    every = rng.choice([1, 1, 1, 2, 3, 5, 8, 16], (many, 1))
    chosen = (steps >= first) & (steps < first + length) & ((steps - first) % every == 0)
    amount = rng.choice([1, 1, 1, 2, 3, 5, 1000], (many, 1))
    moved = np.where(chosen, np.minimum(amount, giver), 0)
    # in a part of the ways the taker gives as much back elsewhere, or the two change places
    back = rng.random((many, 1))
    apart = first + rng.choice([-1, 1], (many, 1)) * rng.integers(1, 33, (many, 1)) * every
    returned = (steps >= apart) & (steps < apart + length) & ((steps - apart) % every == 0) & ~chosen
    moved = np.where((back < 0.4) & returned, -np.minimum(amount, taker), moved)
    moved = np.where((back > 0.9) & chosen, giver - taker, moved)
    return (giver - moved).astype(np.int32), (taker + moved).astype(np.int32)


@cache
def _followed(jump: int, start: tuple[int, int]) -> Any:
    """S and D of schedules of one site.   [many, horizon] -> 2 x [many]"""
    import jax
    import jax.numpy as jnp

    def run(rates: Any, found: Any, units: Any) -> Any:
        grids, levels = rates.shape

        def step(carry: Any, now: Any) -> Any:
            grid, level, supply, demand = carry
            supply, demand = supply + found[grid, now, level], demand + rates[grid, level]
            fits = level >= now
            after = jnp.where(now == 0, jnp.minimum(level + jump, levels - 1), jnp.where(fits, level - now, 0))
            return (jnp.where(fits, grid, grids - 1), after, supply, demand), None

        many = units.shape[0]
        place = (jnp.full(many, start[0], jnp.int32), jnp.full(many, start[1], jnp.int32))
        (_, _, supply, demand), _ = jax.lax.scan(step, (*place, jnp.zeros(many), jnp.zeros(many)), units.T)
        return supply, demand

    return jax.jit(run)
