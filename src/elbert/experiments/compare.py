"""Results of several policies side by side, each with what the best possible policy reaches at its bias."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import gymnasium

from elbert.envs import find_world
from elbert.errors import InvalidInputError, unknown_name
from elbert.exact.rules import Rule, is_rule
from elbert.experiments.by_coefficient import by_coefficient
from elbert.experiments.evaluate import USUAL, Conditions, Policy, as_policy, evaluate_policy
from elbert.experiments.jit_cache import keep_compiled
from elbert.experiments.results import BestPossible, best_possible
from elbert.experiments.run_folder import RunFolder
from elbert.learning import Agent, Environment, Evaluable, ForeignPolicy
from elbert.learning.result import Result
from elbert.progress import Progress, Tell, Watch, watched
from elbert.shown import Shown
from elbert.tables import as_text

if TYPE_CHECKING:
    from rich.console import RenderableType

TEXT_WIDTH = 120  # columns of plain text: a comparison is wide


@dataclass(frozen=True)
class Compared:
    """One policy of a comparison."""

    name: str
    result: Result
    best: BestPossible | None  # None where it is not known
    run: RunFolder | None  # None: not from a run's folder, for example a rule, which nobody trained

    @property
    def method(self) -> str:
        """How it was made, in a word."""
        return "rule" if is_rule(self.result.method) else self.result.method

    def to_dict(self) -> dict[str, Any]:
        """The result, with the best possible under `best`."""
        coefficients = {} if self.run is None or not self.run.coefficients else {"coefficients": self.run.coefficients}
        return coefficients | self.result.to_dict() | ({} if self.best is None else {"best": asdict(self.best)})


@dataclass(frozen=True)
class Comparison(Shown):
    """Policies in one environment. `print(comparison)` shows a table; `comparison["name"]` is one of the results.

    `plot()` draws reward against bias, `plot(kind="curves")` the trainings of runs.
    """

    drawn_by: ClassVar[str] = "elbert.report.plots:plot_comparison"
    page_by: ClassVar[str] = "elbert.report.pages:comparison_page"

    env: str
    policies: tuple[Compared, ...]

    def __getitem__(self, name: str) -> Result:
        """The result of the policy of this name."""
        results = {policy.name: policy.result for policy in self.policies}
        if name not in results:
            raise unknown_name("policy of this comparison", name, results)
        return results[name]

    def to_dict(self) -> dict[str, Any]:
        """The results by name."""
        return {policy.name: policy.to_dict() for policy in self.policies}

    def __rich__(self) -> "RenderableType":
        """The table for a rich console."""
        return self._page()

    def __str__(self) -> str:
        """The table as plain text."""
        return as_text(self._page(), TEXT_WIDTH)


def compare(
    policies: Mapping[str, Any],
    *,
    env: Environment | None = None,
    episodes: int | None = None,
    max_bias: float | None = None,
    seed: int = 1,
    deterministic: bool = False,
    protocol: str = "default",
    horizon: int | None = None,
    progress: Watch = "auto",
) -> Comparison:
    """Evaluate several policies in one environment and put their results side by side.

        comparison = elbert.compare({"ours": agent, "theirs": model, "rule": "lending/thresholds-2-1"}, env="lending")
        print(comparison)

    Without `env` it is the one that the agents were trained in, where rules and policies from elsewhere are put too.
    An evaluation that a run keeps is used if nothing else than the usual one is asked for. A run of several
    coefficients is compared by coefficient.

    Args:
        policies: by name, whatever `elbert.evaluate` takes: agents, lists of agents (one for each seed), rules, paths
            of runs, objects with `predict`, functions.
        env: where all of them act; an environment of your own that runs were trained in has to be given.
        episodes: as in `elbert.evaluate`, and so are the other arguments.
        max_bias: limit on the bias to be tested for each.
        seed: seed of the episodes.
        deterministic: take most probable actions instead of sampling.
        protocol: "default" or "paper".
        horizon: steps of an episode in a named world.
        progress: "auto" shows a display in terminals and notebooks; True, None or a function as in `elbert.train`.
    """
    if not isinstance(policies, Mapping):
        raise InvalidInputError(
            f"policies is a {type(policies).__name__}. Give them by name: elbert.compare({{'ours': agent, ...}})."
        )
    if not policies:
        raise InvalidInputError("No runs were given. Name at least one folder of a run; `elbert runs` lists them.")
    conditions = Conditions(
        protocol=protocol,
        episodes=episodes,
        horizon=horizon,
        seed=seed,
        deterministic=deterministic,
        env=env,
        max_bias=max_bias,
    )
    subjects = by_coefficient({str(name): as_policy(policy) for name, policy in policies.items()})
    homes = {name: _home(policy) for name, policy in subjects.items()}
    meeting = _common(subjects, homes) if env is None else _given(env)

    def compared(name: str, policy: Policy, progress: Tell) -> Compared:
        def tell(event: Progress) -> None:
            progress(replace(event, activity=f"evaluating {name}"))

        home, where, asked = homes[name], meeting, conditions
        run = policy if isinstance(policy, RunFolder) else None
        if isinstance(policy, Rule):
            policy = replace(policy, parameters=meeting.world or {}) if env is None else policy
        elif isinstance(policy, ForeignPolicy):
            policy = replace(policy, env=meeting.env, parameters=meeting.world) if env is None else policy
        elif home is not None and (env is None or (home == meeting and home.world is not None)):
            where, asked = home, replace(conditions, env=None)
        usual = replace(asked, env=None) == USUAL and (asked.env is None or home is None or home.world is None)
        result = run.evaluation() if run is not None and usual else None
        result = result or evaluate_policy(policy, asked, progress=tell)
        return Compared(name, result, best_possible(result, where.world), run)

    keep_compiled()
    with watched(progress, "comparing") as tell:
        results = tuple(compared(name, policy, tell) for name, policy in subjects.items())
    return Comparison(results[0].result.env, results)


class Place(NamedTuple):
    """Where policies act."""

    name: str  # of the environment
    env: Environment | None  # None if it is not at hand
    world: dict[str, Any] | None  # parameters of a named world but for the horizon, which protocols set


def _home(policy: Policy) -> Place | None:
    """Where a policy comes from; None for one from elsewhere."""
    if isinstance(policy, RunFolder):
        name, world = policy.config["env"], policy.world
        return Place(name, name if world is not None or name in gymnasium.registry else None, world)
    single = policy if isinstance(policy, Evaluable) else policy[0]
    env, parameters = single.home
    name = single.about.env if isinstance(single, Agent) else env
    if parameters is not None:
        parameters = {key: value for key, value in parameters.items() if key != "horizon"}
    return Place(name, env, parameters) if isinstance(name, str) else None


def _given(env: Environment) -> Place:
    """The environment that a user gave."""
    entry = find_world(env) if isinstance(env, str) else None
    return Place("", env, None) if entry is None else Place(entry.name, entry.name, {})


def _common(subjects: Mapping[str, Policy], homes: Mapping[str, Place | None]) -> Place:
    """The environment that all come from; guests, who could act in any, need it to be one and the same."""
    places = {name: home for name, home in homes.items() if home is not None}
    envs = sorted({place.name for place in places.values()})
    if len(envs) > 1:
        raise InvalidInputError(
            f"The runs are in different environments: {', '.join(envs)}. Compare runs in one environment, or say where "
            "all of them act: env=..."
        )
    guests = [name for name, policy in subjects.items() if isinstance(policy, Rule | ForeignPolicy)]
    worlds = {name: place.world for name, place in places.items() if name not in guests}
    first = next((places[name] for name in (*worlds, *places)), Place("", None, None))
    if guests and any(world != first.world for world in worlds.values()):
        raise InvalidInputError(
            f"The worlds of the runs differ: {worlds}. {guests[0]} cannot be evaluated in all of them: compare it with "
            "the runs of one world."
        )
    return first
