"""Groups that live apart, under one limit on the bias: column generation.

Each group lives in its own small MDP, and only the band of rates joins them. Given the prices low_kg, high_kg >= 0 the
problem falls apart into one per group:

    V_g(rho) = max over its policies of
                   R_g + sum_k low_kg (S_kg - rho_k D_kg) + high_kg ((rho_k + max_bias) D_kg - S_kg)

sum_g V_g is a bound for every rho. The totals of these best policies are collected as columns, a small linear program
mixes them to the best policy so far, and its prices ask for the next columns, until the mixture reaches the bound.
"""

import itertools
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from elbert.errors import ElbertError, InvalidInputError
from elbert.exact.branch_and_bound import Relaxed
from elbert.exact.finite import Array, FiniteSDMDP, PolicyTotals, band_rows, highest_lowest_rates
from elbert.fairness.rates import ratio

MOST_ROUNDS = 200
SPARSE = 8
"""Transitions are kept as lists where a state has at most one in this many states as its next."""
PENALTY = 1e3
"""The cost of a unit of supply outside the band, in units of the largest reward of a step: more than any price."""


class Column(NamedTuple):
    """What one deterministic policy of one group adds up to."""

    sums: Array  # [1 + 2 * criteria] reward, supply and demand
    weights: Array  # [states, actions] to which it is the best response


class Mixture(NamedTuple):
    """A policy of every group: deterministic ones, each with its share of the episodes."""

    columns: tuple[tuple[Column, ...], ...]  # of each group
    shares: tuple[Array, ...]  # [columns] of each group, summing to 1


class ComponentsProgram:
    """Groups that live apart, each a finite SD-MDP with one group and all with the same horizon, as a `Program`."""

    def __init__(self, parts: Sequence[FiniteSDMDP], *, tolerance: float = 2e-8) -> None:
        """The problems of the groups; in each box mixture and bound come within `tolerance` of the largest reward."""
        assert all(part.groups == 1 and part.horizon == parts[0].horizon for part in parts)
        self.parts, self.tolerance = tuple(parts), tolerance
        self.columns: list[list[Column]] = [[] for _ in parts]
        self.penalty = PENALTY * max(float(np.abs(part.reward).max()) for part in parts)

    @property
    def criteria(self) -> int:
        """The number of rates that are compared among groups."""
        return self.parts[0].criteria

    @cached_property
    def _least(self) -> float:
        return -float(self._respond([(g, -part.reward) for g, part in enumerate(self.parts)], keep=False).sum())

    @cached_property
    def _free(self) -> Relaxed:
        value = self._respond([(g, part.reward) for g, part in enumerate(self.parts)])
        chosen = tuple((max(columns, key=lambda column: column.sums[0]),) for columns in self.columns)
        totals = _totals(chosen, [np.ones(1)] * len(chosen))
        none = np.zeros((2, self.criteria, len(self.parts)))
        return Relaxed(float(value.sum()), totals, 0.0, none, Mixture(chosen, (np.ones(1),) * len(chosen)))

    @cached_property
    def _moves(self) -> list[Array]:
        """P(next | state, action) of all groups, [groups, S, A, S].

        Where most entries are 0: the next states that are possible, and their probabilities, [groups, S, A, few] each.
        """
        transition = np.stack([part.transition for part in self.parts])
        few = int((transition > 0).sum(axis=-1).max())
        if few * SPARSE > transition.shape[-1]:
            return [transition]
        order = np.argsort(transition <= 0, axis=-1, kind="stable")[..., :few]
        return [order.astype(np.int32), np.take_along_axis(transition, order, axis=-1)]

    def explore(self, weights: Iterable[Sequence[Array]]) -> None:
        """Collect columns to start from: each group's best responses to weights.   [groups][any][states, actions]"""
        self._respond([(g, asked) for g, of_group in enumerate(weights) for asked in of_group])

    def free(self) -> Relaxed:
        """Each group's best policy."""
        return self._free

    def highest_rates(self) -> Array:
        """What the lowest rate can be at most, among groups with demand.   [criteria]"""
        if any(((p.demand <= 0) & (p.supply > 0)).any() for p in self.parts):
            raise InvalidInputError(
                "A group can be given supply without demand, so that its rate can grow without bound. Use a notion "
                "whose supply never exceeds its demand."
            )
        rates = np.stack([ratio(p.supply, p.demand, otherwise=0.0).max(axis=(0, 1, 3)) for p in self.parts], axis=1)
        return highest_lowest_rates(rates, self.most_demand)

    def most_demand(self, weights: Array) -> Array:
        """Every group by itself."""
        asked = [(g, part.demand[..., 0] @ each[:, g]) for each in weights for g, part in enumerate(self.parts)]
        return self._respond(asked, keep=False).reshape(len(weights), -1).sum(axis=1)

    def relaxed(self, corners: Array, max_bias: float) -> Relaxed | None:
        """Add columns until the mixture over the corners [corners, criteria] meets its bound."""
        room = self.tolerance * max(1.0, abs(self.free().bound))
        bound, prices, count = np.inf, np.zeros((2, self.criteria, len(self.parts))), len(corners)
        for _ in range(MOST_ROUNDS):
            value, mixed, low, high = self._master(corners, max_bias)  # the prices belong to this round's bound
            asked = [
                (g, part.reward + _band(part, corner, max_bias, low[:, g], high[:, g]))
                for corner in corners
                for g, part in enumerate(self.parts)
            ]
            before = [len(columns) for columns in self.columns]
            proven = float(self._respond(asked).reshape(count, -1).sum(axis=1).max())
            if proven < bound:
                bound, prices = proven, np.stack([low, high])
            if bound < self._least:
                return None  # a bound below the least reward of all: no policy is within the limit here
            if bound <= value + room or before == [len(columns) for columns in self.columns]:
                break
        else:
            raise ElbertError(f"Column generation did not end within {MOST_ROUNDS} rounds; this is a mistake of ours.")
        kept = [np.flatnonzero(share > 1e-12) for share in mixed]
        chosen = tuple(tuple(columns[i] for i in keep) for columns, keep in zip(self.columns, kept, strict=True))
        shares = tuple(share[keep] / share[keep].sum() for share, keep in zip(mixed, kept, strict=True))
        totals = _totals(chosen, shares)
        price = float((high * totals.demand).sum())
        return Relaxed(bound, totals, price, prices, Mixture(chosen, shares))

    def _master(self, corners: Array, max_bias: float) -> tuple[float, list[Array], Array, Array]:
        """The best mixture of the columns over the corners: its reward less what the slack costs, and its parts.

        The parts are the shares of each group's columns, and the prices of both sides of the band [criteria, groups].

        Variables: the weight of every column of every group at every corner, the share theta of every corner, and a
        dear slack per row of the band, so that there is always a solution. At each corner the weights of every group
        add up to theta; the shares add up to 1.
        """
        from scipy.optimize import linprog

        groups, criteria, count = len(self.parts), self.criteria, len(corners)
        sizes = [len(columns) for columns in self.columns]
        gain = np.array([column.sums[0] for columns in self.columns for column in columns] * count)
        blocks = []  # [2, criteria, groups, columns]: a group's columns enter its own rows alone
        for corner, columns in itertools.product(corners, enumerate(self.columns)):
            g, of_group = columns
            supply, demand = np.split(np.array([column.sums[1:] for column in of_group]).T, 2)
            block = np.zeros((2, criteria, groups, len(of_group)))
            block[:, :, g] = band_rows(supply, demand, corner[:, None], max_bias)
            blocks.append(block)
        limits = np.concatenate(blocks, axis=-1).reshape(2 * criteria * groups, -1)
        slack = len(limits)
        thetas = slice(len(gain), len(gain) + count)
        equal = np.zeros((count * groups + 1, len(gain) + count + slack))
        equal[np.repeat(np.arange(count * groups), sizes * count), np.arange(len(gain))] = 1.0
        equal[:-1, thetas] = -np.repeat(np.eye(count), groups, axis=0)
        equal[-1, thetas] = 1.0
        right = np.zeros(len(equal))
        right[-1] = 1.0
        done = linprog(
            np.concatenate([-gain, np.zeros(count), np.full(slack, self.penalty)]),
            A_ub=np.concatenate([limits, np.zeros((slack, count)), -np.eye(slack)], axis=1),
            b_ub=np.zeros(slack),
            A_eq=equal,
            b_eq=right,
            method="highs-ds",
        )
        if done.status != 0:
            raise ElbertError(f"HiGHS did not solve the mixture of columns: {done.message}")
        weights = np.split(done.x[: len(gain)], np.cumsum(sizes * count)[:-1])  # by corner, then by group
        shares = [sum(weights[g::groups], np.zeros(size)) for g, size in enumerate(sizes)]
        low, high = np.maximum(-done.ineqlin.marginals, 0.0).reshape(2, criteria, groups)
        return -float(done.fun), shares, low, high

    def _respond(self, asked: Sequence[tuple[int, Array]], *, keep: bool = True) -> Array:
        """Values [asked] of the best responses to weights; their totals become columns."""
        import jax

        gain = np.stack([weights for _, weights in asked])
        parts = [self.parts[g] for g, _ in asked]
        signals = np.stack(
            [np.concatenate([p.reward[..., None], p.supply[..., 0], p.demand[..., 0]], axis=-1) for p in parts]
        )
        start, groups = np.stack([p.start for p in parts]), [g for g, _ in asked]
        with jax.enable_x64(True):
            ahead = _compiled()([table[groups] for table in self._moves], gain, signals, parts[0].horizon)
        value, sums = (
            np.einsum(f"bs{n},bs->b{n}", np.asarray(x), start) for x, n in zip(ahead, ("", "n"), strict=True)
        )
        if keep:
            for (g, weights), total in zip(asked, sums, strict=True):
                if not any(np.allclose(total, other.sums, rtol=1e-12, atol=0) for other in self.columns[g]):
                    self.columns[g].append(Column(total, weights))
        return value


def mixed_policy(program: ComponentsProgram, mixture: Mixture) -> Array:
    """pi_t(a | s) = sum_j w_j x_j,t(s, a) / sum_j w_j x_j,t(s): one policy per group with the mixture's totals.

    -> [groups, horizon, states, actions]. States that are never met follow the first column.
    """
    policies = []
    for part, columns, shares in zip(program.parts, mixture.columns, mixture.shares, strict=True):
        choice = part.best_response(np.stack([column.weights for column in columns])).choice
        each = np.eye(part.actions)[choice]  # [columns, horizon, states, actions]
        joint = np.sum([share * part.occupancy(policy) for share, policy in zip(shares, each, strict=True)], axis=0)
        policies.append(ratio(joint, joint.sum(axis=-1, keepdims=True), otherwise=each[0]))
    return np.stack(policies)


def _band(part: FiniteSDMDP, corner: Array, max_bias: float, low: Array, high: Array) -> Array:
    """low (S - rho D) + high ((rho + max_bias) D - S) of a step, over criteria.   -> [states, actions]"""
    short, over = band_rows(part.supply[..., 0], part.demand[..., 0], corner, max_bias)
    return -(low * short + high * over).sum(axis=-1)


def _totals(columns: Sequence[Sequence[Column]], shares: Sequence[Array]) -> PolicyTotals:
    """What a mixture of columns adds up to."""

    def mixed(place: slice) -> Array:
        parts = [s @ np.array([c.sums[place] for c in part]) for part, s in zip(columns, shares, strict=True)]
        return np.stack(parts, axis=1)

    reward = sum(float(s @ [c.sums[0] for c in part]) for part, s in zip(columns, shares, strict=True))
    half = len(columns[0][0].sums) // 2 + 1
    return PolicyTotals(reward, mixed(slice(1, half)), mixed(slice(half, None)))


@cache
def _compiled() -> Any:
    """Backward induction for a batch B: values [B, S], and totals of all signals [B, S, signals] on the way.

    A long horizon makes it too slow in plain Python; JAX steps it some twenty times as fast.
    """
    import jax
    import jax.numpy as jnp

    def expected(ahead: Any, moves: Any) -> Any:
        """E[ahead | state, action]   [B, S, n] -> [B, S, A, n]"""
        if len(moves) == 1:
            return jnp.einsum("bsap,bpn->bsan", moves[0], ahead)
        to, chance = moves
        return (jax.vmap(lambda values, places: values[places])(ahead, to) * chance[..., None]).sum(axis=-2)

    def run(moves: Any, gain: Any, signals: Any, horizon: Any) -> Any:
        everything = jnp.concatenate([gain[..., None], signals], axis=-1)  # [B, S, A, 1 + signals]

        def step(_: Any, ahead: Any) -> Any:
            later = everything + expected(ahead, moves)
            best = jnp.argmax(later[..., 0], axis=-1)
            return jnp.take_along_axis(later, best[:, :, None, None], axis=2)[:, :, 0]

        ahead = jax.lax.fori_loop(0, horizon, step, jnp.zeros_like(everything[:, :, 0]))
        return ahead[..., 0], ahead[..., 1:]

    return jax.jit(run)
