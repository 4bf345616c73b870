"""Infectious disease: whom to vaccinate in a social network while the disease spreads along its edges.

A step:
    treatment   a dose makes a susceptible person recovered; it does nothing to an infected or a recovered one
    change      then everyone at once:  susceptible -> infected     with 1 - (1 - infection) ** infected neighbours
                                        infected    -> recovered    with `recovery`
                                        recovered   -> susceptible  with `waning` (also who was vaccinated just now)
    reward      fraction of people who are not infected after the change
    supply      doses given to the group; demand: people of the group newly infected in this step
"""

from typing import Annotated, Any, Literal, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from elbert.checks import as_whole
from elbert.envs.graphs import GraphLike, GroupsLike, as_network
from elbert.envs.parameters import Number, as_count, as_probability, stored
from elbert.envs.parts import Parts
from elbert.envs.world import Means, TimeStep, World
from elbert.errors import InvalidInputError, unknown_name
from elbert.fairness.notions import Criterion, Notion

SUSCEPTIBLE, INFECTED, RECOVERED = 0, 1, 2

DOSES_PER_INFECTION = Notion(
    "doses-per-infection",
    Criterion("doses per new infection", supply=lambda doses, _: doses, demand=lambda _, cases: cases, bounded=False),
    needs_qualified=True,
)
"""Doses given over people newly infected, per group: the vaccination criterion of the paper. It can exceed 1."""

DENSE_PEOPLE = 256
"""Up to this many people, a matrix product counts the infected neighbours; above it, they are counted by edges."""


class InfectiousState(NamedTuple):
    """Everyone's health."""

    health: jax.Array  # [people] SUSCEPTIBLE, INFECTED or RECOVERED
    time: jax.Array  # []


class Infectious(World, static=("supply", "first_case", "first_cases", "burn_in", "doses", "group_count")):
    """The infectious-disease world. Action i vaccinates person i, the last action nobody; with several doses, a row."""

    infection: jax.Array  # []
    recovery: jax.Array  # []
    waning: jax.Array  # []
    horizon: jax.Array  # []
    group: jax.Array  # [people] which group each person is of
    adjacency: jax.Array | None  # [people, people] 1 where two know each other, for small networks
    contacts: tuple[jax.Array, jax.Array] | None  # ([2 edges] of whom, [2 edges] neighbour) sorted, for large ones
    supply: Literal["published", "effective"]
    first_case: int | None
    first_cases: int
    burn_in: int
    doses: int
    group_count: int

    def __init__(
        self,
        *,
        graph: Annotated[GraphLike | None, "networkx graph, or pairs of people; none: Zachary's karate club"] = None,
        groups: Annotated[GroupsLike | None, "group of each person: numbers, a mapping, or a node attribute"] = None,
        infection: Annotated[Number, "probability that one infected neighbour infects (text: 0.1)"] = 0.5,
        recovery: Annotated[Number, "probability that an infected person recovers"] = 0.005,
        waning: Annotated[Number, "probability that a recovered person becomes susceptible again"] = 0.0,
        supply: Annotated[
            Literal["published", "effective"], "published: every dose; effective: doses that changed a state"
        ] = "published",
        first_case: Annotated[int | None, "who is infected at reset; none: a random person (text)"] = 0,
        first_cases: Annotated[int, "people infected at reset; all but first_case are random"] = 1,
        burn_in: Annotated[int, "changes before the episode starts, counted in nothing (text: 0)"] = 1,
        doses: Annotated[int, "doses per step"] = 1,
        horizon: Annotated[Number, "steps per episode"] = 20,
    ) -> None:
        """The published world by default; `elbert envs infectious` explains every parameter."""
        network = as_network(graph, groups)
        people = len(network.group)
        self.group, self.group_count = stored(network.group, np.int32), int(network.group.max()) + 1
        self.adjacency, self.contacts = _neighbours(network.edges, people)
        self.infection = as_probability(infection, "infection")
        self.recovery = as_probability(recovery, "recovery")
        self.waning = as_probability(waning, "waning")
        self.horizon = as_count(horizon, "horizon", "steps")
        if supply not in ("published", "effective"):
            raise unknown_name("way to count supply", supply, ("published", "effective"))
        self.supply = supply
        if first_case is not None and as_whole(first_case, "first_case", "a person's number", low=0) >= people:
            raise InvalidInputError(f"first_case is {first_case}, but people are numbered 0 to {people - 1}.")
        self.first_case = first_case if first_case is None else int(first_case)
        need = f"a number of people from 1 to {people}"
        self.first_cases = as_whole(first_cases, "first_cases", need, low=1, high=people)
        self.burn_in = as_whole(burn_in, "burn_in", "a whole number of changes, 0 or more", low=0)
        self.doses = as_whole(doses, "doses", "a whole number of doses, at least 1", low=1)

    @property
    def people(self) -> int:
        """How many people there are."""
        return self.group.shape[-1]

    @property
    def groups(self) -> int:
        """How many groups they form."""
        return self.group_count

    @property
    def benefit(self) -> Notion:
        """Doses given over people newly infected."""
        return DOSES_PER_INFECTION

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """One-hot health of everyone, person by person."""
        return gymnasium.spaces.Box(0.0, 1.0, (3 * self.people,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete | gymnasium.spaces.MultiDiscrete:
        """Whom to vaccinate; the last number is nobody. With several doses, there is a choice for each."""
        choices = self.people + 1
        if self.doses == 1:
            return gymnasium.spaces.Discrete(choices)
        return gymnasium.spaces.MultiDiscrete([choices] * self.doses)

    @property
    def parts(self) -> Parts:
        """The people, with their health, group and number of neighbours, and who knows whom."""
        edges, group = self.edges(), np.asarray(self.group)
        degree = np.bincount(edges.reshape(-1), minlength=self.people)
        known = np.column_stack([np.log1p(degree), group[:, None] == np.arange(self.groups)[None]])
        places = np.arange(3 * self.people).reshape(-1, 3)
        return Parts(places, features=known, edges=edges, group=group, chosen=True)

    def reset(self, key: jax.Array) -> tuple[InfectiousState, jax.Array]:
        """Some people are infected, one by default, and the disease may have a head start."""
        keys = jax.random.split(key, 1 + self.burn_in)  # for the first cases, then for each change of the head start
        health = jnp.where(self._first(keys[0]), INFECTED, SUSCEPTIBLE).astype(jnp.int8)
        health, _ = jax.lax.scan(lambda health, key: (self._changed(key, health), None), health, keys[1:])
        state = InfectiousState(health, jnp.zeros((), jnp.int32))
        return state, self.observe(state)

    def step(self, key: jax.Array, state: InfectiousState, action: jax.Array) -> tuple[InfectiousState, TimeStep]:
        """Treat first, then everyone changes at once."""
        treated, given = self._treated(state, action)
        health = self._changed(key, treated)
        cases = (health == INFECTED) & (treated != INFECTED)
        supply, demand = self._by_group(given), self._by_group(cases.astype(jnp.float32))
        reward = jnp.mean(health != INFECTED, dtype=jnp.float32)
        after = InfectiousState(health, state.time + 1)
        truncated = self.is_truncated(after.time)
        step = TimeStep(self.observe(after), reward, supply[None], demand[None], jnp.zeros((), bool), truncated)
        return after, step

    def means(self, state: InfectiousState, action: jax.Array) -> Means:
        """Everyone's probability of falling ill, and of being ill after the step."""
        treated, given = self._treated(state, action)
        leaving = self._leaving(treated)
        cases = jnp.where(treated == SUSCEPTIBLE, leaving, 0.0)
        ill = jnp.where(treated == INFECTED, 1.0 - leaving, cases)
        return Means(1.0 - jnp.mean(ill), self._by_group(given)[None], self._by_group(cases)[None])

    def for_critic(self, state: InfectiousState) -> jax.Array:
        """Everyone's health, and the time."""
        return jnp.append(self.observe(state), state.time.astype(jnp.float32))

    def observe(self, state: InfectiousState) -> jax.Array:
        """[3 people]: one-hot health of everyone, person by person."""
        return (state.health[:, None] == jnp.arange(3, dtype=jnp.int8)[None, :]).astype(jnp.float32).reshape(-1)

    def edges(self) -> np.ndarray[Any, Any]:
        """[edges, 2]: who knows whom, each pair once, smaller number first."""
        if self.adjacency is not None:
            both = np.argwhere(np.asarray(self.adjacency) > 0)
        else:
            assert self.contacts is not None
            both = np.stack([np.asarray(part) for part in self.contacts], axis=1)
        return both[both[:, 0] < both[:, 1]].astype(int)

    def infected_neighbours(self, health: jax.Array) -> jax.Array:
        """[people] -> [people]: how many infected people each one knows.

        Beyond DENSE_PEOPLE people the cost is in proportion to the edges.
        """
        infected = (health == INFECTED).astype(jnp.float32)
        if self.adjacency is not None:
            return infected @ self.adjacency
        assert self.contacts is not None
        of_whom, neighbour = self.contacts
        return jax.ops.segment_sum(infected[neighbour], of_whom, self.people, indices_are_sorted=True)

    def _first(self, key: jax.Array) -> jax.Array:
        """[people] bool: who is infected at reset."""
        first, people = self.first_case, jnp.arange(self.people)
        if self.first_cases == 1:
            return people == (jax.random.randint(key, (), 0, self.people, jnp.int32) if first is None else first)
        order = jax.random.uniform(key, (self.people,), jnp.float32)
        order = order if first is None else order.at[first].set(2.0)
        return jnp.zeros(self.people, bool).at[jax.lax.top_k(order, self.first_cases)[1]].set(True)

    def _doses(self, action: jax.Array) -> jax.Array:
        """[people]: how many doses each person gets. The number of people is nobody."""
        if self.doses == 1:
            return (action.reshape(1) == jnp.arange(self.people)).astype(jnp.float32)
        return jnp.zeros(self.people + 1, jnp.float32).at[action].add(1.0)[:-1]

    def _by_group(self, amounts: jax.Array) -> jax.Array:
        """[people] -> [groups]: amounts added up by group."""
        if self.people <= DENSE_PEOPLE:
            return amounts @ (self.group[:, None] == jnp.arange(self.groups)[None, :]).astype(jnp.float32)
        return jax.ops.segment_sum(amounts, self.group, self.groups)

    def _treated(self, state: InfectiousState, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Everyone's health after the doses, and the doses that count. [people] each"""
        doses = self._doses(jnp.asarray(action))
        helped = (doses > 0) & (state.health == SUSCEPTIBLE)
        given = helped.astype(jnp.float32) if self.supply == "effective" else doses
        return jnp.where(helped, RECOVERED, state.health).astype(jnp.int8), given

    def _changed(self, key: jax.Array, health: jax.Array) -> jax.Array:
        """One change of everyone at once. Each state has one way out, so that one draw per person decides."""
        changes = jax.random.uniform(key, health.shape, jnp.float32) < self._leaving(health)
        return jnp.where(changes, (health + 1) % 3, health).astype(jnp.int8)

    def _leaving(self, health: jax.Array) -> jax.Array:
        """The probability of leaving one's state in a change. [people] -> [people]"""
        catching = 1.0 - (1.0 - self.infection) ** self.infected_neighbours(health)
        return jnp.where(health == SUSCEPTIBLE, catching, jnp.where(health == INFECTED, self.recovery, self.waning))


def _neighbours(edges: np.ndarray[Any, Any], people: int) -> tuple[Any, Any]:
    """The edges as a matrix for few people, else as a sorted list in both directions."""
    both = np.concatenate([edges, edges[:, ::-1]])
    if people <= DENSE_PEOPLE:
        adjacency = np.zeros((people, people), np.float32)
        adjacency[both[:, 0], both[:, 1]] = 1
        return stored(adjacency, np.float32), None
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    return None, (stored(both[:, 0], np.int32), stored(both[:, 1], np.int32))
