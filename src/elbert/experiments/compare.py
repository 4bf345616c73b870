"""Results of several policies side by side, each with what the best possible policy reaches at its bias."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from elbert.errors import InvalidInputError
from elbert.exact.rules import Rule
from elbert.experiments.evaluate import Conditions, Policy, evaluate_policy
from elbert.experiments.results import BestPossible, best_possible
from elbert.experiments.run_folder import RunFolder
from elbert.learning import Environment
from elbert.learning.result import Result
from elbert.progress import Progress, Tell, tell_nobody


@dataclass(frozen=True)
class Compared:
    """One policy of a comparison."""

    name: str
    result: Result
    best: BestPossible | None  # None where it is not known
    run: RunFolder | None  # None: a rule, which nobody trained

    def to_dict(self) -> dict[str, Any]:
        """The result, with the best possible under `best`."""
        return self.result.to_dict() | ({} if self.best is None else {"best": self.best.to_dict()})


@dataclass(frozen=True)
class Comparison:
    """Policies in one environment."""

    env: str
    policies: tuple[Compared, ...]

    def to_dict(self) -> dict[str, Any]:
        """The results by name."""
        return {policy.name: policy.to_dict() for policy in self.policies}


def compare(
    policies: Mapping[str, Policy], *, env: Environment | None = None, progress: Tell = tell_nobody
) -> Comparison:
    """Compare runs and rules by name in one environment; rules are evaluated in the world of the runs.

    The evaluations that runs keep are used; missing ones are made. Runs that were trained in a user's environment need
    it as `env`, because no file holds it.
    """
    if not policies:
        raise InvalidInputError("No runs were given. Name at least one folder of a run; `elbert runs` lists them.")
    envs = sorted({_env_of(policy) for policy in policies.values()})
    if len(envs) > 1:
        raise InvalidInputError(
            f"The runs are in different environments: {', '.join(envs)}. Compare runs in one environment."
        )
    worlds = {name: policy.world for name, policy in policies.items() if isinstance(policy, RunFolder)}
    common = _world_of_rules(worlds, [name for name in policies if name not in worlds])
    return Comparison(
        envs[0],
        tuple(_compared(name, policy, worlds.get(name, common), env, progress) for name, policy in policies.items()),
    )


def _compared(
    name: str, policy: Policy, world: dict[str, Any] | None, env: Environment | None, progress: Tell
) -> Compared:
    def tell(event: Progress) -> None:
        progress(replace(event, activity=f"evaluating {name}"))

    if isinstance(policy, Rule):
        result = evaluate_policy(replace(policy, parameters=world or {}), progress=tell)
        return Compared(name, result, best_possible(result, world), None)
    conditions = Conditions(env=env if world is None else None)
    result = policy.evaluation() or evaluate_policy(policy, conditions, progress=tell)
    return Compared(name, result, best_possible(result, world), policy)


def _env_of(policy: Policy) -> str:
    if isinstance(policy, Rule):
        return policy.env
    if not policy.path.is_dir():
        policy.agents()  # which says that there is no run
    return str(policy.config.get("env"))


def _world_of_rules(worlds: Mapping[str, dict[str, Any] | None], rules: Sequence[str]) -> dict[str, Any] | None:
    """The world of the runs, in which rules are evaluated; refused if there are rules and several worlds."""
    if not worlds:
        return {}
    first, common = next(iter(worlds.items()))
    for name, world in worlds.items():
        if rules and world != common:
            raise InvalidInputError(
                f"The worlds of {first} ({_described(common)}) and {name} ({_described(world)}) differ: {rules[0]} "
                "cannot be evaluated in both. Compare it with one of them."
            )
    return common


def _described(world: Mapping[str, Any] | None) -> str:
    if world is None:
        return "an environment of the user's"
    return ", ".join(f"{name}={value}" for name, value in world.items()) or "as it is by default"
