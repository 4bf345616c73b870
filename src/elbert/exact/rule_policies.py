"""What the rules do: policies that see a world's true state, and their expected totals where these are known.

`@family(world, example)` names the rules that a function makes. Its docstring says what they do, and what they know.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from elbert.envs.admission import WORTH, Admission
from elbert.envs.applicants import Applicants
from elbert.envs.attention import LOGIT_LIMIT, Attention
from elbert.envs.credit import Credit
from elbert.envs.infectious import SUSCEPTIBLE, Infectious
from elbert.envs.lending import Lending
from elbert.envs.patrol import FEWEST, Patrol
from elbert.envs.waiting_list import BLOOD_GROUPS, WaitingList
from elbert.envs.world import World
from elbert.errors import InvalidInputError
from elbert.exact.attention_limits import fair_schedule, schedule_totals
from elbert.exact.credit import best_shared_threshold, equal_opportunity_thresholds, profitable
from elbert.exact.finite import Array, PolicyTotals
from elbert.exact.lending import acceptance_totals, accepting_from, best_lending

MOST_ASKED = 400
"""exp(6) = 403 is the ratio of the largest to the least share that an action in attention can ask for."""
BEST = r"best(?:-(\d+(?:\.\d+)?(?:e-\d+)?))?"
"""best, without a limit, or best-0.01."""
THRESHOLDS = r"thresholds((?:-\d+(?:\.\d+)?)+)"
Act: TypeAlias = Callable[[jax.Array, Any], Any]
"""(key, true state) -> action, for one copy of the world."""


class Policy(NamedTuple):
    """How a rule acts in a world, and what it is expected to add up to over an episode."""

    make: Callable[[Any], Act]  # from the world to the policy: what can be computed ahead is computed here
    expected: Callable[[Any], PolicyTotals | None] = lambda world: None  # from the world; None: only simulation tells


class Family(NamedTuple):
    """Rules of one kind."""

    world: type[World]
    pattern: str  # of the name; what its groups match is given to `policy`
    example: str
    meaning: str  # what the rules do, and what they know
    policy: Callable[..., Policy]


FAMILIES: list[Family] = []


def family(
    world: type[World], example: str, pattern: str | None = None
) -> Callable[[Callable[..., Policy]], Callable[..., Policy]]:
    """Let a function make the rules whose names match a pattern, which is the example by default."""

    def register(policy: Callable[..., Policy]) -> Callable[..., Policy]:
        FAMILIES.append(Family(world, pattern or example, example, " ".join((policy.__doc__ or "").split()), policy))
        return policy

    return register


def _by_score(acceptance: Callable[[Any], Array]) -> Policy:
    """Accepts with a probability that depends on group and score; from the world to [groups, scores]."""

    def make(world: Applicants) -> Act:
        table = np.asarray(acceptance(world), np.float32)

        def act(key: jax.Array, state: Any) -> Any:
            chance = jnp.asarray(table)[state.group, state.score]
            return (jax.random.uniform(key, (), jnp.float32) < chance).astype(jnp.int32)

        return act

    return Policy(make, lambda world: acceptance_totals(world, acceptance(world)))


def _thresholds(text: str) -> Policy:
    lows = tuple(float(low) for low in text[1:].split("-"))

    def acceptance(world: Applicants) -> Array:
        if len(lows) != world.groups:
            raise InvalidInputError(f"{len(lows)} thresholds were given for {world.groups} groups. Give one per group.")
        return accepting_from(world, lows)

    return _by_score(acceptance)


@family(Lending, "thresholds-2-1", THRESHOLDS)
def thresholds(text: str) -> Policy:
    """Accepts applicants whose score is at least the threshold of their group."""
    return _thresholds(text)


@family(Credit, "thresholds-600-650-650-600", THRESHOLDS)
def thresholds_in_points(text: str) -> Policy:
    """Accepts applicants whose score, in points of FICO, is at least the threshold of their group."""
    return _thresholds(text)


@family(Credit, "profit")
def most_profit() -> Policy:
    """Accepts whom the bank expects to earn on now: one threshold per group; knows who repays at which score."""
    return _by_score(profitable)


@family(Credit, "one-threshold")
def one_threshold() -> Policy:
    """One threshold for all groups, with the most profit at the scores of the start; knows who repays at which."""
    return _by_score(best_shared_threshold)


@family(Credit, "equal-opportunity")
def equal_opportunity() -> Policy:
    """Thresholds with equal true positive rates and the most profit, at the scores of the start, which it knows."""
    return _by_score(equal_opportunity_thresholds)


@family(Applicants, "best-0.01", BEST)
def best_in_lending(limit: str | None) -> Policy:
    """The best policy within this limit on the bias, from the population equations; knows all parameters."""
    max_bias = float(limit or np.inf)

    def make(world: Applicants) -> Act:
        table = np.asarray(best_lending(world, max_bias).policy, np.float32)  # [horizon, groups, scores]

        def act(key: jax.Array, state: Any) -> Any:
            chance = jnp.asarray(table)[jnp.minimum(state.time, len(table) - 1), state.group, state.score]
            return (jax.random.uniform(key, (), jnp.float32) < chance).astype(jnp.int32)

        return act

    return Policy(make, lambda world: best_lending(world, max_bias).totals)


def logits_for(units: Any) -> Any:
    """An action that `Attention.allocate` turns into these whole units.   [sites] -> [sites]

    log(units) up to a constant, and the least logit where there are none: shares are then off by less than a unit each,
    in proportion, and the largest remainders bring back the units asked for.
    """
    asked = jnp.asarray(units, jnp.float32)
    return jnp.maximum(LOGIT_LIMIT + jnp.log(jnp.maximum(asked, 1e-3) / jnp.max(asked)), -LOGIT_LIMIT)


def _check_units(world: Attention) -> None:
    """Logits differ by at most 6: with many units and sites they cannot say that a site gets none."""
    if int(world.units) * world.groups > MOST_ASKED:
        raise InvalidInputError(
            f"The world has {int(world.units)} units and {world.groups} sites. Actions are too coarse for this rule "
            f"where units * sites is more than {MOST_ASKED}: a site could not be given none."
        )


@family(Attention, "best", BEST)
def best_schedule(limit: str | None) -> Policy:
    """The best schedule known (best-0.02: within this limit on the bias); knows all parameters and sees nothing."""
    max_bias = float(limit or np.inf)

    def make(world: Attention) -> Act:
        _check_units(world)
        table = np.asarray(fair_schedule(world, max_bias), np.float32)  # [horizon, sites]
        return lambda key, state: logits_for(jnp.asarray(table)[jnp.minimum(state.time, len(table) - 1)])

    return Policy(make, lambda world: schedule_totals(world, fair_schedule(world, max_bias)))


@family(Attention, "index")
def most_found() -> Policy:
    """Unit by unit where one more finds the most incidents in this step; knows the true rates."""

    def make(world: Attention) -> Act:
        count = int(world.units)
        _check_units(world)

        def act(_: jax.Array, state: Any) -> Any:
            steps = jnp.arange(count, dtype=jnp.float32)[None, :]
            # P[Y > u] for u = 0 .. units - 1 falls in u, so the largest of all entries are the greedy choice
            above = jax.scipy.special.gammainc(steps + 1.0, jnp.maximum(state.rates, 1e-6)[:, None])
            order = jnp.argsort(-above.reshape(-1), stable=True)[:count]
            taken = jnp.zeros(above.size, jnp.float32).at[order].set(1.0).reshape(above.shape)
            return logits_for(taken.sum(axis=1))

        return act

    return Policy(make)


@family(Attention, "proportional")
def in_proportion() -> Policy:
    """Units in proportion to the true rates, which it knows."""

    def act(_: jax.Array, state: Any) -> Any:
        return jnp.log(jnp.maximum(state.rates, 1e-3) / jnp.max(state.rates)) + LOGIT_LIMIT

    return Policy(lambda world: act)


def _vaccinate(score: Callable[[Any, Any], Any]) -> Policy:
    """A dose to the susceptible person of the highest score above 0, or to nobody; with several doses, to as many."""

    def make(world: Infectious) -> Act:
        def act(_: jax.Array, state: Any) -> Any:
            value = jnp.where(state.health == SUSCEPTIBLE, score(world, state), 0.0)
            if world.doses > 1:
                best, people = jax.lax.top_k(value, min(world.doses, world.people))
                chosen = jnp.where(best > 0, people, world.people).astype(jnp.int32)
                return jnp.pad(chosen, (0, world.doses - len(chosen)), constant_values=world.people)
            return jnp.where(jnp.max(value) > 0, jnp.argmax(value), world.people).astype(jnp.int32)

        return act

    return Policy(make)


def _acquaintances(world: Infectious, state: Any) -> Any:
    return world.infected_neighbours(jnp.ones_like(state.health))


@family(Infectious, "degree")
def degree() -> Policy:
    """Vaccinates the susceptible person who knows the most people; knows the network."""
    return _vaccinate(_acquaintances)


@family(Infectious, "exposed")
def exposed() -> Policy:
    """Vaccinates the susceptible person with the most infected neighbours, then the most neighbours."""
    return _vaccinate(
        lambda world, state: world.infected_neighbours(state.health) + 1e-3 * _acquaintances(world, state)
    )


@family(Infectious, "nobody")
def nobody() -> Policy:
    """Vaccinates nobody."""
    return _vaccinate(lambda world, _: jnp.zeros(world.people, jnp.float32))


def _by_weights(weights: Callable[[Patrol, Any], Any], *, fixed: bool = False) -> Policy:
    """The patrol by these weights of the regions: a region drawn by them, or the day divided by them."""

    def make(world: Patrol) -> Act:
        def act(key: jax.Array, state: Any) -> Any:
            logits = jnp.log(jnp.maximum(weights(world, state), FEWEST))
            if world.action == "region":
                return jax.random.categorical(key, logits).astype(jnp.int32)
            return logits - jnp.max(logits) + LOGIT_LIMIT

        return act

    def expected(world: Patrol) -> PolicyTotals | None:
        if not fixed or world.action != "region":  # shares are clipped
            return None
        chance = np.maximum(np.asarray(weights(world, None), float), FEWEST)
        happened = np.asarray(world.rates + world.reported, float) * int(world.horizon)
        supply = happened * chance / chance.sum()
        return PolicyTotals(float(supply.sum()), supply[None], happened[None])

    return Policy(make, expected)


@family(Patrol, "urn")
def urn() -> Policy:
    """Draws a region by the record, like a ball from an urn: what was discovered there sends the patrol there again."""
    return _by_weights(lambda world, state: state.counts)


@family(Patrol, "corrected-urn")
def corrected_urn() -> Policy:
    """Draws a region by the corrected record, which takes in the less of a region the more it was patrolled."""
    return _by_weights(lambda world, state: state.corrected)


@family(Patrol, "uniform")
def uniform() -> Policy:
    """Draws any region with the same chance; knows nothing."""
    return _by_weights(lambda world, _: jnp.ones(world.groups, jnp.float32), fixed=True)


@family(Patrol, "true-rates")
def by_true_rates() -> Policy:
    """Draws a region in proportion to the true rates of what a patrol would discover, which it knows."""
    return _by_weights(lambda world, _: jnp.asarray(world.rates), fixed=True)


def _publish(thresholds: Callable[[Admission], Any]) -> Policy:
    """The same thresholds in every round: [1] for all groups, or [groups]; of one per group, one for all is the least.

    With the least, nobody is refused whom the threshold of the own group would let in.
    """

    def make(world: Admission) -> Act:
        chosen = np.asarray(thresholds(world), np.float32).reshape(-1)
        published = np.full(world.action_space.shape, chosen.min()) if world.thresholds == "one" else chosen
        action = np.clip(np.broadcast_to(published, world.action_space.shape), 0, 1).astype(np.float32)
        return lambda key, state: jnp.asarray(action)

    return Policy(make)


@family(Admission, "threshold-0.65", r"thresholds?((?:-\d+(?:\.\d+)?)+)")
def published_thresholds(text: str) -> Policy:
    """Publishes this threshold, or one for each group (thresholds-0.75-0.65), in every round."""
    chosen = [float(part) for part in text[1:].split("-")]

    def given(world: Admission) -> Any:
        wanted = 1 if world.thresholds == "one" else world.groups
        if len(chosen) not in (1, wanted):
            raise InvalidInputError(f"{len(chosen)} thresholds were given, but the world publishes {wanted}.")
        return chosen

    return _publish(given)


@family(Admission, "naive")
def naive() -> Policy:
    """Publishes the score from which on applicants are eligible, as if nobody would pay to show more."""
    return _publish(lambda world: world.eligible_from)


@family(Admission, "robust")
def robust() -> Policy:
    """Publishes what the eligible can just afford, by group, and the least of these if there is one threshold."""
    return _publish(lambda world: world.eligible_from + WORTH / np.maximum(world.costs * (1 - world.subsidy), 1e-6))


def _by_rank(value: Any) -> Any:
    """Scores of 1 for the largest value, then 3/4, 1/2 and 1/4; ties in the order of the groups.   [4] -> [4]"""
    place = jnp.argsort(jnp.argsort(-jnp.asarray(value, jnp.float32), stable=True))
    return 1.0 - place.astype(jnp.float32) / len(BLOOD_GROUPS)


@family(WaitingList, "identical-first-0.2", r"identical-first(?:-(0?\.\d+|[01]))?")
def identical_first(share: str | None) -> Policy:
    """Organs go to their own blood group first, but in this share of the weeks in an order that is drawn by lot."""
    by_lot = float(share or 0.0)

    def act(key: jax.Array, _: Any) -> Any:
        for_week, for_order = jax.random.split(key)
        drawn = _by_rank(jax.random.uniform(for_order, (len(BLOOD_GROUPS),), jnp.float32))
        usual = _by_rank(-jnp.arange(len(BLOOD_GROUPS)))  # no organ that fits a group is of a later one
        return jnp.where(jax.random.uniform(for_week, (), jnp.float32) < by_lot, drawn, usual)

    return Policy(lambda world: act)


@family(WaitingList, "identical-only")
def identical_only() -> Policy:
    """Organs go to their own blood group, or to nobody."""
    return Policy(lambda world: lambda key, state: -jnp.ones(len(BLOOD_GROUPS), jnp.float32))


@family(WaitingList, "longest-list")
def longest_list() -> Policy:
    """Organs go to the blood group with the most people waiting among those that they fit."""
    return Policy(lambda world: lambda key, state: _by_rank(state.waiting))


@family(WaitingList, "most-at-risk")
def most_at_risk() -> Policy:
    """Organs go where the most deaths are expected, waiting * death rate, which it knows."""
    return Policy(lambda world: lambda key, state: _by_rank(state.waiting * world.risks()[0]))


@family(WaitingList, "sickest-first")
def sickest_first() -> Policy:
    """Organs go to the blood group with the highest death rate per person, which it knows."""
    return Policy(lambda world: lambda key, state: _by_rank(world.risks()[0]))


@family(WaitingList, "least-served")
def least_served() -> Policy:
    """Organs go to the blood group with the lowest rate so far; with two rates, by the lower rank of both."""

    def make(world: WaitingList) -> Act:
        def act(_: jax.Array, state: Any) -> Any:
            rates = world.observe(state).reshape(-1, world.groups)[1:]
            return _by_rank(jnp.max(jax.vmap(_by_rank)(-rates), axis=0))

        return act

    return Policy(make)
