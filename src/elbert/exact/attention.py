"""Attention: a certified upper bound for the reward.

The rates of the sites follow the units alone, never the incidents, so all that a policy decides is how many units u_gt
go where, and chance makes no difference to it. With a price nu_t for a unit in step t, the problem falls apart into one
per site:

    sum_g max over u_g of  sum_t [ gain E min(Y, u_gt) - cost rate_gt - nu_t u_gt ]  +  sum_t nu_t units

where gain = reward_found + cost_missed, cost = cost_missed and Y ~ Poisson(rate_gt). For any prices this is at least
what any policy reaches, however it acts: only that the units of a step add up is relaxed. Backward induction over the
site's rates, which lie on a grid (multiples of `fall`), finds each maximum. Good prices are stored for the named
worlds; `benchmarks/attention_bounds` in the repository finds them.
"""

import json
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from elbert.envs import get_entry
from elbert.envs.attention import Attention
from elbert.errors import InvalidInputError
from elbert.exact.finite import Array, as_written

ROOM = 1.5
"""Rates are followed one by one up to this multiple of the initial rate, or of the rate beyond which no step pays."""
PARTS = ("initial_rates", "fall", "growth", "units", "reward_found", "cost_missed")
STORED_HORIZON = 1024


class Site(NamedTuple):
    """The rates that a site can have: its own grid, then the multiples of `fall` that it is on after reaching 0."""

    rates: Array  # [grids, levels] level k of grid 0 is k * fall + offset, of grid 1 k * fall
    found: Array  # [grids, units + 1, levels] E min(Y, u)
    start: tuple[int, int]  # grid and level at reset
    jump: int  # levels that the rate grows by without attention
    highest: float  # that the rate can reach within the horizon, on the grid or above it


@dataclass(frozen=True)
class Bound:
    """What prices prove."""

    value: float  # no policy has more reward in an episode
    units: Array  # [horizon, sites] that each site would take by itself; their sums may differ from those there are
    ahead: tuple[Array, ...]  # of each site, [horizon, grids, levels]: value of what follows, by the rate after a step
    supply: Array  # [sites] incidents found by these units
    demand: Array  # [sites] incidents


def sites_of(world: Attention) -> list[Site]:
    """The grids of all sites; refused where growth is no multiple of fall."""
    from scipy.special import gammainc

    units = int(world.units)
    gain, cost = gain_and_cost(world)
    sites = []
    for first, fall, growth in zip(
        *(as_written(x) for x in (world.initial_rates, world.fall, world.growth)), strict=True
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
    """The bound that prices nu_t of units prove, nu [horizon]. `sites` are the world's grids, where they are at hand.

    `terms` [sites, 2] are what counts per incident found and, negatively, per incident; by default gain and cost.
    """
    sites = sites_of(world) if sites is None else sites
    terms = np.tile(gain_and_cost(world), (len(sites), 1)) if terms is None else terms
    answers = _responses(sites, terms, prices, followed=True)
    values, units, supply, demand, ahead = (
        [np.asarray(part) for part in parts] for parts in zip(*answers, strict=True)
    )
    value = float(prices.sum() * int(world.units)) + sum(map(float, values))
    return Bound(value, np.stack(units, axis=1), tuple(ahead), np.array(supply), np.array(demand))


def value_at(world: Attention, prices: Array, sites: list[Site], terms: Array) -> float:
    """The value of `bound_at` alone, in half the time."""
    return sum(map(float, _responses(sites, terms, prices, followed=False)), float(prices.sum() * int(world.units)))


class NoStoredPricesError(InvalidInputError):
    """Nothing is stored that would prove a bound for this world."""


def is_like(world: Attention, name: str, horizon: int) -> bool:
    """Whether a world has the parameters of a named one, and this horizon."""
    named = get_entry(name).make(horizon=horizon)
    return all(np.array_equal(getattr(world, part), getattr(named, part)) for part in (*PARTS, "horizon"))


def stored_prices(world: Attention) -> Array:
    """Prices for a named world of any horizon, [horizon]; refused for other parameters.

    Any prices prove a bound, so stored ones can be loose but not wrong.
    """
    stored = json.loads(files("elbert.exact").joinpath("attention_prices.json").read_text())
    horizon = int(world.horizon)
    for name, prices in stored.items():
        if is_like(world, name, horizon):
            # by the steps that remain, stretched where there are more
            remain = np.arange(horizon, 0, -1) / max(horizon, STORED_HORIZON)
            return np.interp(remain, np.linspace(0, 1, len(prices)), prices)
    raise NoStoredPricesError(
        f"No prices are stored for an attention world with these parameters, only for {' and '.join(stored)}, of any "
        "horizon: so no bound is known. Any prices prove one: give them to elbert.exact.attention.bound_at. "
        "benchmarks/attention_bounds in elbert's repository finds good ones, which takes minutes."
    )


@lru_cache(maxsize=8)
def stored_bound(world: Attention) -> Bound:
    """The bound for all policies that the stored prices prove."""
    return bound_at(world, stored_prices(world))


def gain_and_cost(world: Attention) -> tuple[float, float]:
    """Reward of a step as gain * found - cost * incidents."""
    cost, gain = float(world.cost_missed), float(world.reward_found) + float(world.cost_missed)
    if cost < 0 or gain < 0:
        raise InvalidInputError("The bound needs cost_missed and reward_found + cost_missed of 0 or more.")
    return gain, cost


def _responses(sites: list[Site], terms: Array, prices: Array, *, followed: bool) -> list[Any]:
    """Backward induction over each site's rates, in float64."""
    import jax

    with jax.enable_x64(True):
        return [
            _compiled(followed)(
                (site.rates, site.found),
                site.jump,
                site.start,
                float(gain),
                float(cost),
                -cost * float(site.rates[0, -1] if cost >= 0 else site.highest),
                prices,
            )
            for site, (gain, cost) in zip(sites, terms, strict=True)
        ]


@cache
def _compiled(followed: bool) -> Any:
    """The value at the start; with `followed` also units, supply, demand and the values ahead, as in `Bound`.

    Above the grid the rate is unknown but high: it lies between the highest level and what can be reached within the
    horizon, so that -cost * rate has a bound, `extreme`. A step there finds between nothing and one incident per unit,
    and the best of what lies within reach may follow. For either sign of gain and cost that is never below the truth.
    """
    import jax
    import jax.numpy as jnp

    def run(site: Any, jump: int, start: tuple[int, int], gain: Any, cost: Any, extreme: Any, prices: Any) -> Any:
        rates, found = site  # [grids, levels], [grids, units + 1, levels]
        grids, levels = rates.shape
        most = found.shape[1] - 1
        worth = gain * found
        spent = -cost * rates
        choices = jnp.arange(most + 1)

        def grown(ahead: Any, above: Any) -> Any:
            """Value ahead without a unit: `jump` levels up, the last of them above the grid.   [grids, levels]"""
            return jnp.concatenate([ahead, jnp.broadcast_to(above, (grids, jump))], axis=1)[:, jump:]

        def fallen(ahead: Any) -> Any:
            """u -> value ahead with u units: u levels down, or rate 0, level 0 of the last grid.   [grids, levels]"""
            padded = jnp.concatenate([jnp.broadcast_to(ahead[-1, 0], (grids, most)), ahead], axis=1)
            return lambda u: padded[:, most - u : most - u + levels]

        def value_above(ahead: Any, above: Any, price: Any) -> Any:
            """No less than the value above the grid, from which `most` units lead back onto its last levels."""
            reach = jnp.maximum(above, jnp.max(ahead[:, -most:]))
            return jnp.max(choices * (jnp.maximum(gain, 0.0) - price)) + extreme + reach

        def step(carry: Any, price: Any) -> Any:
            ahead, above = carry  # [grids, levels], []
            best, after = grown(ahead, above) + worth[:, 0], fallen(ahead)
            for u in range(1, most + 1):
                best = jnp.maximum(best, worth[:, u] - price * u + after(u))
            return (best + spent, value_above(ahead, above, price)), ahead if followed else None

        def follow(place: Any, now: Any) -> Any:
            (grid, level), (price, t) = place, now
            fits = level >= choices  # otherwise the rate falls to 0
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
