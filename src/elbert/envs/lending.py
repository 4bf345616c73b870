"""Lending: a bank decides on one applicant at a time, and every loan moves the scores of the applicant's group.

A step, with applicant (g, c) who would repay or not (y, drawn on arrival):
    reward      +loan * interest if accepted and y, -loan if accepted and not y, 0 if rejected
    dynamics    if accepted: min(shift, mass[g, c]) of group g moves from score c to c + 1 if y, to c - 1 if not
    supply      what the notion counts as given; equal opportunity: 1[accepted and y] for group g
    demand      what the notion counts as due; equal opportunity: 1[y] for group g
    next        g ~ group_shares, c ~ mass[g], y ~ Bernoulli(repayment[c])
"""

from typing import Annotated, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from elbert.envs.parameters import Number, Numbers, as_count, as_distributions, as_float, as_row
from elbert.envs.world import Means, TimeStep, World
from elbert.errors import InvalidInputError
from elbert.fairness.arrays import has_values
from elbert.fairness.notions import Notion, get_notion

LARGEST_CASH = 2**24


class LendingState(NamedTuple):
    """The scores of the groups, the applicant at the counter, and the episode's account so far."""

    mass: jax.Array  # [groups, scores] share of each group at each score; rows sum to 1
    group: jax.Array  # [] of the applicant
    score: jax.Array  # [] of the applicant
    repays: jax.Array  # [] bool: would repay, known to the simulator only
    cash: jax.Array  # []
    supply: jax.Array  # [criteria, groups] running totals of this episode
    demand: jax.Array  # [criteria, groups]
    time: jax.Array  # []


class Lending(World, static=("notion", "observe_rates")):
    """The lending world. Action 1 accepts the applicant, 0 rejects."""

    group_shares: jax.Array  # [groups]
    initial_scores: jax.Array  # [groups, scores]
    repayment: jax.Array  # [scores]
    shift: jax.Array  # []
    loan: jax.Array  # []
    interest: jax.Array  # []
    initial_cash: jax.Array  # []
    horizon: jax.Array  # []
    notion: Notion
    observe_rates: bool

    def __init__(
        self,
        *,
        group_shares: Annotated[Numbers, "probability that an applicant is of each group"] = (0.5, 0.5),
        initial_scores: Annotated[Numbers, "score distribution of each group at reset, one row per group"] = (
            (0.0, 0.1, 0.1, 0.2, 0.3, 0.3, 0.0),
            (0.1, 0.1, 0.2, 0.3, 0.3, 0.0, 0.0),
        ),
        repayment: Annotated[Numbers, "probability to repay, by score"] = (0.1, 0.2, 0.45, 0.6, 0.65, 0.7, 0.7),
        shift: Annotated[Number, "share of a group that changes its score after a loan"] = 0.01,
        loan: Annotated[Number, "what the bank lends"] = 1.0,
        interest: Annotated[Number, "what it earns on a repaid loan, per unit lent"] = 1.0,
        initial_cash: Annotated[Number, "the bank's cash at reset; below one loan the episode terminates"] = 10_000.0,
        horizon: Annotated[Number, "applicants per episode (the paper evaluates over 10 000)"] = 2048,
        notion: Annotated[str | Notion, "what counts as a benefit given and due"] = "equal-opportunity",
        observe_rates: Annotated[
            bool, "observe the groups' running benefit rates (needs labels of the rejected)"
        ] = True,
    ) -> None:
        """The published world by default; `elbert envs lending` explains every parameter."""
        need = "one row of probabilities from 0 to 1 per group, each summing to 1"
        self.initial_scores = as_distributions(initial_scores, "initial_scores", ndim=2, need=need)
        groups, scores = self.initial_scores.shape[-2:]
        need = "one probability from 0 to 1 per group, summing to 1"
        self.group_shares = as_distributions(group_shares, "group_shares", ndim=1, need=need)
        if self.group_shares.shape[0] != groups:
            raise InvalidInputError(
                f"group_shares is for {self.group_shares.shape[0]} groups, initial_scores for {groups}. "
                "Give both for the same groups."
            )
        need = f"one probability from 0 to 1 per score, {scores} here as in initial_scores"
        self.repayment = as_row(repayment, "repayment", length=scores, low=0, high=1, need=need)
        self.shift = as_float(shift, "shift", low=0, high=1, need="a share, from 0 to 1")
        self.loan = as_float(loan, "loan", low=0, need="an amount, more than 0")
        self.interest = as_float(interest, "interest", low=0, need="an amount per unit lent, 0 or more")
        self.initial_cash = as_float(initial_cash, "initial_cash", low=0, need="an amount of at least one loan")
        given = has_values(self.loan, self.initial_cash)
        if given and not 1 <= self.initial_cash / max(self.loan, 1e-9) <= LARGEST_CASH:
            raise InvalidInputError(
                f"initial_cash is {float(self.initial_cash):g} and a loan {float(self.loan):g}. Give cash for 1 to "
                f"{LARGEST_CASH} loans, within which float32 counts them one by one."
            )
        self.horizon = as_count(horizon, "horizon", "steps")
        self.notion = get_notion(notion)
        if not isinstance(observe_rates, bool | np.bool_):
            raise InvalidInputError(f"observe_rates is {observe_rates!r}. Give True or False.")
        self.observe_rates = bool(observe_rates)

    @property
    def groups(self) -> int:
        """Rows of `initial_scores`."""
        return self.initial_scores.shape[-2]

    @property
    def scores(self) -> int:
        """Columns of `initial_scores`."""
        return self.initial_scores.shape[-1]

    @property
    def benefit(self) -> Notion:
        """The notion given."""
        return self.notion

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """One-hot score, one-hot group and, if observed, the running rates criterion by criterion."""
        ones = np.ones(self.scores + self.groups, np.float32)
        rates = [1.0 if criterion.bounded else np.inf for criterion in self.notion.criteria] * self.observe_rates
        high = np.concatenate([ones, np.repeat(np.asarray(rates, np.float32), self.groups)])
        return gymnasium.spaces.Box(np.zeros_like(high), high, dtype=np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        """0 rejects, 1 accepts."""
        return gymnasium.spaces.Discrete(2)

    def reset(self, key: jax.Array) -> tuple[LendingState, jax.Array]:
        """Initial scores, a first applicant, a full till."""
        nothing = jnp.zeros((len(self.notion.criteria), self.groups), jnp.float32)
        mass, cash, time = jnp.asarray(self.initial_scores), jnp.asarray(self.initial_cash), jnp.zeros((), jnp.int32)
        group, score, repays = self._arrival(key, mass)
        state = LendingState(mass, group, score, repays, cash, nothing, nothing, time)
        return state, self.observe(state)

    def step(self, key: jax.Array, state: LendingState, action: jax.Array) -> tuple[LendingState, TimeStep]:
        """Decide on the applicant at the counter; the next one arrives from the scores that this leaves."""
        accepted, repays = jnp.asarray(action) == 1, state.repays
        reward = jnp.where(accepted, self.loan * jnp.where(repays, self.interest, -1.0), 0.0)
        mass = self._moved(state, accepted)
        outcome = (part.astype(jnp.float32) for part in (accepted, repays))
        benefit = self.notion.per_outcome(state.group, *outcome, groups=self.groups)
        supply, demand = (jnp.asarray(part, jnp.float32) for part in benefit)
        group, score, repays = self._arrival(key, mass)
        cash, time = state.cash + reward, state.time + 1
        after = LendingState(mass, group, score, repays, cash, state.supply + supply, state.demand + demand, time)
        terminated = cash < self.loan
        truncated = self.is_truncated(time, terminated)
        return after, TimeStep(self.observe(after), reward, supply, demand, terminated, truncated)

    def means(self, state: LendingState, action: jax.Array) -> Means:
        """Over whether the applicant would repay, which nobody knows who decides."""
        accepted = (jnp.asarray(action) == 1).astype(jnp.float32)
        chance = jnp.sum(self.repayment * self._one_hot(state.score, self.scores))
        reward = accepted * self.loan * (chance * self.interest - (1.0 - chance))
        per_outcome = (self.notion.per_outcome(state.group, accepted, y, groups=self.groups) for y in (1.0, 0.0))
        good, bad = ([jnp.asarray(part, jnp.float32) for part in benefit] for benefit in per_outcome)
        supply, demand = (chance * yes + (1.0 - chance) * no for yes, no in zip(good, bad, strict=True))
        return Means(reward, supply, demand)

    def for_critic(self, state: LendingState) -> jax.Array:
        """What is observed, the scores of everybody, the cash and the time."""
        scalars = jnp.stack([state.cash, state.time.astype(jnp.float32)])
        return jnp.concatenate([self.observe(state), state.mass.reshape(-1), scalars])

    def observe(self, state: LendingState) -> jax.Array:
        """[scores + groups + criteria * groups]: who stands at the counter, and the rates of this episode so far.

        A group without demand so far shows the rate 0, as published.
        """
        applicant = jnp.concatenate([self._one_hot(state.score, self.scores), self._one_hot(state.group, self.groups)])
        if not self.observe_rates:
            return applicant
        rates = jnp.where(state.demand > 0, state.supply / jnp.where(state.demand > 0, state.demand, 1.0), 0.0)
        return jnp.concatenate([applicant, rates.reshape(-1)])

    def _moved(self, state: LendingState, accepted: jax.Array) -> jax.Array:
        """The scores after the decision: part of the group moves one up or down, or stays at the ends."""
        target = jnp.clip(state.score + jnp.where(state.repays, 1, -1), 0, self.scores - 1)
        moving = jnp.where(accepted, jnp.minimum(self.shift, state.mass[state.group, state.score]), 0.0)
        first = state.group * self.scores  # the place of the group's lowest score among all entries of mass
        here, there = (self._one_hot(first + score, state.mass.size) for score in (state.score, target))
        return state.mass + moving * (there - here).reshape(state.mass.shape)

    def _arrival(self, key: jax.Array, mass: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """g ~ group_shares, c ~ mass[g], y ~ Bernoulli(repayment[c])."""
        for_group, for_score, for_repayment = jax.random.uniform(key, (3,), jnp.float32)
        group = _drawn(self.group_shares, for_group)
        score = _drawn(jnp.sum(mass * self._one_hot(group, self.groups)[:, None], axis=0), for_score)
        return group, score, for_repayment < jnp.sum(self.repayment * self._one_hot(score, self.scores))

    @staticmethod
    def _one_hot(index: jax.Array, length: int) -> jax.Array:
        return (jnp.arange(length) == index).astype(jnp.float32)


def _drawn(weights: jax.Array, uniform: jax.Array) -> jax.Array:
    """The smallest i with w_0 + ... + w_i > u * sum(w): an index drawn by weight. [n] -> []

    Weighing by the sum keeps rounding from ever drawing an index of weight 0 at the end.
    """
    upto = jnp.cumsum(weights)
    return jnp.sum(upto <= uniform * upto[-1], dtype=jnp.int32)
