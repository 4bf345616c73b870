"""Find multipliers of a limit on the bias that prove a low bound for an attention world."""

from collections.abc import Sequence

import numpy as np

from elbert.envs.attention import Attention
from elbert.exact.attention import Bound, bound_at, gain_and_cost, sites_of
from elbert.exact.attention_limits import Box, Multipliers, Proof, ends_of, hats_of, terms_of
from elbert.exact.finite import Array, band_rows

BEYOND = 0.01
"""How far the outer boxes are to be below the middle one, in reward per step, so that they do not decide nearby."""


class Search:
    """Multipliers that prove a low bound, from what the sites answered so far.

    Every answer of a site (its units, S and D) is kept: its value at other multipliers, limits and lowest rates is then
    known without another induction, and the best of the kept ones is a lower estimate of what the site would answer. A
    linear program finds the multipliers at which the estimate is lowest, no further than `reach` from the best ones so
    far; the sites answer to them, and so on. The prices are linear between knots, so that there are fewer.
    """

    def __init__(self, world: Attention, knots: Array) -> None:
        """Take a world, and the steps between which its prices are linear."""
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
                short, over = band_rows(supply, demand, rho, max_bias)
                row = np.zeros((len(table), width))
                row[:, :count] = -table[:, :count]
                row[:, count + g] = -short
                row[:, count + sites + g] = -over
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
