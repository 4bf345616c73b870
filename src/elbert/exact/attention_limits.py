"""Attention with a limit on the bias: a certified upper bound for the reward, and the best schedules that are known.

If the bias is at most max_bias and the lowest rate is rho, then rho D_g <= S_g <= (rho + max_bias) D_g for every site.
With multipliers a_g, b_g >= 0 of these inequalities and prices nu_t of units the problem falls apart into one per site,
as it does without a limit (see `elbert.exact.attention`), and no policy within the limit has more reward than

    L(rho) = sum_g max over u_g of sum_t [ gain_g E min(Y, u_gt) - cost_g rate_gt - nu_t u_gt ]  +  sum_t nu_t units
    gain_g = gain + a_g - b_g,   cost_g = cost + a_g rho - b_g (rho + max_bias)

For a given schedule the sum is linear in rho, so L is convex: where the lowest rate lies in a box [low, high], the
larger of L(low) and L(high) is a bound, with any prices and multipliers. (That is never more than what the wider limits
low D_g <= S_g <= (high + max_bias) D_g prove with them, and far less where the box is wide.) Where all a_g <= b_g, L
rises, and the upper end is enough; where all a_g >= b_g, the lower one. The largest of these numbers over boxes that
cover [0, 1] holds for every policy with a bias of at most max_bias, also for those that draw lots: R, S and D are
linear in the probabilities.
"""

import json
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from elbert.checks import as_number
from elbert.envs.attention import Attention
from elbert.errors import InvalidInputError
from elbert.exact.attention import (
    STORED_HORIZON,
    Bound,
    Site,
    bound_at,
    gain_and_cost,
    is_like,
    sites_of,
    stored_bound,
    value_at,
)
from elbert.exact.finite import Array, PolicyTotals, as_written


class Multipliers(NamedTuple):
    """What proves a bound."""

    prices: Array  # [horizon] of a unit in each step
    least: Array  # [sites] a_g of S_g >= rho D_g
    most: Array  # [sites] b_g of S_g <= (rho + max_bias) D_g


class Box(NamedTuple):
    """Policies whose lowest rate lies between low and high."""

    low: float
    high: float


def terms_of(world: Attention, max_bias: float, rho: float, least: Array, most: Array) -> Array:
    """gain + a_g - b_g and cost + a_g rho - b_g (rho + max_bias).   -> [sites, 2]"""
    least, most = np.asarray(least, float), np.asarray(most, float)
    if not ((least >= 0).all() and (most >= 0).all()):
        raise InvalidInputError(
            "A multiplier of a limit on the rates is negative. Only multipliers of 0 or more prove a bound."
        )
    gain, cost = gain_and_cost(world)
    return np.stack([gain + least - most, cost + least * rho - most * (rho + max_bias)], axis=1)


def ends_of(box: Box, least: Array, most: Array) -> tuple[float, ...]:
    """The ends of a box at which L has to be known: both, or the one that it rises towards."""
    if (least <= most).all():
        return (box.high,)
    return (box.low,) if (least >= most).all() else (box.low, box.high)


@dataclass(frozen=True)
class FairBound:
    """What is proven for all policies with a bias of at most max_bias."""

    value: float  # none of them has more reward in an episode
    price: float  # by which it rises per unit of max_bias, with the same multipliers


class Proof(NamedTuple):
    """Multipliers for every box of a cover of [0, 1], found for one limit; they prove a bound for any limit."""

    max_bias: float  # that they were found for
    parts: tuple[tuple[Box, Multipliers], ...]


def proven(world: Attention, max_bias: float, proof: Proof) -> FairBound:
    """The bound that a proof gives for a limit on the bias, which need not be the one it was found for.

    The value is the largest over the boxes, at the ends where it can be largest. Its derivative by max_bias is
    sum_g b_g D_g of the sites' answers there.
    """
    _check_cover([box for box, _ in proof.parts])
    sites = sites_of(world)
    values = []
    for box, (prices, least, most) in proof.parts:
        for rho in ends_of(box, least, most):
            terms = terms_of(world, max_bias, rho, least, most)
            values.append((value_at(world, prices, sites, terms), prices, terms, most))
    value, prices, terms, most = max(values, key=lambda row: row[0])
    return FairBound(value, float(most @ bound_at(world, prices, sites, terms).demand))


@lru_cache(maxsize=64)
def fair_bound(world: Attention, max_bias: float) -> FairBound:
    """The bound with a limit on the bias from what is stored; without anything stored, that for all policies.

    For a limit between stored ones the multipliers of the next larger one are used, with this limit in the formula.
    """
    as_number(max_bias, "max_bias", "a limit on the bias, 0 or more", low=0.0, high=np.inf)
    free = FairBound(stored_bound(world).value, 0.0)
    for proof in stored_proofs(world):
        if proof.max_bias >= max_bias:
            return min(proven(world, max_bias, proof), free, key=lambda bound: bound.value)
    return free


def stored_proofs(world: Attention) -> list[Proof]:
    """The stored proofs by rising limit; none for worlds other than the named ones with their horizon.

    Only multipliers are stored: they can prove too little but nothing wrong.
    """
    stored = stored_for(world, "multipliers")
    if stored is None:
        return []
    hats = hats_of(int(world.horizon), np.array(stored["knots"], float))
    proofs = []
    for limit in stored["limits"]:
        parts = tuple(
            (Box(*part["box"]), Multipliers(hats @ np.array(part["prices"]), np.array(part["a"]), np.array(part["b"])))
            for part in limit["boxes"]
        )
        proofs.append(Proof(limit["max_bias"], parts))
    return sorted(proofs, key=lambda proof: proof.max_bias)


def stored_bounds(world: Attention) -> list[tuple[float, float]]:
    """(max_bias, reward of an episode that no policy within it exceeds) by rising max_bias, infinite last.

    `fair_bound` computed them, which takes seconds for each; pictures and comparisons use them. The bound rises with
    max_bias: between two of them the larger one's holds. The list is empty where nothing is stored.
    """
    stored = stored_for(world, "bounds") or []
    return [(np.inf if max_bias is None else float(max_bias), float(value)) for max_bias, value in stored]


def _check_cover(boxes: list[Box]) -> None:
    reached = 0.0
    for low, high in sorted(boxes):
        if low > reached:
            break
        reached = max(reached, high)
    if reached < 1.0:
        raise InvalidInputError(
            f"The boxes of the lowest rate leave out what lies above {reached:g}. A proof needs boxes that "
            "cover [0, 1]."
        )


@cache
def _content() -> dict[str, Any]:
    return json.loads(files("elbert.exact").joinpath("fair_attention.json").read_text())


def stored_for(world: Attention, part: str) -> Any:
    """What is stored for this world, or None."""
    for name, content in _content().items():
        if is_like(world, name, STORED_HORIZON):
            return content.get(part)
    return None


def hats_of(horizon: int, knots: Array) -> Array:
    """Hat functions: prices from their values at the knots.   -> [horizon, knots]"""
    return np.stack([np.interp(np.arange(horizon), knots, hat) for hat in np.eye(len(knots))], axis=1)


def stored_schedules(world: Attention) -> list[tuple[float, Array]]:
    """(bias, schedule [horizon, sites]) by rising bias, which we compute here; none where nothing is stored."""
    stored = stored_for(world, "schedules") or []
    schedules = [np.array([[int(unit, 36) for unit in site] for site in text.split()]).T for text in stored]
    return sorted(((schedule_totals(world, schedule).bias, schedule) for schedule in schedules), key=lambda row: row[0])


def fair_schedule(world: Attention, max_bias: float) -> Array:
    """The best schedule known with an expected bias of at most max_bias.   [horizon, sites]

    Where no schedules are stored, as for another horizon, only the one is known that looks ahead with the stored
    prices of units.
    """
    as_number(max_bias, "max_bias", "a limit on the bias, 0 or more", low=0.0, high=np.inf)
    known = stored_schedules(world)
    if not known:
        ahead = schedule_from(world, stored_bound(world))
        known = [(schedule_totals(world, ahead).bias, ahead)]
    within = [schedule for bias, schedule in known if bias <= max_bias]
    if not within:
        raise InvalidInputError(
            f"No schedule of whole units with a bias of at most {max_bias:g} is known for this world. The least bias "
            f"of those known is {known[0][0]:.2g}. Ask for a larger limit."
        )
    return max(within, key=lambda schedule: schedule_totals(world, schedule).reward)


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

    rates, fall, growth = (as_written(x) for x in (world.initial_rates, world.fall, world.growth))
    steps = np.arange(1, int(world.units) + 1)[:, None]
    supply, demand = np.zeros((2, len(rates)))
    for units in schedule:
        supply += (gammainc(steps, np.maximum(rates, 1e-300)) * (steps <= units)).sum(axis=0)
        demand += rates
        rates = np.where(units > 0, np.maximum(rates - fall * units, 0.0), rates + growth)
    reward = float(world.reward_found) * supply.sum() - float(world.cost_missed) * (demand - supply).sum()
    return PolicyTotals(float(reward), supply[None], demand[None])


def _moved(site: Site, place: tuple[int, int], units: int) -> tuple[int, int]:
    """Where a rate goes; beyond the last level it is taken as the last (a schedule stays within)."""
    grid, level = place
    if units == 0:
        return grid, min(level + site.jump, site.rates.shape[1] - 1)
    return (grid, level - units) if level >= units else (len(site.rates) - 1, 0)
