"""Results of several policies side by side, each with what the best possible policy reaches at its bias."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from elbert.errors import InvalidInputError
from elbert.exact.rules import Rule
from elbert.experiments.evaluate import Conditions, Policy, evaluate_policy
from elbert.experiments.jit_cache import keep_compiled
from elbert.experiments.results import BestPossible, best_possible
from elbert.experiments.run_folder import RunFolder
from elbert.learning import Environment
from elbert.learning.result import Result
from elbert.progress import Progress, Tell, Watch, watched
from elbert.shown import Shown


@dataclass(frozen=True)
class Compared:
    """One policy of a comparison."""

    name: str
    result: Result
    best: BestPossible | None  # None where it is not known
    run: RunFolder | None  # None: a rule, which nobody trained

    def to_dict(self) -> dict[str, Any]:
        """The result, with the best possible under `best`."""
        return self.result.to_dict() | ({} if self.best is None else {"best": asdict(self.best)})


@dataclass(frozen=True)
class Comparison(Shown):
    """Policies in one environment. `plot()` draws reward against bias, `plot(kind="curves")` their trainings."""

    drawn_by: ClassVar[str] = "elbert.report.plots:plot_comparison"
    page_by: ClassVar[str] = "elbert.report.pages:comparison_page"

    env: str
    policies: tuple[Compared, ...]

    def to_dict(self) -> dict[str, Any]:
        """The results by name."""
        return {policy.name: policy.to_dict() for policy in self.policies}


def compare(policies: Mapping[str, Policy], *, env: Environment | None = None, progress: Watch = "auto") -> Comparison:
    """Compare runs and rules by name in one environment; rules are evaluated in the world of the runs.

    Evaluations that runs keep are used, missing ones are made. A user's environment has to be given as `env`.
    """
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

    def compared(name: str, policy: Policy, progress: Tell) -> Compared:
        def tell(event: Progress) -> None:
            progress(replace(event, activity=f"evaluating {name}"))

        world = worlds.get(name, common)
        if isinstance(policy, Rule):
            result = evaluate_policy(replace(policy, parameters=world or {}), progress=tell)
        else:
            conditions = Conditions(env=env if world is None else None)
            result = policy.evaluation() or evaluate_policy(policy, conditions, progress=tell)
        return Compared(name, result, best_possible(result, world), policy if isinstance(policy, RunFolder) else None)

    keep_compiled()
    with watched(progress, f"comparing in {envs[0]}") as tell:
        return Comparison(envs[0], tuple(compared(name, policy, tell) for name, policy in policies.items()))
