"""Attention: a certified upper bound for the reward, and a schedule of units that comes close to it.

The rates of the sites follow the units alone, never the incidents, so all that a policy decides is how many units u_gt
go where, and chance makes no difference to it. With a price nu_t for a unit in step t, the sites part:

    sum_g max over u_g of  sum_t [ gain E min(Y, u_gt) - cost rate_gt - nu_t u_gt ]  +  sum_t nu_t units

where gain = reward_found + cost_missed, cost = cost_missed and Y ~ Poisson(rate_gt). For any prices this is at least
what any policy reaches, however it acts: only that the units of a step add up is relaxed. Each maximum is found by
backward induction over the site's rates, which lie on a grid (multiples of `fall`). Good prices come from subgradient
steps: a unit is dearer where more were asked for than there are.
"""

import json
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from elbert.envs import get_entry
from elbert.envs.attention import Attention
from elbert.errors import InvalidInputError
from elbert.exact.finite import Array, PolicyTotals

ROOM = 1.5
"""Rates are followed one by one up to so many times the initial rate, or the rate beyond which no step pays."""
PARTS = ("initial_rates", "fall", "growth", "units", "reward_found", "cost_missed")
STEPS = 150
STORED_HORIZON = 1024
GUESSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


class Site(NamedTuple):
    """The rates that a site can have: its own grid, then the multiples of `fall` that it is on after reaching 0."""

    rates: Array  # [grids, levels] level k of grid 0 is k * fall + offset, of grid 1 k * fall
    found: Array  # [grids, units + 1, levels] E min(Y, u)
    start: tuple[int, int]  # grid and level at reset
    jump: int  # levels that the rate grows by without attention
    highest: float  # that the rate can reach within the horizon, on the grid or above it


class Answer(NamedTuple):
    """What a site would do by itself at given prices."""

    value: float  # no schedule of units for this site has more
    units: Array  # [horizon] that it would take
    supply: float  # incidents found by them
    demand: float  # incidents
    ahead: Array  # [horizon, grids, levels] value of all that follows each step, by the rate after it


@dataclass(frozen=True)
class Bound:
    """What prices prove."""

    value: float  # no policy has more reward in an episode
    units: Array  # [horizon, sites] the sites' own answers; their sums may differ from the units there are
    ahead: tuple[Array, ...]  # of each site, as in `Answer`
    supply: Array  # [sites] of the sites' own answers
    demand: Array  # [sites]


def sites_of(world: Attention) -> list[Site]:
    """The grids of all sites; refused where growth is no multiple of fall."""
    from scipy.special import gammainc

    units = int(world.units)
    gain, cost = gain_and_cost(world)
    sites = []
    for first, fall, growth in zip(
        *(_numbers(x) for x in (world.initial_rates, world.fall, world.growth)), strict=True
    ):
        if fall <= 0 or abs(growth / fall - round(growth / fall)) > 1e-4:
            raise InvalidInputError(
                f"A site's growth is {growth:g} and its fall {fall:g}. The bound needs rates on a grid: growth a "
                "multiple of fall, and fall above 0."
            )
        jump, level = round(growth / fall), int(np.floor(first / fall + 1e-4))
        offset = max(0.0, first - level * fall)
        offset = 0.0 if offset < 1e-4 * fall else offset
        dear = gain * units / cost if cost > 0 else np.inf  # above this rate a step costs more than it can bring
        highest = min(first + growth * int(world.horizon), ROOM * max(dear, first) + growth)
        levels = int(np.ceil(highest / fall)) + 1
        grid = np.arange(levels) * fall
        rates = np.stack([grid + offset, grid]) if offset else grid[None]
        above = gammainc(np.arange(1, units + 1)[:, None], rates[:, None, :])  # P[Y >= u] for u = 1 .. units
        found = np.concatenate([np.zeros_like(rates[:, None]), np.cumsum(above, axis=1)], axis=1)
        sites.append(Site(rates, found, (0, level), jump, first + growth * int(world.horizon)))
    return sites


def bound_at(world: Attention, prices: Array, sites: list[Site] | None = None, terms: Array | None = None) -> Bound:
    """The bound that prices nu_t of units prove, nu [horizon].

    Args:
        world: the world.
        prices: of a unit in each step.
        sites: the world's grids, where they are at hand.
        terms: [sites, 2] what counts per incident found and, negatively, per incident; by default gain and cost.
    """
    sites = sites_of(world) if sites is None else sites
    terms = np.tile(gain_and_cost(world), (len(sites), 1)) if terms is None else terms
    answers = [_induction(site, gain, cost, prices) for site, (gain, cost) in zip(sites, terms, strict=True)]
    value = float(prices.sum() * int(world.units)) + sum(answer.value for answer in answers)
    units = np.stack([answer.units for answer in answers], axis=1)
    supply, demand = np.array([(answer.supply, answer.demand) for answer in answers]).T
    return Bound(value, units, tuple(answer.ahead for answer in answers), supply, demand)


def value_at(world: Attention, prices: Array, sites: list[Site], terms: Array) -> float:
    """The value of `bound_at` alone, in half the time."""
    import jax

    value = float(prices.sum() * int(world.units))
    with jax.enable_x64(True):
        for site, (gain, cost) in zip(sites, terms, strict=True):
            value += float(_compiled(False)(*_arguments(site, gain, cost), prices))
    return value


def best_bound(world: Attention, *, steps: int = STEPS, prices: Array | None = None) -> tuple[Array, Bound, Array]:
    """Prices that prove much, by subgradient steps: (prices, their bound, the best schedule of units met).

    The length of a step is Polyak's, towards the best schedule's reward.
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


def stored_prices(world: Attention) -> Array | None:
    """Prices for a named world of any horizon, [horizon]; None for other parameters.

    Any prices prove a bound, so that stored ones can be loose but not wrong. `python benchmarks/attention_prices.py`
    finds and stores them.
    """
    from importlib.resources import files

    stored = json.loads(files("elbert.exact").joinpath("attention_prices.json").read_text())
    horizon = int(world.horizon)
    for name, prices in stored.items():
        named = get_entry(name).make(horizon=horizon)
        if all(np.array_equal(getattr(world, part), getattr(named, part)) for part in PARTS):
            # by the steps that remain, stretched where there are more
            remain = np.arange(horizon, 0, -1) / max(horizon, STORED_HORIZON)
            return np.interp(remain, np.linspace(0, 1, len(prices)), prices)
    return None


def known_prices(world: Attention) -> Array:
    """Stored prices, or else ones that are found now, which takes a while.   [horizon]"""
    stored = stored_prices(world)
    return best_bound(world)[0] if stored is None else stored


@lru_cache(maxsize=8)
def known_bound(world: Attention) -> Bound:
    """The bound that the prices at hand prove."""
    return bound_at(world, known_prices(world))


def known_schedule(world: Attention) -> Array:
    """The schedule of units that looks ahead with the values at these prices.   [horizon, sites]"""
    return schedule_from(world, known_bound(world))


def schedule_from(world: Attention, bound: Bound, sites: list[Site] | None = None, gains: Array | None = None) -> Array:
    """Whole units per step that look one step ahead with the sites' values at these prices.   -> [horizon, sites]

    u_t = argmax of sum_g [ gain E min(Y, u_g) - cost rate_g + ahead_gt(rate after u_g) ] with sum_g u_g = units, by
    dynamic programming over the sites. `gains` [sites] is what an incident found counts where the sites differ in it.
    """
    sites = sites_of(world) if sites is None else sites
    available = int(world.units)
    gains = np.full(len(sites), gain_and_cost(world)[0]) if gains is None else gains
    places = [site.start for site in sites]
    schedule = np.zeros((int(world.horizon), len(sites)), int)
    choices = np.arange(available + 1)
    for t in range(len(schedule)):
        total = np.full(available + 1, -np.inf)
        total[0] = 0.0
        picks = []
        for site, place, ahead, gain in zip(sites, places, bound.ahead, gains, strict=True):
            after = np.array([ahead[t][_moved(site, place, int(u))] for u in choices])
            worth = gain * site.found[place[0], :, place[1]] + after
            sums = total[None, :] + worth[:, None]  # [units here, units so far]
            table = np.full((available + 1, available + 1), -np.inf)  # [units here, units with this site]
            for u in choices:
                table[u, u:] = sums[u, : available + 1 - u]
            picks.append(table.argmax(axis=0))
            total = table.max(axis=0)
        left = available
        for g in reversed(range(len(sites))):
            schedule[t, g] = picks[g][left]
            left -= schedule[t, g]
            places[g] = _moved(sites[g], places[g], int(schedule[t, g]))
    return schedule


def schedule_totals(world: Attention, schedule: Array) -> PolicyTotals:
    """R, S and D of a schedule of units [horizon, sites], in expectation: nothing is simulated."""
    from scipy.special import gammainc

    rates, fall, growth = (_numbers(x) for x in (world.initial_rates, world.fall, world.growth))
    steps = np.arange(1, int(world.units) + 1)[:, None]
    supply, demand = np.zeros((2, len(rates)))
    for units in schedule:
        supply += (gammainc(steps, np.maximum(rates, 1e-300)) * (steps <= units)).sum(axis=0)
        demand += rates
        rates = np.where(units > 0, np.maximum(rates - fall * units, 0.0), rates + growth)
    reward = float(world.reward_found) * supply.sum() - float(world.cost_missed) * (demand - supply).sum()
    return PolicyTotals(float(reward), supply[None], demand[None])


def gain_and_cost(world: Attention) -> tuple[float, float]:
    """Reward of a step as gain * found - cost * incidents."""
    cost, gain = float(world.cost_missed), float(world.reward_found) + float(world.cost_missed)
    if cost < 0 or gain < 0:
        raise InvalidInputError("The bound needs cost_missed and reward_found + cost_missed of 0 or more.")
    return gain, cost


def _moved(site: Site, place: tuple[int, int], units: int) -> tuple[int, int]:
    """Where a rate goes; beyond the last level it is taken as the last (a schedule stays within)."""
    grid, level = place
    if units == 0:
        return grid, min(level + site.jump, site.rates.shape[1] - 1)
    return (grid, level - units) if level >= units else (len(site.rates) - 1, 0)


def _arguments(site: Site, gain: float, cost: float) -> tuple[Any, ...]:
    """Of the compiled induction; the last is the most that -cost * rate can be above the grid, for either sign."""
    extreme = -cost * float(site.rates[0, -1] if cost >= 0 else site.highest)
    return (site.rates, site.found), site.jump, site.start, float(gain), float(cost), extreme


def _induction(site: Site, gain: float, cost: float, prices: Array) -> Answer:
    """Backward induction over the site's rates, in float64.

    Above the grid the rate is unknown but high: it lies between the highest level and what can be reached within the
    horizon, so that -cost * rate has a
    bound; a step finds between nothing and one incident per unit, and the best of
    what lies within reach may follow. For either sign of gain and cost that is never below the truth.
    """
    import jax

    with jax.enable_x64(True):
        value, units, supply, demand, ahead = _compiled(True)(*_arguments(site, gain, cost), prices)
        return Answer(float(value), np.asarray(units), float(supply), float(demand), np.asarray(ahead))


@cache
def _compiled(followed: bool) -> Any:
    """The value at the start; with `followed` an `Answer`."""
    import jax
    import jax.numpy as jnp

    def run(site: Any, jump: int, start: tuple[int, int], gain: Any, cost: Any, extreme: Any, prices: Any) -> Any:
        rates, found = site
        grids, levels = rates.shape
        most = found.shape[1] - 1
        worth = gain * found  # [grids, units + 1, levels]
        spent = -cost * rates
        choices = jnp.arange(most + 1)

        def step(carry: Any, price: Any) -> Any:
            ahead, above = carry  # [grids, levels], []
            top = jnp.broadcast_to(above, (grids, jump))
            best = jnp.concatenate([ahead, top], axis=1)[:, jump:] + worth[:, 0]
            bottom = jnp.broadcast_to(ahead[-1, 0], (grids, most))
            padded = jnp.concatenate([bottom, ahead], axis=1)
            for u in range(1, most + 1):
                best = jnp.maximum(best, worth[:, u] - price * u + padded[:, most - u : most - u + levels])
            value = best + spent
            reach = jnp.maximum(above, jnp.max(ahead[:, -most:]))
            above = jnp.max(choices * (jnp.maximum(gain, 0.0) - price)) + extreme + reach
            return (value, above), ahead if followed else None

        def follow(place: Any, now: Any) -> Any:
            (grid, level), (price, t) = place, now
            fits = level >= choices
            grid_after = jnp.where(fits, grid, grids - 1)
            level_after = jnp.where(fits, level - choices, 0).at[0].set(jnp.minimum(level + jump, levels - 1))
            units = jnp.argmax(worth[grid, :, level] - price * choices + values[t, grid_after, level_after])
            done = (units, found[grid, units, level], rates[grid, level])
            return (grid_after[units], level_after[units]), done

        nothing = jnp.zeros_like(rates)
        (first, _), values = jax.lax.scan(step, (nothing, jnp.zeros_like(prices[0])), prices, reverse=True)
        if not followed:
            return first[start]
        origin = (jnp.asarray(start[0]), jnp.asarray(start[1]))
        _, (units, supply, demand) = jax.lax.scan(follow, origin, (prices, jnp.arange(len(prices))))
        return first[start], units, supply.sum(), demand.sum(), values

    return jax.jit(run, static_argnums=(1, 2))


def _numbers(values: Any) -> Array:
    return np.round(np.asarray(values, float), 7)
