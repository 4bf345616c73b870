"""Waiting list: organs for four blood groups, which class comes first in a week, and who dies while waiting.

A step is a week. With w_g people of blood group g on the list and a score a_g for each group:
    organs      y_d ~ Poisson(organs * donors_d / 52) of donors' group d; first AB, then A, then B, then O
    transplants an organ goes to the waiting group of the highest score among those that it fits: its own, and those of
                a score of 0 or more that may have it (O fits all, A and B fit AB too); where nobody waits, it is lost
    leaving     everyone still waiting dies or withdraws with 1 - exp(-(deaths_g + withdrawals_g) / 52): which of both,
                in proportion to deaths_g and withdrawals_g
    arrivals    Poisson(arrivals_g / 52) join the list
    reward      minus the deaths of the week
    supply      transplants; demand: people listed (at first, those on the initial list too), or w_g / 52 person-years
The action is a row of scores, clipped to [-3, 3]. Only their order and their signs count; ties go to the first group.
"""

from typing import Annotated, Literal, NamedTuple, get_args

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from elbert.envs.binomial import binomial
from elbert.envs.parameters import Number, Numbers, as_count, as_distributions, as_float, as_row
from elbert.envs.parts import Parts
from elbert.envs.poisson import poisson
from elbert.envs.world import TimeStep, World
from elbert.errors import InvalidInputError, unknown_name
from elbert.fairness.arrays import has_values
from elbert.fairness.notions import Criterion, Notion

BLOOD_GROUPS = ("O", "A", "B", "AB")
FITS = np.asarray([[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1]], np.float32)
"""[donor, recipient] 1 where an organ can be transplanted."""
GIVEN_FIRST = (3, 1, 2, 0)
"""Donors' groups in the order of their organs in a week: those that fit few come before those that fit all."""
DONORS = (0.42, 0.40, 0.13, 0.05)
WEEKS = 52
SCORE_LIMIT = 3.0
LARGEST_COUNT = 2**23
"""Counts are float32, exact up to 2**24, which a total of this expectation does not reach."""

Demand = Literal["people", "person-years", "both"]


def _transplants_per(what: str) -> Criterion:
    name = f"transplants per {what}"
    return Criterion(name, supply=lambda given, _: given, demand=lambda _, due: due, bounded=False)


_PER_PERSON, _PER_YEAR = _transplants_per("person listed"), _transplants_per("person-year")
NOTIONS_OF_DEMAND: dict[str, Notion] = {
    "people": Notion("transplants-per-person", _PER_PERSON, needs_qualified=True),
    "person-years": Notion("transplants-per-year", _PER_YEAR, needs_qualified=True),
    "both": Notion("transplants-per-person-and-year", _PER_PERSON, _PER_YEAR, needs_qualified=True),
}
"""What `demand` means. In a week transplants can exceed the people listed in it, so no rate counts as bounded."""


class WaitingListState(NamedTuple):
    """The list, the totals of the episode, and what happened in the last week."""

    waiting: jax.Array  # [groups] people on the list
    listed: jax.Array  # [groups] total, with the initial list
    transplants: jax.Array  # [groups] total
    person_weeks: jax.Array  # [groups] total
    organs: jax.Array  # [donor groups] of the last week
    given: jax.Array  # [donor groups, groups] of them
    deaths: jax.Array  # [groups] of the last week
    withdrawals: jax.Array  # [groups] of the last week
    arrivals: jax.Array  # [groups] of the last week
    time: jax.Array  # []


class WaitingList(World, static=("demand", "counted")):
    """The waiting-list world. The action is a score for each blood group; `allocate` gives the organs of a week."""

    group_names = BLOOD_GROUPS

    arrivals: jax.Array  # [groups]
    deaths: jax.Array  # [groups]
    withdrawals: jax.Array  # [groups]
    organs: jax.Array  # []
    donors: jax.Array  # [groups]
    initial_list: jax.Array  # [groups]
    horizon: jax.Array  # []
    demand: Demand
    counted: Demand  # what `benefit` counts; `demand` is what is observed

    def __init__(
        self,
        *,
        arrivals: Annotated[Numbers, "people listed per year, by blood group O, A, B, AB"] = (34.6, 32.5, 10.3, 4.1),
        deaths: Annotated[Numbers, "deaths per person and year on the list"] = (0.124, 0.147, 0.165, 0.191),
        withdrawals: Annotated[Numbers, "withdrawals per person and year on the list"] = (0.078, 0.056, 0.099, 0.191),
        organs: Annotated[Number, "organs per year"] = 63.6,
        donors: Annotated[Numbers, "share of the organs by donors' blood group (ours)"] = DONORS,
        initial_list: Annotated[Numbers, "people on the list at reset, whole numbers"] = (26, 14, 6, 2),
        demand: Annotated[Demand, "due: people listed, person-years waited, or both"] = "people",
        counted: Annotated[Demand | None, "due in results, if it is not what is observed; as demand"] = None,
        horizon: Annotated[Number, "weeks per episode"] = 520,
    ) -> None:
        """Rates of 815 people listed for a liver by default; `elbert envs waiting-list` explains every parameter."""
        groups = len(BLOOD_GROUPS)
        need = f"one number for all, or one for each of {', '.join(BLOOD_GROUPS)}, 0 or more"
        self.arrivals = as_row(arrivals, "arrivals", length=groups, low=0, need=need)
        self.deaths = as_row(deaths, "deaths", length=groups, low=0, need=need)
        self.withdrawals = as_row(withdrawals, "withdrawals", length=groups, low=0, need=need)
        self.organs = as_float(organs, "organs", low=0, need="organs per year, 0 or more")
        need = f"one share for each of {', '.join(BLOOD_GROUPS)}, summing to 1"
        self.donors = as_distributions(donors, "donors", ndim=1, need=need)
        if self.donors.shape[0] != groups:
            raise InvalidInputError(f"donors has {self.donors.shape[0]} entries. Give {need}.")
        need = f"whole numbers of people, one for all or one for each of {', '.join(BLOOD_GROUPS)}, 0 or more"
        self.initial_list = as_row(initial_list, "initial_list", length=groups, low=0, need=need)
        if has_values(self.initial_list) and (self.initial_list != np.round(self.initial_list)).any():
            raise InvalidInputError(f"initial_list is {np.asarray(self.initial_list).tolist()}. Give {need}.")
        self.horizon = as_count(horizon, "horizon", "weeks")
        for kind in (demand, demand if counted is None else counted):
            if kind not in get_args(Demand):
                raise unknown_name("demand", kind, get_args(Demand))
        self.demand, self.counted = demand, demand if counted is None else counted
        if has_values(self.initial_list, self.arrivals, self.organs, self.horizon):
            years = float(self.horizon) / WEEKS
            most = max(float(np.max(self.initial_list + self.arrivals * years)), float(self.organs) * years)
            if most > LARGEST_COUNT:
                raise InvalidInputError(
                    f"Within the horizon of {int(self.horizon)} weeks, {most:g} people or organs would come. Counts "
                    f"are exact up to {LARGEST_COUNT}: lower initial_list, arrivals, organs or horizon."
                )

    @property
    def groups(self) -> int:
        """The blood groups."""
        return len(BLOOD_GROUPS)

    @property
    def benefit(self) -> Notion:
        """Transplants over people listed, over person-years waited, or both."""
        return NOTIONS_OF_DEMAND[self.counted]

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """People waiting, and the running rates criterion by criterion."""
        size = self.groups * (1 + len(NOTIONS_OF_DEMAND[self.demand].criteria))
        return gymnasium.spaces.Box(0.0, np.inf, (size,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        """One score per blood group; what lies outside is clipped."""
        return gymnasium.spaces.Box(-SCORE_LIMIT, SCORE_LIMIT, (self.groups,), np.float32)

    @property
    def parts(self) -> Parts:
        """The blood groups, each with its list and its running rates."""
        observed = np.arange(self.observation_space.shape[0]).reshape(-1, self.groups).T
        fits = [FITS @ np.asarray(self.donors), FITS.T @ np.asarray(self.donors)]
        known = np.stack([*(np.asarray(x) for x in (self.arrivals, self.deaths, self.withdrawals)), *fits], axis=1)
        return Parts(observed, features=known, group=np.arange(self.groups))

    def reset(self, key: jax.Array) -> tuple[WaitingListState, jax.Array]:
        """The initial list. Nothing here is random; the key is taken for the contract's sake."""
        del key
        first, none = jnp.asarray(self.initial_list), jnp.zeros(self.groups, jnp.float32)
        given = jnp.zeros((self.groups, self.groups), jnp.float32)
        time = jnp.zeros((), jnp.int32)
        state = WaitingListState(first, first, none, none, none, given, none, none, none, time)
        return state, self.observe(state)

    def step(self, key: jax.Array, state: WaitingListState, action: jax.Array) -> tuple[WaitingListState, TimeStep]:
        """Organs are given, some of those who still wait die or withdraw, and others are listed."""
        for_coming, for_deaths, for_withdrawals = jax.random.split(key, 3)
        coming = jnp.stack([self.organs * self.donors, self.arrivals]) / WEEKS
        organs, arrivals = poisson(for_coming, coming)
        given = self.allocate(action, state.waiting, organs)
        transplants = jnp.sum(given, axis=0)
        remaining = state.waiting - transplants
        die, withdraw = self.risks()
        deaths = binomial(for_deaths, remaining, die)
        withdrawals = binomial(for_withdrawals, remaining - deaths, withdraw / jnp.where(die < 1, 1.0 - die, 1.0))
        after = WaitingListState(
            waiting=remaining - deaths - withdrawals + arrivals,
            listed=state.listed + arrivals,
            transplants=state.transplants + transplants,
            person_weeks=state.person_weeks + state.waiting,
            organs=organs,
            given=given,
            deaths=deaths,
            withdrawals=withdrawals,
            arrivals=arrivals,
            time=state.time + 1,
        )
        people = arrivals + jnp.where(state.time == 0, state.listed, 0.0)
        demand = _chosen(self.counted, people, state.waiting / WEEKS)
        supply = jnp.broadcast_to(transplants, demand.shape)
        never, truncated = jnp.zeros((), bool), self.is_truncated(after.time)
        return after, TimeStep(self.observe(after), -jnp.sum(deaths), supply, demand, never, truncated)

    def observe(self, state: WaitingListState) -> jax.Array:
        """[groups * (1 + criteria)]: people waiting, and transplants over demand so far; 0 without demand."""
        demand = _chosen(self.demand, state.listed, state.person_weeks / WEEKS)
        rates = jnp.where(demand > 0, state.transplants[None] / jnp.where(demand > 0, demand, 1.0), 0.0)
        return jnp.concatenate([state.waiting, rates.reshape(-1)])

    def for_critic(self, state: WaitingListState) -> jax.Array:
        """The list, the totals that the running rates are made of, and the time."""
        totals = (state.waiting, state.listed, state.transplants, state.person_weeks / WEEKS)
        return jnp.concatenate([*totals, state.time[None].astype(jnp.float32)])

    def allocate(self, action: jax.Array, waiting: jax.Array, organs: jax.Array) -> jax.Array:
        """Who receives the organs of a week.   [groups], [groups], [donor groups] -> [donor groups, groups]"""
        score = jnp.clip(jnp.asarray(action, jnp.float32), -SCORE_LIMIT, SCORE_LIMIT)
        place = jnp.arange(self.groups)
        first, second = (score[:, None], place[:, None]), (score[None], place[None])
        earlier = (first[0] > second[0]) | ((first[0] == second[0]) & (first[1] < second[1]))
        may_have = FITS * ((first[1] == second[1]) | (second[0] >= 0))  # [donor groups, groups]
        given = [jnp.zeros_like(waiting)] * self.groups
        for donor in GIVEN_FIRST:
            queue = waiting * may_have[donor]
            ahead = jnp.sum(queue[:, None] * earlier, axis=0)  # people of groups that come before this one
            given[donor] = jnp.clip(organs[donor] - ahead, 0.0, queue)
            waiting = waiting - given[donor]
        return jnp.stack(given)

    def risks(self) -> tuple[jax.Array, jax.Array]:
        """The probabilities of dying and of withdrawing within a week.   [groups] each"""
        both = self.deaths + self.withdrawals
        leave = -jnp.expm1(-both / WEEKS) / jnp.where(both > 0, both, 1.0)
        return leave * self.deaths, leave * self.withdrawals


def _chosen(demand: Demand, people: jax.Array, years: jax.Array) -> jax.Array:
    """What a demand counts, of both.   [groups], [groups] -> [criteria, groups]"""
    return jnp.stack({"people": [people], "person-years": [years], "both": [people, years]}[demand])
