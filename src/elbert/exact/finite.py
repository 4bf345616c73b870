"""Finite Supply-Demand MDPs: checked arrays, the totals of a policy, the best response to prices.

x_t(s, a) = P[s_t = s, a_t = a] is the occupancy of a policy. Reward, supply and demand are linear in it:

    R = sum_t sum_sa x_t(s, a) r(s, a),   S_kg = sum_t sum_sa x_t(s, a) supply(s, a, k, g),   D_kg likewise.

With a finite horizon the sums run over t = 0 .. horizon - 1; with a discount, step t weighs discount**t and
there is no end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from elbert.checks import as_number, as_whole
from elbert.errors import InvalidInputError
from elbert.fairness.arrays import ArrayLike, as_array, as_pair
from elbert.fairness.rates import ratio

Array: TypeAlias = np.ndarray[Any, Any]

SILENT = 1e-9
"""The part of its largest demand below which a group's least demand counts as none, as rounding leaves it."""
STOCHASTIC_TOLERANCE = 1e-8
"""How far the sum of a row of probabilities may be from 1 because of rounding."""


class PolicyTotals(NamedTuple):
    """What a policy adds up to over an episode."""

    reward: float
    supply: Array  # [criteria, groups]
    demand: Array  # [criteria, groups]

    @property
    def rates(self) -> Array:
        """z_kg = S_kg / D_kg.   [criteria, groups]

        A group without demand has no rate, NaN; if it receives all the same, its rate is infinite.
        """
        return ratio(self.supply, self.demand, otherwise=np.where(self.supply > 0, np.inf, np.nan))

    @property
    def spreads(self) -> Array:
        """max_g z_kg - min_g z_kg over the groups that have a rate; 0 where fewer than two have.   [criteria]

        Where a group receives without any demand the spread is infinite, whatever the others receive.
        """
        rates = self.rates
        finite = np.isfinite(rates)
        highest = np.max(rates, axis=-1, initial=-np.inf, where=finite)
        lowest = np.min(rates, axis=-1, initial=np.inf, where=finite)
        spreads = np.where(finite.sum(axis=-1) > 1, highest - lowest, 0.0)
        return np.where(np.isinf(rates).any(axis=-1) & (rates.shape[-1] > 1), np.inf, spreads)

    @property
    def bias(self) -> float:
        """max_k (max_g z_kg - min_g z_kg), the largest of the spreads."""
        return float(self.spreads.max())


@dataclass(frozen=True, init=False, eq=False)
class FiniteSDMDP:
    """A Supply-Demand MDP with finitely many states and actions, given by its arrays."""

    transition: Array  # [states, actions, states] P(next | state, action)
    reward: Array  # [states, actions] expected reward
    supply: Array  # [states, actions, criteria, groups] expected benefit given
    demand: Array  # [states, actions, criteria, groups] expected benefit due
    start: Array  # [states] distribution of the first state
    horizon: int | None  # steps of an episode
    discount: float | None  # weight of a step relative to the one before it, at least 0 and less than 1
    states: int
    actions: int
    criteria: int  # rates that are compared among groups
    groups: int

    def __init__(
        self,
        transition: ArrayLike,
        reward: ArrayLike,
        supply: ArrayLike,
        demand: ArrayLike,
        *,
        start: ArrayLike,
        horizon: int | None = None,
        discount: float | None = None,
    ) -> None:
        """The arrays, with or without an axis of criteria, and either a horizon or a discount."""
        moves, gains = as_array(transition, "transition"), as_array(reward, "reward")
        if moves.ndim != 3 or moves.shape[0] != moves.shape[2] or 0 in moves.shape:
            raise InvalidInputError(f"transition has shape {moves.shape}. Give P(next | state, action) as [S, A, S].")
        states, actions, _ = moves.shape
        first = as_array(start, "start")
        for name, array, shape in (("reward", gains, (states, actions)), ("start", first, (states,))):
            if array.shape != shape or not np.isfinite(array).all():
                raise InvalidInputError(f"{name} has shape {array.shape}. Give finite numbers of shape {shape}.")
        supplies, demands = as_pair(supply, demand)
        if supplies.ndim == 3:
            supplies, demands = supplies[:, :, None, :], demands[:, :, None, :]
        if supplies.ndim != 4 or supplies.shape[:2] != (states, actions) or 0 in supplies.shape:
            raise InvalidInputError(
                f"supply and demand have shape {supplies.shape}. Give [states, actions, groups] or [states, actions, "
                f"criteria, groups], with {states} states and {actions} actions as in transition."
            )
        _check_stochastic(moves, "transition")
        _check_stochastic(first, "start")
        if (horizon is None) == (discount is None):
            raise InvalidInputError(
                f"horizon is {horizon} and discount {discount}. Give one of them: steps of an episode, or a discount "
                "below 1 for an episode without end."
            )
        if horizon is not None:
            horizon = as_whole(horizon, "horizon", "a whole number of steps, at least 1", low=1)
        if discount is not None:
            below_one = float(np.nextafter(1.0, 0.0))
            discount = float(as_number(discount, "discount", "a number from 0 to below 1", low=0.0, high=below_one))
        self.__dict__.update(transition=moves, reward=gains, supply=supplies, demand=demands, start=first)
        self.__dict__.update(horizon=horizon, discount=discount, states=states, actions=actions)
        self.__dict__.update(criteria=supplies.shape[2], groups=supplies.shape[3])
        most = self.best_response(np.moveaxis(demands.reshape(states, actions, -1), -1, 0)).value
        if (most <= 0).any():
            k, g = divmod(int(np.flatnonzero(most <= 0)[0]), self.groups)
            raise InvalidInputError(
                f"Group {g} can never have demand (criterion {k}): it has no benefit rate under any policy. Leave the "
                "group out, or mend its demand."
            )

    def totals(self, policy: ArrayLike) -> PolicyTotals:
        """R, S and D of a policy.   [states, actions], or [horizon, states, actions] if it depends on the time"""
        joint = self.occupancy(policy).reshape(-1, self.states, self.actions).sum(axis=0)
        return PolicyTotals(
            float((joint * self.reward).sum()),
            np.tensordot(joint, self.supply, 2),
            np.tensordot(joint, self.demand, 2),
        )

    def occupancy(self, policy: ArrayLike) -> Array:
        """x_t(s, a) = P[s_t = s] policy_t(a | s).   -> [horizon, S, A], or [S, A] (discounted) without a horizon"""
        chances = as_array(policy, "policy")
        shape = (self.states, self.actions)
        if chances.shape != shape and (self.horizon is None or chances.shape != (self.horizon, *shape)):
            raise InvalidInputError(f"policy has shape {chances.shape}. Give probabilities of actions, {shape} here.")
        _check_stochastic(chances, "policy")
        if self.horizon is None:
            assert self.discount is not None
            chain = np.einsum("sa,sap->sp", chances, self.transition)
            visits = np.linalg.solve(np.eye(self.states) - self.discount * chain.T, self.start)
            return visits[:, None] * chances
        every = np.broadcast_to(chances, (self.horizon, *shape))
        visits, joint = self.start, np.empty(every.shape)
        for t in range(self.horizon):
            joint[t] = visits[:, None] * every[t]
            visits = np.tensordot(joint[t], self.transition, 2)
        return joint

    def best_response(self, weights: ArrayLike) -> "Response":
        """max over policies of sum_t w(s_t, a_t), by backward induction.   [B, S, A] -> B responses

        Without a horizon, value iteration ends where its residual bounds the value from above to 1e-10 of its size:
        the value returned is never below the true one.
        """
        gain = np.asarray(weights, float)
        value = np.zeros((len(gain), self.states))
        if self.horizon is not None:
            choice = np.empty((self.horizon, *value.shape), np.int32)
            flat = self.transition.reshape(-1, self.states).T
            for t in reversed(range(self.horizon)):
                ahead = gain + (value @ flat).reshape(gain.shape)
                choice[t] = ahead.argmax(axis=-1)
                value = ahead.max(axis=-1)
            return Response(value @ self.start, np.moveaxis(choice, 0, 1))
        assert self.discount is not None
        size = max(1.0, float(np.abs(gain).max())) / (1 - self.discount)
        while True:
            ahead = gain + self.discount * np.einsum("sap,bp->bsa", self.transition, value)
            best = ahead.max(axis=-1)
            # v* <= v + max(T v - v) / (1 - discount), in every state
            above = (best - value).max(axis=-1) / (1 - self.discount)
            below = (best - value).min(axis=-1) / (1 - self.discount)
            if (above - below <= 1e-10 * size).all():
                return Response((value + above[:, None]) @ self.start, ahead.argmax(axis=-1))
            value = best


class Response(NamedTuple):
    """The best policies for some weights."""

    value: Array  # [B] never below the true maximum, up to rounding
    choice: Array  # [B, horizon, states], or [B, states] without a horizon


def as_written(values: Any) -> Array:
    """float64 from float32 as people wrote them: 0.1 rather than 0.10000000149."""
    return np.round(np.asarray(values, float), 7)


def band_rows(supply: Array, demand: Array, rho: Any, max_bias: float) -> tuple[Array, Array]:
    """rho D - S and S - (rho + max_bias) D: neither may be positive. Shapes broadcast."""
    return rho * demand - supply, supply - (rho + max_bias) * demand


def highest_lowest_rates(rates: Array, most_demand: Callable[[Array], Array]) -> Array:
    """What the lowest rate can be at most, among groups with demand.   [criteria, groups] -> [criteria]

    A group to which every policy gives demand has a rate under every policy, and the lowest is not above it. Others can
    be without a rate, and then the lowest rate is that of any group. `rates` are the highest that a policy can give
    each group, `most_demand` is that of a `Program`.
    """
    each = np.eye(rates.size).reshape(-1, *rates.shape)
    most, least = most_demand(each), -most_demand(-each)
    always = (least > SILENT * most).reshape(rates.shape)
    bounded = np.min(rates, axis=1, initial=np.inf, where=always)
    return np.where(always.any(axis=1), bounded, rates.max(axis=1))


def _check_stochastic(values: Array, name: str) -> None:
    """Refuse rows that are not probabilities."""
    sums = np.where((np.isfinite(values) & (values >= 0)).all(axis=-1), values.sum(axis=-1), np.nan)
    wrong = np.argwhere(~(np.abs(sums - 1) <= STOCHASTIC_TOLERANCE))
    if len(wrong):
        where = tuple(int(i) for i in wrong[0])
        at = f" at index {where}" if where else ""
        what = "is negative or not finite" if np.isnan(sums[where]) else f"sums to {sums[where]:g}, not to 1,"
        raise InvalidInputError(
            f"{name} {what}{at} along its last axis ({len(wrong)} rows are like this). Give probabilities; divide each "
            "row by its sum if they are counts."
        )
