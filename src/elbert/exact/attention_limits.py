"""Attention with a limit on the bias: a certified upper bound for the reward.

If the bias is at most max_bias and the lowest rate is rho, then rho D_g <= S_g <= (rho + max_bias) D_g for every site. With
multipliers a_g, b_g >= 0 of these inequalities and prices nu_t of units the sites part, as they do without a limit (see
`elbert.exact.attention`), and no such policy has more reward than

    L(rho) = sum_g max over u_g of sum_t [ gain_g E min(Y, u_gt) - cost_g rate_gt - nu_t u_gt ]  +  sum_t nu_t units
    gain_g = gain + a_g - b_g,   cost_g = cost + a_g rho - b_g (rho + max_bias)

For a given schedule the sum is linear in rho, so L is convex: where the lowest rate lies in a box [low, high], the
larger of L(low) and L(high) is a bound, with any prices and multipliers. (That is never more than what the wider limits
low D_g <= S_g <= (high + max_bias) D_g prove with them, and far less where the box is wide.) Where all a_g <= b_g L rises,
and the upper end is enough; where all a_g >= b_g, the lower one. The largest of these numbers over boxes that cover
[0, 1] holds for every policy with a bias of at most max_bias, also for those that draw lots: R, S and D are linear in the
probabilities.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from elbert.checks import as_number
from elbert.envs import get_entry
from elbert.envs.attention import Attention
from elbert.errors import InvalidInputError
from elbert.exact.attention import (
    PARTS,
    STORED_HORIZON,
    Bound,
    bound_at,
    gain_and_cost,
    known_bound,
    sites_of,
    value_at,
)
from elbert.exact.finite import Array

FILE = "fair_attention.json"
BEYOND = 0.01
"""Reward per step by which the outer boxes are to be below the middle one, so that they do not decide nearby either."""


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

    value: float  # no such policy has more reward in an episode
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
    for box, found in proof.parts:
        for rho in ends_of(box, found.least, found.most):
            terms = terms_of(world, max_bias, rho, found.least, found.most)
            values.append((value_at(world, found.prices, sites, terms), rho, found))
    value, rho, found = max(values, key=lambda one: one[0])
    answers = bound_at(world, found.prices, sites, terms_of(world, max_bias, rho, found.least, found.most))
    return FairBound(value, float(found.most @ answers.demand))


@lru_cache(maxsize=64)
def fair_bound(world: Attention, max_bias: float) -> FairBound:
    """The bound with a limit on the bias from what is stored; without anything stored, that for all policies.

    For a limit between stored ones the multipliers of the next larger one are used, with this limit in the formula.
    """
    as_number(max_bias, "max_bias", "a limit on the bias, 0 or more", low=0.0, high=np.inf)
    free = FairBound(known_bound(world).value, 0.0)
    for proof in stored_proofs(world):
        if proof.max_bias >= max_bias:
            return min(proven(world, max_bias, proof), free, key=lambda one: one.value)
    return free


def stored_proofs(world: Attention) -> list[Proof]:
    """By rising limits; none for worlds other than the named ones with their horizon.

    Stored numbers are multipliers alone: they can prove too little but nothing wrong.
    """
    stored = stored_for(world, "multipliers")
    if stored is None:
        return []
    hats = hats_of(int(world.horizon), np.array(stored["knots"], float))
    proofs = []
    for one in stored["limits"]:
        parts = tuple(
            (Box(*part["box"]), Multipliers(hats @ np.array(part["prices"]), np.array(part["a"]), np.array(part["b"])))
            for part in one["boxes"]
        )
        proofs.append(Proof(one["max_bias"], parts))
    return sorted(proofs, key=lambda proof: proof.max_bias)


def stored_bounds(world: Attention) -> list[tuple[float, float]]:
    """(max_bias, reward of an episode that no policy within it exceeds) by rising max_bias, infinite last.

    They were computed by `fair_bound`, which takes seconds for each, and are there for pictures and comparisons.
    The bound rises with max_bias: for a limit between two of them the larger one's holds. None where nothing is stored.
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
    return json.loads(files("elbert.exact").joinpath(FILE).read_text())


def stored_for(world: Attention, part: str) -> Any:
    """What is stored for this world, or None."""
    for name, content in _content().items():
        named = get_entry(name).make(horizon=STORED_HORIZON)
        if all(np.array_equal(getattr(world, one), getattr(named, one)) for one in (*PARTS, "horizon")):
            return content.get(part)
    return None


class Search:
    """Multipliers that prove much, from what the sites answered so far.

    Every answer of a site (its units, S and D) is kept: its value at other multipliers, limits and lowest rates is then
    known without another induction, and the best of the kept ones is a lower estimate of what the site would answer. A
    linear program finds the multipliers at which the estimate is lowest, no further than `reach` from the best ones so
    far; the sites answer to them, and so on. The prices are linear between knots, so that there are fewer.
    """

    def __init__(self, world: Attention, knots: Array) -> None:
        self.world, self.sites = world, sites_of(world)
        self.hats = hats_of(int(world.horizon), knots)
        self.kept: list[list[Array]] = [[] for _ in self.sites]  # per site: units by knot, supply, demand

    def multipliers(self, at: Array) -> Multipliers:
        """From a point [knots + 2 sites]."""
        count, sites = self.hats.shape[1], len(self.sites)
        return Multipliers(self.hats @ at[:count], at[count : count + sites], at[count + sites :])

    def ask(self, max_bias: float, rho: float, at: Array) -> Bound:
        """The sites answer to multipliers [knots + 2 sites], and the answers are kept."""
        prices, least, most = self.multipliers(at)
        bound = bound_at(self.world, prices, self.sites, terms_of(self.world, max_bias, rho, least, most))
        for g, kept in enumerate(self.kept):
            kept.append(np.concatenate([self.hats.T @ bound.units[:, g], [bound.supply[g], bound.demand[g]]]))
        return bound

    def asked(self, max_bias: float, box: Box, at: Array) -> float:
        """What is proven for a box."""
        _, least, most = self.multipliers(at)
        return max(self.ask(max_bias, rho, at).value for rho in ends_of(box, least, most))

    def estimate(self, max_bias: float, box: Box, centre: Array, reach: Array) -> tuple[float, Array]:
        """The lowest estimate within reach of a centre, and where it is."""
        from scipy.optimize import linprog

        count, sites = self.hats.shape[1], len(self.sites)
        gain, cost = gain_and_cost(self.world)
        ends = sorted(set(box))
        first = count + 2 * sites  # of the sites' values, [ends, sites], and then the bound itself
        width = first + sites * len(ends) + 1
        rows, right = [], []
        for e, rho in enumerate(ends):
            for g, kept in enumerate(self.kept):
                table = np.array(kept)
                supply, demand = table[:, count], table[:, count + 1]
                row = np.zeros((len(table), width))
                row[:, :count] = -table[:, :count]
                row[:, count + g] = supply - rho * demand
                row[:, count + sites + g] = (rho + max_bias) * demand - supply
                row[:, first + e * sites + g] = -1.0
                rows.append(row)
                right.append(cost * demand - gain * supply)
            total = np.zeros((1, width))
            total[0, :count] = self.hats.sum(axis=0) * int(self.world.units)
            total[0, first + e * sites : first + (e + 1) * sites] = 1.0
            total[0, -1] = -1.0
            rows.append(total)
            right.append(np.zeros(1))
        low, high = centre - reach, centre + reach
        low[count:] = np.maximum(low[count:], 0.0)
        limits = [*zip(low, high, strict=True), *([(None, None)] * (width - first))]
        goal = np.zeros(width)
        goal[-1] = 1.0
        done = linprog(goal, np.concatenate(rows), np.concatenate(right), bounds=limits, method="highs")
        if done.x is None:
            return -np.inf, centre
        return float(done.fun), np.concatenate([done.x[:count], np.maximum(done.x[count:first], 0.0)])

    def tightened(
        self,
        max_bias: float,
        box: Box,
        centre: Array,
        *,
        steps: int,
        reach: float = 0.005,
        enough: float = -np.inf,
        tolerance: float = 3e-4,
        tick: Callable[..., None] = lambda *_: None,
    ) -> tuple[float, Array]:
        """Better multipliers for a box, from given ones: what they prove, and where they are."""
        horizon = int(self.world.horizon)
        best = self.asked(max_bias, box, centre)
        wide = np.ones(len(centre))
        wide[self.hats.shape[1] :] = 4.0
        for _ in range(steps):
            if best <= enough:
                break
            guess, at = self.estimate(max_bias, box, centre, reach * wide)
            if best - guess <= tolerance * horizon:
                if reach >= 0.01:
                    break
                reach = 2 * reach
                continue
            value = self.asked(max_bias, box, at)
            tick(best, guess, value, reach)
            if value < best - 0.5 * (best - guess):
                reach = min(1.5 * reach, 0.2)
            elif value > best + (best - guess):
                reach = max(0.7 * reach, 0.002)
            if value < best:
                best, centre = value, at
        return best, centre

    def proof(
        self, max_bias: float, middle: Box, centre: Array, *, steps: int, outer: Sequence[Array] = ()
    ) -> tuple[float, Array, Proof]:
        """Multipliers for a box around the best lowest rate and for what lies below and above it.

        Returns what they prove, the point of the middle box [knots + 2 sites], and the multipliers of all three. What
        lies outside is tightened only until it decides no longer, here and for limits somewhat smaller. It starts from
        the best of the middle's point and those of `outer`.
        """
        value, centre = self.tightened(max_bias, middle, centre, steps=steps)
        parts = [(middle, self.multipliers(centre))]
        for box in (Box(0.0, middle.low), Box(middle.high, 1.0)):
            if box.high > box.low:
                start = min((centre, *outer), key=lambda at, box=box: self.asked(max_bias, box, at))
                other, at = self.tightened(
                    max_bias, box, start, steps=steps, enough=value - BEYOND * int(self.world.horizon)
                )
                parts.append((box, self.multipliers(at)))
                value = max(value, other)
        return value, centre, Proof(max_bias, tuple(parts))


def hats_of(horizon: int, knots: Array) -> Array:
    """Hat functions: prices from their values at the knots.   -> [horizon, knots]"""
    return np.stack([np.interp(np.arange(horizon), knots, one) for one in np.eye(len(knots))], axis=1)
