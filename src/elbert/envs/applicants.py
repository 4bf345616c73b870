"""Applicants at a counter, one a step: what `lending` and `credit` have in common.

A step, with applicant (g, c) who would repay or not (y, drawn on arrival):
    reward      gain if accepted and y, -loss if accepted and not y, 0 if rejected
    dynamics    a world's own: whose scores a loan moves, and where to
    supply      what the notion counts as given; equal opportunity: 1[accepted and y] for group g
    demand      what the notion counts as due; equal opportunity: 1[y] for group g
    next        g ~ group_shares, c ~ mass[g], y ~ Bernoulli(repayment)
"""

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from elbert.envs.parameters import as_count
from elbert.envs.world import Means, TimeStep, World
from elbert.errors import InvalidInputError, unknown_name
from elbert.fairness.notions import Notion, get_notion

LABELS = ("all", "selective")
Array = np.ndarray[Any, Any]


class ApplicantState(NamedTuple):
    """The scores of the groups, the applicant at the counter, and the episode's account so far."""

    mass: jax.Array  # [groups, scores] how much of each group is at each score: shares (lending) or people (credit)
    group: jax.Array  # [] of the applicant
    score: jax.Array  # [] of the applicant, as a place among the scores
    repays: jax.Array  # [] bool: would repay, known to the simulator only
    cash: jax.Array  # []
    supply: jax.Array  # [criteria, groups] running totals of this episode
    demand: jax.Array  # [criteria, groups]
    seen: jax.Array  # [3, groups] applicants, loans and repaid loans of this episode: what a bank knows
    time: jax.Array  # []


class Population(NamedTuple):
    """What the equations of expected masses are made of; `elbert.exact.lending` solves them."""

    points: Array  # [scores] what each score is called, rising: thresholds are in these points
    gain: float  # reward of a loan that is repaid
    loss: float  # what a loan that is not repaid takes off the reward
    start: Array  # [groups, scores] expected share of a group at each score at reset; rows sum to 1
    repayment: Array  # [groups, scores]
    moved: Array  # [2, scores, scores] P(score after a loan | score before), for a default and for a repaid loan
    shift: Array  # [groups] share of the group that a loan moves
    exact: bool  # whether the simulated world follows the equations, rather than nearly so


class Applicants(World, static=("notion", "counted", "labels", "observe_rates")):
    """A world where action 1 accepts the applicant at the counter and 0 rejects."""

    group_shares: jax.Array  # [groups]
    horizon: jax.Array  # []
    notion: Notion
    counted: Notion | None
    labels: str
    observe_rates: bool
    draws: ClassVar[int] = 3  # uniform numbers of a step, of which the first three make the next applicant

    def __init__(
        self, *, horizon: Any, notion: str | Notion, counted: str | Notion | None, labels: str, observe_rates: bool
    ) -> None:
        """What the worlds check alike."""
        self.horizon = as_count(horizon, "horizon", "steps")
        self.notion = get_notion(notion)
        self.counted = None if counted is None else get_notion(counted)
        if labels not in LABELS:
            raise unknown_name("way to see labels", labels, LABELS)
        self.labels = labels
        if not isinstance(observe_rates, bool | np.bool_):
            raise InvalidInputError(f"observe_rates is {observe_rates!r}. Give True or False.")
        self.observe_rates = bool(observe_rates)

    @property
    @abstractmethod
    def scores(self) -> int:
        """How many scores there are."""

    @abstractmethod
    def population(self) -> Population:
        """The tables of the population equations."""

    @abstractmethod
    def _start(self, uniform: jax.Array) -> jax.Array:
        """The mass at reset.   [draws] -> [groups, scores]"""

    @abstractmethod
    def _applicant(self, state: ApplicantState) -> jax.Array:
        """Who stands at the counter, as the policy sees it, from 0 to 1.   -> [features]"""

    @property
    @abstractmethod
    def _features(self) -> int:
        """The length of `_applicant`."""

    @abstractmethod
    def _target(self, uniform: jax.Array, state: ApplicantState) -> tuple[jax.Array, jax.Array]:
        """The score that a loan leads to, and how much mass it moves there.   [draws] -> [], []"""

    @abstractmethod
    def _earned(self, repays: jax.Array) -> jax.Array:
        """The reward of a loan.   [] -> []"""

    @abstractmethod
    def _chance(self, group: jax.Array, score: jax.Array) -> jax.Array:
        """The probability to repay.   [], [] -> []"""

    def _cash(self) -> jax.Array:
        """What the till holds at reset.   []"""
        return jnp.zeros((), jnp.float32)

    def _is_ruined(self, cash: jax.Array) -> jax.Array:
        """Whether the episode ends for want of cash.   [] -> []"""
        return jnp.zeros_like(cash, bool)

    @property
    def benefit(self) -> Notion:
        """The notion that is counted by."""
        return self.counted or self.notion

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """The applicant and, if observed, the running rates: criterion by criterion, or those that a bank knows."""
        rates = [1.0 if criterion.bounded else np.inf for criterion in self.notion.criteria]
        rates = [1.0, 1.0] if self.labels == "selective" else rates
        ends = np.repeat(np.asarray(rates * self.observe_rates, np.float32), self.groups)
        high = np.concatenate([np.ones(self._features, np.float32), ends])
        return gymnasium.spaces.Box(np.zeros_like(high), high, dtype=np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        """0 rejects, 1 accepts."""
        return gymnasium.spaces.Discrete(2)

    def reset(self, key: jax.Array) -> tuple[ApplicantState, jax.Array]:
        """Initial scores, a first applicant, a full till."""
        uniform = jax.random.uniform(key, (self.draws,), jnp.float32)
        nothing = jnp.zeros((len(self.notion.criteria), self.groups), jnp.float32)
        seen, time = jnp.zeros((3, self.groups), jnp.float32), jnp.zeros((), jnp.int32)
        mass = self._start(uniform)
        state = ApplicantState(mass, *self._arrival(uniform, mass), self._cash(), nothing, nothing, seen, time)
        return state, self.observe(state)

    def step(self, key: jax.Array, state: ApplicantState, action: jax.Array) -> tuple[ApplicantState, TimeStep]:
        """Decide on the applicant at the counter; the next one arrives from the scores that this leaves."""
        uniform = jax.random.uniform(key, (self.draws,), jnp.float32)
        accepted, repays = jnp.asarray(action) == 1, state.repays
        reward = jnp.where(accepted, self._earned(repays), 0.0)
        target, moving = self._target(uniform, state)
        first = state.group * self.scores  # the place of the group's lowest score among all entries of mass
        here, there = (one_hot(first + score, state.mass.size) for score in (state.score, target))
        mass = state.mass + jnp.where(accepted, moving, 0.0) * (there - here).reshape(state.mass.shape)
        outcome = (part.astype(jnp.float32) for part in (accepted, repays))
        of_person = (state.group, *outcome)
        shown, (supply, demand) = (self._benefit(notion, *of_person) for notion in (self.notion, self.benefit))
        known = jnp.stack([jnp.ones_like(accepted), accepted, accepted & repays]).astype(jnp.float32)
        seen = state.seen + known[:, None] * one_hot(state.group, self.groups)[None]
        cash, time = state.cash + reward, state.time + 1
        account = (cash, state.supply + shown[0], state.demand + shown[1], seen, time)
        after = ApplicantState(mass, *self._arrival(uniform, mass), *account)
        terminated = self._is_ruined(cash)
        truncated = self.is_truncated(time, terminated)
        return after, TimeStep(self.observe(after), reward, supply, demand, terminated, truncated)

    def _benefit(self, notion: Notion, *of_person: Any) -> tuple[jax.Array, jax.Array]:
        """Supply and demand of a decision by a notion.   [criteria, groups] each"""
        supply, demand = notion.per_outcome(*of_person, groups=self.groups)
        return jnp.asarray(supply, jnp.float32), jnp.asarray(demand, jnp.float32)

    def means(self, state: ApplicantState, action: jax.Array) -> Means:
        """Over whether the applicant would repay, which nobody knows who decides."""
        accepted, chance = (jnp.asarray(action) == 1).astype(jnp.float32), self._chance(state.group, state.score)

        def mean(repaid: Any, not_repaid: Any) -> jax.Array:
            return jnp.asarray(chance * repaid + (1.0 - chance) * not_repaid, jnp.float32)

        reward = accepted * mean(*(self._earned(jnp.asarray(repays)) for repays in (True, False)))
        good, bad = (self.benefit.per_outcome(state.group, accepted, y, groups=self.groups) for y in (1.0, 0.0))
        return Means(reward, *(mean(*parts) for parts in zip(good, bad, strict=True)))

    def for_critic(self, state: ApplicantState) -> jax.Array:
        """What is observed, the scores of everybody, the cash and the time."""
        scalars = jnp.stack([state.cash, state.time.astype(jnp.float32)])
        return jnp.concatenate([self.observe(state), state.mass.reshape(-1), scalars])

    def observe(self, state: ApplicantState) -> jax.Array:
        """[features + rates * groups]: who stands at the counter, and the rates of this episode so far.

        The rates are those of the notion, which need the labels of the rejected as well. With selective labels they are
        the share of applicants who were accepted, and the share of accepted ones who repaid. A rate of nobody so far is
        0, as published.
        """
        applicant = self._applicant(state)
        if not self.observe_rates:
            return applicant
        given, due = (state.supply, state.demand) if self.labels == "all" else (state.seen[1:], state.seen[:2])
        rates = jnp.where(due > 0, given / jnp.where(due > 0, due, 1.0), 0.0)
        return jnp.concatenate([applicant, rates.reshape(-1)])

    def _arrival(self, uniform: jax.Array, mass: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """g ~ group_shares, c ~ mass[g], y ~ Bernoulli(repayment)."""
        group = _drawn(self.group_shares, uniform[0])
        score = _drawn(jnp.sum(mass * one_hot(group, self.groups)[:, None], axis=0), uniform[1])
        return group, score, uniform[2] < self._chance(group, score)


def one_hot(index: jax.Array, length: int) -> jax.Array:
    """1 at the index, 0 elsewhere.   [] -> [length]"""
    return (jnp.arange(length) == index).astype(jnp.float32)


def _drawn(weights: jax.Array, uniform: jax.Array) -> jax.Array:
    """The smallest i with w_0 + ... + w_i > u * sum(w): an index drawn by weight. [n] -> []

    Weighing by the sum keeps rounding from ever drawing an index of weight 0 at the end.
    """
    upto = jnp.cumsum(weights)
    return jnp.sum(upto <= uniform * upto[-1], dtype=jnp.int32)
