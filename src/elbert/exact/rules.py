"""Rules: policies that nobody trained, evaluated by the same statistics as trained agents.

They are reference points, not competitors: a rule may look at the world's true state (the rates behind the incidents,
the network of who knows whom), which a trained policy does not see.

    rule = get_rule("rule:lending/thresholds-2-1")
    print(rule.evaluate(episodes=256, seed=1, horizon=10_000))
"""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from elbert.checks import as_seed as checked_seed
from elbert.envs import ENTRIES, get_entry
from elbert.envs.attention import LOGIT_LIMIT, Attention
from elbert.envs.infectious import SUSCEPTIBLE, Infectious
from elbert.envs.lending import Lending
from elbert.envs.world import World
from elbert.errors import InvalidInputError
from elbert.learning import Environment
from elbert.learning.agent import checked_episodes
from elbert.learning.evaluation import Evaluation, judged
from elbert.learning.simulators import Episodes
from elbert.learning.simulators.compiled import play as played
from elbert.learning.simulators.compiled import play_in_chunks as in_chunks
from elbert.progress import Tell, tell_nobody

PREFIX = "rule:"
MOST_ASKED = 400
"""exp(6) = 403 is the ratio of the largest to the least share that an action in attention can ask for."""
Act: TypeAlias = Callable[[jax.Array, Any], Any]
"""(key, true state) -> action, for one copy of the world."""


@dataclass(frozen=True)
class RuleAbout:
    """Where a rule comes from, in the words of an agent's `about`."""

    env: str
    parameters: dict[str, Any]
    method: str
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Rule:
    """A policy by name. `evaluate` gives the same object as that of a trained agent."""

    name: str  # without the environment, for example "thresholds-2-1"
    env: str  # the world's name
    meaning: str  # what it does, and what it knows
    make: Callable[[Any], Act]  # from the world to the policy: what can be computed ahead is computed here
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of the world, where they are not the default ones

    @property
    def about(self) -> RuleAbout:
        """The environment and the name, as a trained agent tells them."""
        return RuleAbout(self.env, dict(self.parameters), str(self))

    def __str__(self) -> str:
        return f"{PREFIX}{self.env}/{self.name}"

    def evaluate(
        self,
        episodes: int = 256,
        *,
        env: Environment | None = None,
        seed: int = 1,
        deterministic: bool = False,
        extra_demand: float = 0.0,
        confidence: float = 0.95,
        progress: Tell = tell_nobody,
        **parameters: Any,
    ) -> Evaluation:
        """Reward per step and benefit rates over fresh episodes, with intervals; arguments as `Agent.evaluate`.

        Args:
            episodes: how many.
            env: another world of the same kind, by name or as it is.
            seed: of the episodes.
            deterministic: has no effect on a rule and is refused.
            extra_demand: added to every group's demand in every episode.
            confidence: of the intervals.
            progress: is told how many episodes are done.
            parameters: of the named world, for example `horizon=10_000`, over the rule's own.
        """
        checked_episodes(episodes)
        checked_seed(seed)
        if deterministic:
            raise InvalidInputError(f"deterministic has no effect on {self}: a rule acts as it is written.")
        kind = ENTRIES[self.env].world
        world: Any = env
        if env is None or isinstance(env, str):
            world = get_entry(env or self.env).make(**{**self.parameters, **parameters})
        if not isinstance(world, kind):
            raise InvalidInputError(
                f"{self} is a rule for worlds of the kind {kind.__name__}, not for {type(world).__name__}. Give the "
                "name of such a world, or a World."
            )
        act = self.make(world)

        @partial(jax.jit, static_argnums=2)
        def play(world: World, key: jax.Array, count: int) -> Episodes:
            def acts(key: jax.Array, copies: Any) -> Any:
                return jax.vmap(act)(jax.random.split(key, count), copies.states)

            return played(world, acts, key, count)

        sums = in_chunks(lambda key, count: play(world, key, count), episodes=episodes, seed=seed, progress=progress)
        return judged(
            sums,
            env=env if isinstance(env, str) else self.env,
            method=str(self),
            criteria=tuple(criterion.name for criterion in world.benefit.criteria),
            extra_demand=extra_demand,
            confidence=confidence,
        )


def thresholds(lows: tuple[int, ...]) -> Callable[[Lending], Act]:
    """Lending: accept if the score is at least the threshold of the applicant's group."""

    def make(world: Lending) -> Act:
        if len(lows) != world.groups:
            raise InvalidInputError(f"{len(lows)} thresholds were given for {world.groups} groups. Give one per group.")
        table = np.asarray(lows, np.int32)
        return lambda key, state: (state.score >= jnp.asarray(table)[state.group]).astype(jnp.int32)

    return make


def best_in_lending(max_bias: float) -> Callable[[Lending], Act]:
    """Lending: accept with the probabilities of the best policy with a bias of at most max_bias, step by step."""

    def make(world: Lending) -> Act:
        from elbert.exact.lending import best_lending

        table = np.asarray(best_lending(world, max_bias).policy, np.float32)  # [horizon, groups, scores]

        def act(key: jax.Array, state: Any) -> Any:
            chance = jnp.asarray(table)[jnp.minimum(state.time, len(table) - 1), state.group, state.score]
            return (jax.random.uniform(key, (), jnp.float32) < chance).astype(jnp.int32)

        return act

    return make


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


def best_schedule(max_bias: float) -> Callable[[Attention], Act]:
    """Attention: the best schedule of units that is known, of those with a bias of at most max_bias. It sees nothing."""

    def make(world: Attention) -> Act:
        _check_units(world)
        from elbert.exact.attention_schedules import fair_schedule

        table = np.asarray(fair_schedule(world, max_bias), np.float32)  # [horizon, sites]
        return lambda key, state: logits_for(jnp.asarray(table)[jnp.minimum(state.time, len(table) - 1)])

    return make


def most_found(world: Attention) -> Act:
    """Attention: unit by unit to the site where one more finds the most: P[incidents > units there], true rates."""
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


def in_proportion(world: Attention) -> Act:
    """Attention: units in proportion to the true rates."""
    del world
    return lambda key, state: jnp.log(jnp.maximum(state.rates, 1e-3) / jnp.max(state.rates)) + LOGIT_LIMIT


def vaccinate(score: Callable[[Any, Any], Any]) -> Callable[[Infectious], Act]:
    """Infectious: a dose to the susceptible person of the highest score above 0, or to nobody."""

    def make(world: Infectious) -> Act:
        if world.doses != 1:
            raise InvalidInputError(f"The rules give one dose a step; this world has {world.doses}.")

        def act(_: jax.Array, state: Any) -> Any:
            value = jnp.where(state.health == SUSCEPTIBLE, score(world, state), 0.0)
            return jnp.where(jnp.max(value) > 0, jnp.argmax(value), world.people).astype(jnp.int32)

        return act

    return make


def _degree(world: Infectious, state: Any) -> Any:
    return world.infected_neighbours(jnp.ones_like(state.health))


def _exposed(world: Infectious, state: Any) -> Any:
    return world.infected_neighbours(state.health) + 1e-3 * _degree(world, state)


def _nobody(world: Infectious, _: Any) -> Any:
    return jnp.zeros(world.people, jnp.float32)


@dataclass(frozen=True)
class Family:
    """Rules of one kind: how their names look, what they mean, how they are made from what the name says."""

    world: type[World]
    pattern: str  # of the name; its groups are given to `make`
    example: str
    meaning: str
    make: Callable[..., Callable[[Any], Act]]


FAMILIES = (
    Family(
        Lending,
        r"thresholds((?:-\d+)+)",
        "thresholds-2-1",
        "accepts applicants whose score is at least the threshold of their group",
        lambda text: thresholds(tuple(int(part) for part in text[1:].split("-"))),
    ),
    Family(
        Lending,
        r"best(?:-(\d+(?:\.\d+)?(?:e-\d+)?))?",
        "best-0.01",
        "the best policy with a bias of at most so much, from the population equations; knows all parameters",
        lambda text: best_in_lending(np.inf if text is None else float(text)),
    ),
    Family(
        Attention,
        r"best(?:-(\d+(?:\.\d+)?(?:e-\d+)?))?",
        "best",
        "the best schedule known (best-0.02: with a bias of at most so much), which looks ahead with the prices behind "
        "the upper bound; knows all parameters",
        lambda text: best_schedule(np.inf if text is None else float(text)),
    ),
    Family(
        Attention,
        r"index",
        "index",
        "unit by unit where one more finds the most incidents in this step; knows the true rates",
        lambda: most_found,
    ),
    Family(
        Attention,
        r"proportional",
        "proportional",
        "units in proportion to the true rates, which it knows",
        lambda: in_proportion,
    ),
    Family(
        Infectious,
        r"degree",
        "degree",
        "vaccinates the susceptible person who knows the most people; knows the network",
        lambda: vaccinate(_degree),
    ),
    Family(
        Infectious,
        r"exposed",
        "exposed",
        "vaccinates the susceptible person with the most infected neighbours, then the most neighbours",
        lambda: vaccinate(_exposed),
    ),
    Family(Infectious, r"nobody", "nobody", "vaccinates nobody", lambda: vaccinate(_nobody)),
)


def is_rule(text: Any) -> bool:
    """Whether a name is that of a rule: "rule:..."."""
    return str(text).startswith(PREFIX)


def get_rule(text: str, **parameters: Any) -> Rule:
    """The rule of this name, "rule:ENVIRONMENT/RULE"; an unknown one is refused with those that there are.

    Parameters of the world may follow, for a world that is not the default one.
    """
    env, slash, name = str(text).removeprefix(PREFIX).partition("/")
    if not slash:
        raise InvalidInputError(f"{text!r} names no rule. Write rule:ENVIRONMENT/RULE, such as rule:lending/best.")
    entry = get_entry(env)
    known = [family for family in FAMILIES if family.world is entry.world]
    for family in known:
        match = re.fullmatch(family.pattern, name)
        if match:
            return Rule(name, entry.name, family.meaning, family.make(*match.groups()), parameters)
    near = difflib.get_close_matches(name, [family.example for family in known], n=1, cutoff=0.4)
    hint = f" Did you mean something like {near[0]!r}?" if near else ""
    examples = ", ".join(family.example for family in known)
    raise InvalidInputError(f"{entry.name} has no rule {name!r}.{hint} It has: {examples}.")


def rules_of(env: str) -> list[Rule]:
    """An example of every kind of rule in this environment."""
    entry = get_entry(env)
    return [get_rule(f"{PREFIX}{entry.name}/{family.example}") for family in FAMILIES if family.world is entry.world]
