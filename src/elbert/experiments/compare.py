"""Results of several policies side by side, each with what the best possible policy reaches at its bias."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from elbert.errors import InvalidInputError
from elbert.exact.rules import Rule
from elbert.experiments.evaluate import Conditions, Policy, evaluate_policy
from elbert.experiments.results import BestPossible, best_possible
from elbert.experiments.run_folder import RunFolder
from elbert.experiments.sweeps import by_coefficient
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
        coefficients = {} if self.run is None or not self.run.coefficients else {"coefficients": self.run.coefficients}
        return coefficients | self.result.to_dict() | ({} if self.best is None else {"best": asdict(self.best)})


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

    Evaluations that runs keep are used, missing ones are made. A user's environment has to be given as `env`. A run of
    several coefficients is compared by coefficient.
    """
    policies = by_coefficient(policies)
    if not policies:
        raise InvalidInputError("No runs were given. Name at least one folder of a run; `elbert runs` lists them.")
    envs = sorted({policy.env if isinstance(policy, Rule) else policy.config["env"] for policy in policies.values()})
    if len(envs) > 1:
        raise InvalidInputError(
            f"The runs are in different environments: {', '.join(envs)}. Compare runs in one environment."
        )
    worlds = {name: policy.world for name, policy in policies.items() if isinstance(policy, RunFolder)}
    rules = [name for name in policies if name not in worlds]
    common = next(iter(worlds.values()), {})
    if rules and any(world != common for world in worlds.values()):
        raise InvalidInputError(
            f"The worlds of the runs differ: {worlds}. {rules[0]} cannot be evaluated in all of them: compare it with "
            "the runs of one world."
        )

    def compared(name: str, policy: Policy) -> Compared:
        def tell(event: Progress) -> None:
            progress(replace(event, activity=f"evaluating {name}"))

        world = worlds.get(name, common)
        if isinstance(policy, Rule):
            result = evaluate_policy(replace(policy, parameters=world or {}), progress=tell)
        else:
            conditions = Conditions(env=env if world is None else None)
            result = policy.evaluation() or evaluate_policy(policy, conditions, progress=tell)
        return Compared(name, result, best_possible(result, world), policy if isinstance(policy, RunFolder) else None)

    return Comparison(envs[0], tuple(compared(name, policy) for name, policy in policies.items()))
