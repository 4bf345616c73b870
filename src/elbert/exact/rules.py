"""Rules: policies that nobody trained, evaluated by the same statistics as trained agents.

They are reference points, not competitors: a rule may look at the world's true state (the rates behind the incidents,
the network of who knows whom), which a trained policy does not see.

    rule = get_rule("rule:lending/thresholds-2-1")
    print(rule.evaluate(episodes=256, seed=1, horizon=10_000))
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax

from elbert.envs import ENTRIES, get_entry
from elbert.envs.world import World
from elbert.errors import InvalidInputError, did_you_mean
from elbert.exact.rule_policies import FAMILIES, Family, Policy
from elbert.learning import Environment
from elbert.learning.evaluation import Evaluable
from elbert.learning.simulators import Episodes
from elbert.learning.simulators.compiled import play as played
from elbert.learning.simulators.compiled import play_in_chunks as in_chunks

PREFIX = "rule:"


@dataclass(frozen=True, eq=False)
class Rule(Evaluable):
    """A policy by name. `evaluate` gives the same object as that of a trained agent."""

    name: str  # without the environment, for example "thresholds-2-1"
    env: str  # the world's name
    meaning: str  # what it does, and what it knows
    policy: Policy
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of the world, where they are not the default ones

    @property
    def home(self) -> tuple[str, dict[str, Any]]:
        """The world that the rule is for, and its parameters."""
        return self.env, dict(self.parameters)

    def __str__(self) -> str:
        return f"{PREFIX}{self.env}/{self.name}"

    def _play(
        self, env: Environment | None, parameters: dict[str, Any], *, deterministic: bool, **options: Any
    ) -> tuple[Episodes, dict[str, Any]]:
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
            def acts(key: jax.Array, copies: Any) -> tuple[Any, None]:
                return jax.vmap(act)(jax.random.split(key, count), copies.states), None

            return played(world, acts, key, count)

        sums = in_chunks(lambda key, count: play(world, key, count), **options)
        return sums, {
            "env": env if isinstance(env, str) else self.env,
            "method": str(self),
            "criteria": tuple(criterion.name for criterion in world.benefit.criteria),
            "groups": world.group_names,
            "notion": world.benefit,
        }


def is_rule(text: Any) -> bool:
    """Whether a name is that of a rule: "rule:..."."""
    return str(text).startswith(PREFIX)


def get_rule(text: str, **parameters: Any) -> Rule:
    """The rule of this name, "rule:ENVIRONMENT/RULE"; an unknown one is refused with those that there are.

    Parameters are those of the world, where it is not the default one.
    """
    env, slash, name = str(text).removeprefix(PREFIX).partition("/")
    if not slash:
        raise InvalidInputError(f"{text!r} names no rule. Write rule:ENVIRONMENT/RULE, for example rule:lending/best.")
    entry = get_entry(env)
    families = _families(entry.world)
    for family in families:
        match = re.fullmatch(family.pattern, name)
        if match:
            return Rule(name, entry.name, family.meaning, family.policy(*match.groups()), parameters)
    examples = [family.example for family in families]
    hint = did_you_mean(name, examples)
    raise InvalidInputError(f"{entry.name} has no rule {name!r}.{hint} It has, for example: {', '.join(examples)}.")


def rules_of(env: str) -> list[Rule]:
    """An example of every kind of rule in this environment."""
    entry = get_entry(env)
    return [get_rule(f"{PREFIX}{entry.name}/{family.example}") for family in _families(entry.world)]


def _families(kind: type[World]) -> list[Family]:
    return [family for family in FAMILIES if issubclass(kind, family.world)]
