"""Occupancy programs: the best policy of a finite SD-MDP within a limit on the bias, by linear programming.

Variables are the occupancies x^c_t(s, a) for each corner c of a box of lowest rates, and its share theta_c:

    sum_a x^c_0(s, a) = theta_c start(s),   sum_a x^c_t+1(s', a) = sum_sa P(s' | s, a) x^c_t(s, a),   sum_c theta_c = 1
    sum_c S(x^c) - rho^c D(x^c) >= 0,   sum_c (rho^c + max_bias) D(x^c) - S(x^c) >= 0

HiGHS solves it. What it proves is not taken on trust: its prices go into the Lagrangian, whose maximum over policies we
compute by backward induction, and that number is the bound.
"""

from typing import Any

import numpy as np

from elbert.errors import InvalidInputError
from elbert.exact.branch_and_bound import Best, Relaxed, best_within
from elbert.exact.finite import Array, FiniteSDMDP, band_rows, highest_lowest_rates
from elbert.fairness.rates import ratio

LARGEST_PROGRAM = 2_000_000
"""A linear program with more variables would not end in reasonable time."""


def best_policy(
    mdp: FiniteSDMDP, max_bias: float = np.inf, *, tolerance: float = 1e-6, highest: float | None = None
) -> Best:
    """max R subject to max_g z_kg - min_g z_kg <= max_bias for every criterion k.

    `Best.policy` has shape [horizon, states, actions], or [states, actions] with a discount. Arguments as in
    `best_within`. No policy is sought whose lowest rate exceeds `highest`, which is needed only where the lowest rate
    can grow without bound, because groups can be given supply without demand.
    """
    return best_within(OccupancyProgram(mdp, highest=highest), max_bias, tolerance=tolerance)


class OccupancyProgram:
    """A finite SD-MDP as a `Program`."""

    def __init__(self, mdp: FiniteSDMDP, *, highest: float | None = None) -> None:
        """Build the flow equations once, for all limits."""
        self.mdp, self.highest = mdp, highest
        self.flow, self.first = _flow(mdp)
        self.size = len(self.first) * mdp.actions
        if self.size > LARGEST_PROGRAM:
            raise InvalidInputError(
                f"The occupancy program has {self.size} variables (steps x states x actions); at most "
                f"{LARGEST_PROGRAM} are solved. Shorten the horizon, or use a discount."
            )
        repeat = self.size // mdp.reward.size
        self.reward = np.tile(mdp.reward.reshape(-1), repeat)
        self.supply, self.demand = (
            np.tile(part.reshape(mdp.reward.size, -1).T, (1, repeat)) for part in (mdp.supply, mdp.demand)
        )

    def free(self) -> Relaxed:
        """The best policy, by backward induction; any one of them if several are equally good."""
        response = self.mdp.best_response(self.mdp.reward[None])
        policy = np.eye(self.mdp.actions)[response.choice[0]]
        none = np.zeros((2, self.mdp.criteria, self.mdp.groups))
        return Relaxed(float(response.value[0]), self.mdp.totals(policy), 0.0, none, policy)

    def highest_rates(self) -> Array:
        """By Dinkelbach's steps for every group; see `Program`.   [criteria]"""
        mdp = self.mdp
        if self.highest is not None:
            return np.full(mdp.criteria, float(self.highest))
        rates = np.array([[self._highest(k, g) for g in range(mdp.groups)] for k in range(mdp.criteria)])
        highest = highest_lowest_rates(rates, self.most_demand)
        if not np.isfinite(highest).all():
            raise InvalidInputError(
                "Groups can be given supply without demand, so that the lowest rate can grow without bound. Give "
                "highest=, a number that the lowest rate need not exceed."
            )
        return highest

    def most_demand(self, weights: Array) -> Array:
        """By backward induction."""
        return self.mdp.best_response(np.einsum("sakg,nkg->nsa", self.mdp.demand, weights)).value

    def relaxed(self, corners: Array, max_bias: float) -> Relaxed | None:
        """The best mixture over the corners [corners, criteria], bounded by its prices; None if there is none."""
        from scipy.sparse import block_array, block_diag, csr_array

        mdp, count = self.mdp, len(corners)
        rho = np.repeat(corners, mdp.groups, axis=1)  # [corners, criteria * groups]
        size = self.size
        shares = block_diag([csr_array(-self.first[:, None])] * count)
        equal = block_array(
            [[block_diag([self.flow] * count), shares], [csr_array((1, size * count)), np.ones((1, count))]],
            format="csr",
        )
        rows = [np.concatenate(band_rows(self.supply, self.demand, corner[:, None], max_bias)) for corner in rho]
        limits = np.concatenate(rows, axis=1)  # [2 * criteria * groups, corners * variables]
        right = np.zeros(len(self.first) * count + 1)
        right[-1] = 1.0
        cost = np.concatenate([-np.tile(self.reward, count), np.zeros(count)])
        done = solve(
            cost,
            A_ub=csr_array(np.pad(limits, ((0, 0), (0, count)))),
            b_ub=np.zeros(len(limits)),
            A_eq=equal,
            b_eq=right,
        )
        if done is None:
            return None
        if done.status != 0:  # nothing is known of this box but what holds everywhere
            return self.free()
        low, high = np.maximum(-done.ineqlin.marginals, 0.0).reshape(2, mdp.criteria, mdp.groups)
        each = np.maximum(done.x[: size * count], 0.0).reshape(count, -1)
        policy = self._policy(each.sum(axis=0))
        totals = mdp.totals(policy)
        price = float((high * totals.demand).sum())
        return Relaxed(self._bound(corners, max_bias, low, high), totals, price, np.stack([low, high]), policy)

    def _bound(self, corners: Array, max_bias: float, low: Array, high: Array) -> float:
        """max_c L(rho^c) at these prices, by backward induction."""
        mdp = self.mdp
        at = corners[:, None, None, :, None]  # [corners, 1, 1, criteria, 1]
        short, over = band_rows(mdp.supply, mdp.demand, at, max_bias)
        return float(mdp.best_response(mdp.reward - (low * short + high * over).sum(axis=(-2, -1))).value.max())

    def _policy(self, occupancy: Array) -> Array:
        """x / sum_a x; in a state that is never met, all actions are equally likely."""
        mdp = self.mdp
        steps = () if mdp.horizon is None else (mdp.horizon,)
        joint = occupancy.reshape(*steps, mdp.states, mdp.actions)
        return ratio(joint, joint.sum(axis=-1, keepdims=True), otherwise=1.0 / mdp.actions)

    def _highest(self, k: int, g: int) -> float:
        """max S / D by Dinkelbach's steps: r <- rate of the policy that maximises S - r D, which only rises."""
        mdp = self.mdp
        supply, demand = mdp.supply[:, :, k, g], mdp.demand[:, :, k, g]
        choice = mdp.best_response(demand[None]).choice[0]
        rate = -np.inf
        while True:
            totals = mdp.totals(np.eye(mdp.actions)[choice])
            given, due = totals.supply[k, g], totals.demand[k, g]
            if due <= 0:
                return np.inf if given > 0 else max(rate, 0.0)
            if given / due <= rate + 1e-12:
                return rate
            rate = given / due
            choice = mdp.best_response((supply - rate * demand)[None]).choice[0]


def solve(cost: Array, **constraints: Any) -> Any:
    """What HiGHS finds, by another of its methods if the first is unsure; None if there is surely no solution."""
    from scipy.optimize import linprog

    for method, presolve in (("highs", True), ("highs-ds", False), ("highs-ipm", True)):
        done = linprog(cost, **constraints, method=method, options={"presolve": presolve})
        if done.status in (0, 2):
            return done if done.status == 0 else None
    return done


def _flow(mdp: FiniteSDMDP) -> tuple[Any, Array]:
    """The equations of flow as a sparse array [equations, variables], and what enters at the start [equations]."""
    from scipy.sparse import block_array, csr_array, eye_array, kron

    here = kron(eye_array(mdp.states), np.ones((1, mdp.actions)), "csr")  # [S, S * A]: sum over actions
    there = csr_array(mdp.transition.reshape(-1, mdp.states).T)  # [S, S * A]: who arrives
    if mdp.horizon is None:
        return (here - mdp.discount * there).tocsr(), mdp.start
    blocks: list[list[Any]] = [[None] * mdp.horizon for _ in range(mdp.horizon)]
    for t in range(mdp.horizon):
        blocks[t][t] = here
        if t > 0:
            blocks[t][t - 1] = -there
    return block_array(blocks, format="csr"), np.concatenate([mdp.start, np.zeros(mdp.states * (mdp.horizon - 1))])
