"""Waiting list: an upper bound for the reward, with or without a limit on the bias, from a fluid linear program.

For any policy, also one that draws lots and looks at the whole history, let n_t(g) be the expected list at the start of
week t, x_t(d, g) the expected transplants from donors d to people g, and s_g the probability to stay on the list for a
week without a transplant. With r_t(g) = n_t(g) - sum_d x_t(d, g), the expected number of those who still wait,

    x, r >= 0,    sum_g x_t(d, g) <= organs_d,    n_0 = initial_list,    n_t+1(g) = s_g r_t(g) + arrivals_g
    R = - sum_t sum_g die_g r_t(g),    S_g = sum_t sum_d x_t(d, g)
    D_g = initial_list_g + horizon * arrivals_g,  or  sum_t n_t(g) / 52

where organs_d and arrivals_g are means per week. Proof: in every week of every course of events a person receives at
most one organ, an organ is given at most once and only where it fits, and organs come independently of the past. Those
who still wait die or withdraw independently of the action and of the past, given how many they are, and arrivals depend
on nothing. Taking expectations gives these lines. They are linear, so the largest R that they allow is at least what
any policy has. It is more than that, because expectations know no chance: 0.4 people can be served every week, and no
organ meets an empty list.

A program of weeks is slow to solve. Blocks of L weeks use sums over their weeks j = 0 .. L - 1 instead: transplants
X(d, g) = sum_j x_j(d, g), and Z(d, g) = sum_j c_gj x_j(d, g) with c_gj = s_g + ... + s_g**(L - 1 - j), the weeks of
waiting that a transplant in week j saves within the block. Unrolling the equation of the list from m at the start of a
block to m' at the end of it gives, with a = 1 + s + ... + s**(L - 1),

    m' = s**L m - s sum_d X + (1 - s) sum_d Z + a arrivals,    sum_j n_j = a m - sum_d Z + e arrivals

where e = sum_j (1 + ... + s**(j - 1)). What is known of weeks implies for blocks

    sum_g X(d, g) <= L organs_d,   sum_g Z(d, g) <= organs_d sum_j max_g c_gj,   0 <= Z(d, g) <= c_g0 X(d, g),
    m' >= arrivals,   sum_j r_j >= 0

and R, S and D are linear in X, Z and m. This allows all that the weeks allow and little more, so the largest R that it
allows is a bound too. With L = 1 it is the program of weeks.

A limit on the bias limits S_g / D_g, both of which are linear: rho D_g <= S_g <= (rho + max_bias) D_g for the lowest
rate rho, over which `elbert.exact.branch_and_bound` searches. What HiGHS says is not taken on trust. With its
multipliers y of the constraints A z <= b, and upper limits u of the variables, weak duality proves

    max c z <= y b + sum_j u_j max(0, c_j - (y A)_j)

whatever y is (0 or more for inequalities), and this number is the bound.
"""

from typing import Any

import numpy as np

from elbert.envs.waiting_list import FITS, WEEKS, WaitingList
from elbert.errors import ElbertError
from elbert.exact.branch_and_bound import Relaxed
from elbert.exact.finite import Array, PolicyTotals, as_written, band_rows
from elbert.exact.occupancy import solve

PAIRS = np.argwhere(FITS > 0)
"""[9, 2] donor and recipient of every kind of transplant."""
BLOCK = 13
"""Weeks of a block; the last may be shorter. With blocks of 4 the bounds are lower by less than 0.001 of their size."""
MOST_BLOCKS = 80
"""Of an episode: in longer ones the blocks are longer."""


class FluidProgram:
    """The polytope of expected transplants and lists, as a `Program`.

    A last variable stands for 1, or for the share of a corner in a mixture, so that all constraints are homogeneous.
    """

    def __init__(self, world: WaitingList, *, block: int | None = None) -> None:
        """Write down the constraints, block by block."""
        from scipy.sparse import csr_array

        weeks, groups, pairs = int(world.horizon), world.groups, len(PAIRS)
        self.shape = len(world.benefit.criteria), groups
        die, withdraw = (np.asarray(part, float) for part in world.risks())
        stay, arrivals = 1 - die - withdraw, as_written(world.arrivals) / WEEKS
        organs = float(world.organs) * as_written(world.donors) / WEEKS
        block = max(BLOCK, -(-weeks // MOST_BLOCKS)) if block is None else block
        starts = range(0, weeks, block)
        wide = 2 * pairs + groups
        unit = np.eye(wide * len(starts) + 1)
        one, at = unit[-1], unit[:-1].reshape(len(starts), wide, -1)
        of, into = (np.eye(groups)[side].T for side in PAIRS.T)  # [groups, pairs] each
        equal, most, limits = [], [], []
        waiting, deaths, supply = np.zeros((3, groups, len(one)))  # person-weeks, deaths and transplants
        before = np.outer(as_written(world.initial_list), one)
        for start, variables in zip(starts, at, strict=True):
            length = min(block, weeks - start)
            given, saved, after = np.split(variables, (pairs, 2 * pairs))  # X, Z and m'
            saves = np.array([(stay[:, None] ** np.arange(1, length - j)).sum(axis=1) for j in range(length)])
            held = np.array([(stay[:, None] ** np.arange(j)).sum(axis=1) for j in range(length + 1)])
            listed = held[-1][:, None] * before - into @ saved + np.outer(held[:-1].sum(axis=0) * arrivals, one)
            remaining = listed - into @ given
            left = stay[:, None] ** length * before - stay[:, None] * (into @ given)
            equal.append(after - left - (1 - stay)[:, None] * (into @ saved) - np.outer(held[-1] * arrivals, one))
            most += [
                of @ given - np.outer(length * organs, one),
                of @ saved - np.outer(saves.max(axis=1).sum() * organs, one),
                saved - (into.T @ saves[0])[:, None] * given,
                np.outer(arrivals, one) - after,
                -remaining,
            ]
            limits += [length * (of.T @ organs), saves.max(axis=1).sum() * (of.T @ organs)]
            limits.append(as_written(world.initial_list) + (start + length) * arrivals)
            waiting, deaths, supply = waiting + listed, deaths + die[:, None] * remaining, supply + into @ given
            before = after
        people = np.outer(as_written(world.initial_list) + weeks * arrivals, one)
        due = {"people": [people], "person-years": [waiting / WEEKS], "both": [people, waiting / WEEKS]}[world.counted]
        self.equal: Any = csr_array(np.concatenate(equal))
        self.most: Any = csr_array(np.concatenate(most))
        self.reward, self.supply, self.demand = -deaths.sum(axis=0), np.tile(supply, (len(due), 1)), np.concatenate(due)
        self.limits, self.organs = np.concatenate(limits), float(organs.sum() * weeks)

    def free(self) -> Relaxed:
        """The most reward without a limit."""
        relaxed = self.relaxed(np.zeros((1, self.shape[0])), np.inf)
        assert relaxed is not None, "nobody needs to be served"
        return relaxed

    def highest_rates(self) -> Array:
        """No more than all organs over the least demand of all groups, nor than 1 per person and week.   [criteria]"""
        weights = np.zeros((self.shape[0], *self.shape))
        weights[range(len(weights)), range(len(weights))] = -1.0
        least = np.maximum(-self.most_demand(weights), self.organs / WEEKS)
        return self.organs / np.maximum(least, 1e-9)

    def most_demand(self, weights: Array) -> Array:
        """By the multipliers of a program for each."""
        values = []
        for row in weights.reshape(len(weights), -1):
            cost = row @ self.demand
            done = self._solved(cost[None], [])
            assert done is not None
            values.append(self._proven(cost, *done[1:3], 0))
        return np.array(values)

    def relaxed(self, corners: Array, max_bias: float) -> Relaxed | None:
        """The best mixture over corners of rho [corners, criteria]; None if there is none."""
        count, limited = len(corners), np.isfinite(max_bias)
        rho = np.repeat(corners, self.shape[1], axis=1)  # [corners, criteria * groups]
        bands = [np.stack(band_rows(self.supply, self.demand, at[:, None], max_bias)) for at in rho if limited]
        done = self._solved(np.tile(self.reward, (count, 1)), bands)
        if done is None:
            return None
        z, equal, most, prices = done
        low, high = prices
        gains = [self.reward - low @ short - high @ over for short, over in bands] or [self.reward]
        bound = max(self._proven(gain, equal, most, corner) for corner, gain in enumerate(gains))
        supply, demand = ((part @ z.sum(axis=0)).reshape(self.shape) for part in (self.supply, self.demand))
        totals = PolicyTotals(float(self.reward @ z.sum(axis=0)), supply, demand)
        return Relaxed(
            bound,
            totals,
            price=float(high @ demand.reshape(-1)),
            prices=np.stack([low, high]).reshape(2, *self.shape),
            policy=None,
        )

    def _solved(self, gains: Array, bands: list[Array]) -> tuple[Array, Array, Array, Array] | None:
        """Where the gains [corners, n] of a mixture are largest, and the multipliers of flow, organs and bands."""
        from scipy.sparse import block_diag, csr_array, vstack

        count, size = gains.shape
        share = np.zeros((1, size))
        share[0, -1] = 1.0
        equal: Any = vstack([block_diag([self.equal] * count), csr_array(np.tile(share, count))], format="csr")
        right = np.append(np.zeros(equal.shape[0] - 1), 1.0)
        limits = [block_diag([self.most] * count)]
        if bands:
            limits.append(csr_array(np.concatenate([band.reshape(-1, size) for band in bands], axis=1)))
        upper: Any = vstack(limits, format="csr")
        done = solve(-gains.reshape(-1), A_ub=upper, b_ub=np.zeros(upper.shape[0]), A_eq=equal, b_eq=right)
        if done is None:
            return None
        if done.status != 0:
            raise ElbertError(
                f"HiGHS found neither a solution of the fluid program nor that there is none: {done.message}"
            )
        organs = self.most.shape[0] * count
        above = np.maximum(-done.ineqlin.marginals, 0.0)
        flows = -done.eqlin.marginals[:-1].reshape(count, -1)
        return (
            np.maximum(done.x, 0.0).reshape(count, size),
            flows,
            above[:organs].reshape(count, -1),
            above[organs:].reshape(2, -1) if bands else np.zeros((2, len(self.supply))),
        )

    def _proven(self, gain: Array, equal: Array, most: Array, corner: int) -> float:
        """max of gain z over the polytope, where the last variable is 1: never below the truth, by weak duality."""
        left = gain - equal[corner] @ self.equal - most[corner] @ self.most
        return float(left[-1] + self.limits @ np.maximum(left[:-1], 0.0))
