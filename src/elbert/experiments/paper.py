"""The paper's experiments as data: which trainings they need and how these are shown side by side."""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeAlias

from elbert.envs import get_entry
from elbert.errors import InvalidInputError, unknown_name
from elbert.experiments.jobs import Job
from elbert.experiments.published import Row, published
from elbert.experiments.results import best_possible
from elbert.experiments.run_folder import RunFolder
from elbert.experiments.two_trajectories import TwoTrajectories

PUBLISHED_METHODS = ("elbert-po", "g-ppo", "r-ppo", "a-ppo")
MAIN = ("lending", "infectious-harder", "attention-harder")
ORIGINAL = ("infectious", "attention")
ALPHA_FACTORS = (0.01, 0.1, 1.0, 10.0)
BETAS = (1.0, 20.0, 100.0)


@dataclass(frozen=True)
class Series:
    """A training under the name by which a figure shows it."""

    label: str
    job: Job
    published: str | None = None  # the method's name, where the paper has a number for this


@dataclass(frozen=True)
class Panel:
    """What is shown together."""

    env: str
    title: str
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Experiment:
    """Trainings that answer a question."""

    name: str
    title: str
    figure: str  # its label in the paper, or where the paper describes it
    question: str
    base: Job  # preset, seeds and extent of all trainings
    panels: tuple[Panel, ...]
    picture: Literal["levels", "extreme groups"] = "levels"

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The trainings."""
        return tuple(series.job for panel in self.panels for series in panel.series)

    @property
    def envs(self) -> tuple[str, ...]:
        """The environments."""
        return tuple(panel.env for panel in self.panels)

    def within(self, envs: Sequence[str]) -> "Experiment":
        """The panels in these environments only."""
        chosen = tuple(panel for panel in self.panels if panel.env in envs)
        if not chosen:
            have = ", ".join(sorted(set(self.envs)))
            raise InvalidInputError(f"{self.name} is not about {', '.join(envs)}. It has: {have}.")
        return replace(self, panels=chosen)

    def outcome(self, runs: Path) -> "Outcome":
        """The trainings' results from the folder of runs; a training that is missing has none."""
        rows = (self._row(panel, series, runs) for panel in self.panels for series in panel.series)
        return Outcome(self, runs, tuple(rows))

    def _row(self, panel: Panel, series: Series, runs: Path) -> Row:
        run = RunFolder(runs / series.job.name)
        result = run.evaluation() if run.path.is_dir() else None
        return Row(
            experiment=self.name,
            env=panel.env,
            panel=panel.title,
            label=series.label,
            method=series.job.method,
            run=series.job.name,
            published=published().level(panel.env, series.published),
            result=result,
            best=None if result is None else best_possible(result, run.world),
        )


@dataclass(frozen=True)
class Outcome:
    """What came of an experiment: a row for each training."""

    experiment: Experiment
    runs: Path  # folder of the runs
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        """Of the experiment."""
        return self.experiment.name

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        base = self.experiment.base
        about = {"experiment": self.name, "preset": base.preset, "seeds": base.seeds, "quick": base.quick}
        return about | {"rows": [row.to_dict() for row in self.rows]}


Plan: TypeAlias = Experiment | TwoTrajectories


def _methods(base: Job, envs: Sequence[str], *, published: bool) -> tuple[Panel, ...]:
    panels = []
    for env in envs:
        jobs = [replace(base, env=env, method=method) for method in PUBLISHED_METHODS]
        series = (Series(job.method, job, job.method if published else None) for job in jobs)
        panels.append(Panel(env, env, tuple(series)))
    return tuple(panels)


def _alpha(base: Job) -> tuple[Panel, ...]:
    panels = []
    for env in ("attention-harder", "lending", "infectious-harder", "infectious", "attention"):
        usual = replace(base, env=env).request.method.to_dict()["alpha"]
        values = [float(f"{usual * factor:.3g}") for factor in ALPHA_FACTORS]
        series = (Series(f"alpha {value:g}", replace(base, env=env, settings={"alpha": value})) for value in values)
        panels.append(Panel(env, env, tuple(series)))
    return tuple(panels)


def _beta(base: Job) -> tuple[Panel, ...]:
    env = "attention-harder"
    series = tuple(Series(f"beta {beta:g}", replace(base, env=env, settings={"beta": beta})) for beta in BETAS)
    return (Panel(env, env, series),)


def _notions(base: Job) -> tuple[Panel, ...]:
    panels = []
    for notion in ("demographic-parity", "equalized-odds", "accuracy-parity"):
        methods, world = ("elbert-po", "g-ppo"), {"notion": notion}
        series = (Series(method, replace(base, method=method, world=world)) for method in methods)
        panels.append(Panel("lending", notion, tuple(series)))
    return tuple(panels)


def _demand(base: Job) -> tuple[Panel, ...]:
    """Demand in lending is applicants who would repay (more is better), in infectious new infections (less is)."""
    panels = []
    for env, group, weights in (("lending", 1, (0.0, 0.1, 0.5)), ("infectious-harder", 0, (0.0, -0.3, -1.0))):
        series = []
        for weight in weights:
            settings = {"demand_weight": tuple(weight if g == group else 0.0 for g in range(2))} if weight else {}
            label = f"weight {weight:g} on group {group}" if weight else "no weight"
            series.append(Series(label, replace(base, env=env, settings=settings)))
        panels.append(Panel(env, env, tuple(series)))
    return tuple(panels)


def _details(base: Job) -> tuple[Panel, ...]:
    """Where the paper's text and the training behind its numbers differ."""
    infectious = [
        Series(f"{method}, infection {tau:g}", replace(base, env="infectious-harder", method=method, world=world))
        for method in ("elbert-po", "g-ppo")
        for tau, world in ((0.5, {}), (0.1, {"infection": 0.1}))
    ]
    signs = [
        Series("r-ppo, as published", replace(base, method="r-ppo")),
        Series("r-ppo, sign as printed", replace(base, method="r-ppo", settings={"penalty_form": "as-printed"})),
    ]
    each = {"standardise": "per-signal", "standardise_over": "minibatch"}
    standardised = [
        Series("combined, then standardised", replace(base)),
        Series("each standardised, same alpha", replace(base, settings=each)),
        Series("each standardised, alpha 2e+05", replace(base, settings=each | {"alpha": 2e5})),
    ]
    sighted = [
        replace(base, method=method, settings=settings)
        for method in ("r-ppo", "a-ppo")
        for settings in ({}, {"gamma": 0.99, "gae_lambda": 0.95})
    ]
    far = [Series(f"{job.method}, gamma {job.request.settings.gamma:g}", job) for job in sighted]
    return (
        Panel("infectious-harder", "infection probability", tuple(infectious)),
        Panel("lending", "sign of the penalty", tuple(signs)),
        Panel("lending", "standardisation", tuple(standardised)),
        Panel("lending", "how far ahead", tuple(far)),
    )


PANELS: dict[str, Callable[[Job], tuple[Panel, ...]]] = {
    "main": lambda base: _methods(base, MAIN, published=True),
    "original": lambda base: _methods(base, ORIGINAL, published=False),
    "alpha": _alpha,
    "beta": _beta,
    "supply-demand": lambda base: _methods(base, MAIN, published=False),
    "notions": _notions,
    "demand": _demand,
    "details": _details,
}
EXPERIMENTS = (*PANELS, "temporal")


def plans_for(
    names: Sequence[str], *, preset: str, seeds: int, envs: Sequence[str] | None = None, quick: bool = False
) -> list[Plan]:
    """The experiments of these names, each once, in these environments; without names all that are about them."""
    for name in names:
        if name not in EXPERIMENTS:
            raise unknown_name("experiment", name, EXPERIMENTS)
    base = Job("lending", "elbert-po", preset, seeds, quick=quick)
    plans = [_plan(name, base) for name in dict.fromkeys(names or EXPERIMENTS)]
    if envs is None:
        return plans
    where = [get_entry(env).name for env in envs]
    if not names:
        plans = [plan for plan in plans if not set(where).isdisjoint(plan.envs)]
    return [plan.within(where) for plan in plans]


def _plan(name: str, base: Job) -> Plan:
    if name == "temporal":
        return TwoTrajectories()
    about = tomllib.loads((files("elbert.experiments") / "data" / "experiments.toml").read_text("utf-8"))
    return Experiment(name=name, base=base, panels=PANELS[name](base), **about[name])
