"""Rules: policies that nobody trained, evaluated by the same statistics as trained agents.

They are reference points, not competitors: a rule may look at the world's true state (the rates behind the incidents,
the network of who knows whom), which a trained policy does not see.

    rule = get_rule("rule:lending/thresholds-2-1")
    print(rule.evaluate(episodes=256, seed=1, horizon=10_000))
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import numpy as np

from elbert.checks import as_seed as checked_seed
from elbert.envs import ENTRIES, get_entry
from elbert.envs.attention import Attention
from elbert.envs.infectious import Infectious
from elbert.envs.lending import Lending
from elbert.envs.world import World
from elbert.errors import InvalidInputError, did_you_mean
from elbert.exact.finite import PolicyTotals
from elbert.exact.rule_policies import (
    Policy,
    best_in_lending,
    best_schedule,
    degree,
    exposed,
    in_proportion,
    most_found,
    nobody,
    thresholds,
    vaccinate,
)
from elbert.learning import Environment
from elbert.learning.agent import checked_episodes
from elbert.learning.result import Result, judged
from elbert.learning.simulators import Episodes
from elbert.learning.simulators.compiled import play as played
from elbert.learning.simulators.compiled import play_in_chunks as in_chunks
from elbert.progress import Tell, tell_nobody

PREFIX = "rule:"


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
    policy: Policy
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of the world, where they are not the default ones

    @property
    def about(self) -> RuleAbout:
        """The environment and the name, as a trained agent tells them."""
        return RuleAbout(self.env, dict(self.parameters), str(self))

    def __str__(self) -> str:
        return f"{PREFIX}{self.env}/{self.name}"

    def expected(self, world: World) -> PolicyTotals | None:
        """What the rule adds up to over an episode in this world, in expectation; None where only simulation tells."""
        return self.policy.expected(world)

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
    ) -> Result:
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
                f"{self} is a rule for worlds of the kind {kind.__name__}, not for {type(world).__name__}. Give a "
                "world of that kind, or its name."
            )
        act = self.policy.make(world)

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
            notion=world.benefit,
            extra_demand=extra_demand,
            confidence=confidence,
        )


@dataclass(frozen=True)
class Family:
    """Rules of one kind: how their names look, what they mean, how their policies are made from what the name says."""

    world: type[World]
    pattern: str  # of the name; what its groups match is given to `policy`
    example: str
    meaning: str
    policy: Callable[..., Policy]


BEST = r"best(?:-(\d+(?:\.\d+)?(?:e-\d+)?))?"
"""best, without a limit, or best-0.01."""
FAMILIES = (
    Family(
        world=Lending,
        pattern=r"thresholds((?:-\d+)+)",
        example="thresholds-2-1",
        meaning="accepts applicants whose score is at least the threshold of their group",
        policy=lambda text: thresholds(tuple(int(low) for low in text[1:].split("-"))),
    ),
    Family(
        world=Lending,
        pattern=BEST,
        example="best-0.01",
        meaning="the best policy within this limit on the bias, from the population equations; knows all parameters",
        policy=lambda text: best_in_lending(_limit(text)),
    ),
    Family(
        world=Attention,
        pattern=BEST,
        example="best",
        meaning="the best schedule known (best-0.02: within this limit on the bias), which looks ahead with the prices "
        "behind the upper bound; knows all parameters",
        policy=lambda text: best_schedule(_limit(text)),
    ),
    Family(
        world=Attention,
        pattern="index",
        example="index",
        meaning="unit by unit where one more finds the most incidents in this step; knows the true rates",
        policy=lambda: Policy(most_found),
    ),
    Family(
        world=Attention,
        pattern="proportional",
        example="proportional",
        meaning="units in proportion to the true rates, which it knows",
        policy=lambda: Policy(in_proportion),
    ),
    Family(
        world=Infectious,
        pattern="degree",
        example="degree",
        meaning="vaccinates the susceptible person who knows the most people; knows the network",
        policy=lambda: vaccinate(degree),
    ),
    Family(
        world=Infectious,
        pattern="exposed",
        example="exposed",
        meaning="vaccinates the susceptible person with the most infected neighbours, then the most neighbours",
        policy=lambda: vaccinate(exposed),
    ),
    Family(
        world=Infectious,
        pattern="nobody",
        example="nobody",
        meaning="vaccinates nobody",
        policy=lambda: vaccinate(nobody),
    ),
)


def _limit(text: str | None) -> float:
    """The limit on the bias in a rule's name; infinite where there is none."""
    return np.inf if text is None else float(text)


def is_rule(text: Any) -> bool:
    """Whether a name is that of a rule: "rule:..."."""
    return str(text).startswith(PREFIX)


def get_rule(text: str, **parameters: Any) -> Rule:
    """The rule of this name, "rule:ENVIRONMENT/RULE"; an unknown one is refused with those that there are.

    Args:
        text: the name.
        parameters: of the world, where it is not the default one.
    """
    env, slash, name = str(text).removeprefix(PREFIX).partition("/")
    if not slash:
        raise InvalidInputError(f"{text!r} names no rule. Write rule:ENVIRONMENT/RULE, for example rule:lending/best.")
    entry = get_entry(env)
    families = _families(entry.world)
    for family in families:
        match = re.fullmatch(family.pattern, name)
        if match:
            return Rule(
                name=name,
                env=entry.name,
                meaning=family.meaning,
                policy=family.policy(*match.groups()),
                parameters=parameters,
            )
    examples = [family.example for family in families]
    hint = did_you_mean(name, examples)
    raise InvalidInputError(f"{entry.name} has no rule {name!r}.{hint} It has, for example: {', '.join(examples)}.")


def rules_of(env: str) -> list[Rule]:
    """An example of every kind of rule in this environment."""
    entry = get_entry(env)
    return [get_rule(f"{PREFIX}{entry.name}/{family.example}") for family in _families(entry.world)]


def _families(kind: type[World]) -> list[Family]:
    return [family for family in FAMILIES if issubclass(kind, family.world)]
