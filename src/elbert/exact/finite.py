"""Finite Supply-Demand MDPs: checked arrays, the totals of a policy, the best response to prices.

x_t(s, a) = P[s_t = s, a_t = a] is the occupancy of a policy. Reward, supply and demand are linear in it:

    R = sum_t sum_sa x_t(s, a) r(s, a),   S_kg = sum_t sum_sa x_t(s, a) supply(s, a, k, g),   D_kg likewise.

With a finite horizon the sums run over t = 0 .. horizon - 1; with a discount, step t weighs discount**t and
there is no end.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from elbert.checks import as_number, as_whole
from elbert.errors import InvalidInputError
from elbert.exact.band import Array
from elbert.fairness.arrays import ArrayLike, as_array, as_pair
from elbert.fairness.rates import ratio

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

        Without demand a group has no rate, NaN, if it receives nothing; if it does receive, the rate is infinite.
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
    """A Supply-Demand MDP with finitely many states and actions, given by its arrays.

    maze = FiniteSDMDP(transition, reward, supply, demand, start=start, horizon=20)
    best_policy(maze, max_bias=0.05)
    """

    transition: Array  # [states, actions, states]
    reward: Array  # [states, actions]
    supply: Array  # [states, actions, criteria, groups]
    demand: Array  # [states, actions, criteria, groups]
    start: Array  # [states]
    horizon: int | None
    discount: float | None

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
        """Check the arrays.

        Args:
            transition: P(next | state, action), [states, actions, states].
            reward: expected reward, [states, actions].
            supply: expected benefit given, [states, actions, groups] or [states, actions, criteria, groups].
            demand: expected benefit due, same shape.
            start: distribution of the first state, [states].
            horizon: steps of an episode; give this or a discount.
            discount: weight of a step relative to the one before it, at least 0 and less than 1.
        """
        moves, gains = as_array(transition, "transition"), as_array(reward, "reward")
        if moves.ndim != 3 or moves.shape[0] != moves.shape[2] or 0 in moves.shape:
            raise InvalidInputError(f"transition has shape {moves.shape}. Give P(next | state, action) as [S, A, S].")
        states, actions, _ = moves.shape
        if gains.shape != (states, actions) or not np.isfinite(gains).all():
            raise InvalidInputError(
                f"reward has shape {gains.shape}. Give one finite number per state and action: {(states, actions)}."
            )
        supplies, demands = as_pair(supply, demand)
        if supplies.ndim == 3:
            supplies, demands = supplies[:, :, None, :], demands[:, :, None, :]
        if supplies.ndim != 4 or supplies.shape[:2] != (states, actions) or 0 in supplies.shape:
            raise InvalidInputError(
                f"supply and demand have shape {supplies.shape}. Give [states, actions, groups] or [states, actions, "
                f"criteria, groups], with {states} states and {actions} actions as in transition."
            )
        first = as_array(start, "start")
        if first.shape != (states,):
            raise InvalidInputError(f"start has shape {first.shape}. Give one probability per state, {states} here.")
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
        arrays = {"transition": moves, "reward": gains, "supply": supplies, "demand": demands, "start": first}
        for name, value in {**arrays, "horizon": horizon, "discount": discount}.items():
            object.__setattr__(self, name, value)
        most = self.best_response(np.moveaxis(demands.reshape(states, actions, -1), -1, 0)).value
        if (most <= 0).any():
            k, g = divmod(int(np.flatnonzero(most <= 0)[0]), self.groups)
            raise InvalidInputError(
                f"Group {g} can never have demand (criterion {k}): it has no benefit rate under any policy. Leave the "
                "group out, or mend its demand."
            )

    @property
    def states(self) -> int:
        """The number of states."""
        return self.transition.shape[0]

    @property
    def actions(self) -> int:
        """The number of actions."""
        return self.transition.shape[1]

    @property
    def criteria(self) -> int:
        """The number of rates that are compared among groups."""
        return self.supply.shape[2]

    @property
    def groups(self) -> int:
        """The number of groups."""
        return self.supply.shape[3]

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
        if self.horizon is not None:
            return self._induction(gain)
        assert self.discount is not None
        value = np.zeros((len(gain), self.states))
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

    def _induction(self, gain: Array) -> "Response":
        assert self.horizon is not None
        value = np.zeros((len(gain), self.states))
        choice = np.empty((self.horizon, *value.shape), np.int32)
        flat = self.transition.reshape(-1, self.states).T
        for t in reversed(range(self.horizon)):
            ahead = gain + (value @ flat).reshape(gain.shape)
            choice[t] = ahead.argmax(axis=-1)
            value = ahead.max(axis=-1)
        return Response(value @ self.start, np.moveaxis(choice, 0, 1))


class Response(NamedTuple):
    """The best policies for some weights."""

    value: Array  # [B] never below the true maximum, up to rounding
    choice: Array  # [B, horizon, states], or [B, states] without a horizon


def _check_stochastic(values: Array, name: str) -> None:
    """Refuse rows that are not probabilities."""
    if not np.isfinite(values).all() or (values < 0).any():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(values) | (values < 0))[0])
        raise InvalidInputError(
            f"{name} is {values[where]:g} at index {where}. Probabilities are finite and not negative."
        )
    sums = values.sum(axis=-1)
    wrong = np.argwhere(np.abs(sums - 1) > STOCHASTIC_TOLERANCE)
    if len(wrong):
        where = tuple(int(i) for i in wrong[0])
        at = f" at index {where}" if where else ""
        raise InvalidInputError(
            f"{name} sums to {sums[where]:g}{at} along its last axis, not to 1 ({len(wrong)} rows are like this). Give "
            "probabilities; divide each row by its sum if they are counts."
        )
