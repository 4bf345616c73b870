"""The paper's experiments as data: which trainings they need and how these are shown side by side."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from elbert.envs import get_entry
from elbert.errors import InvalidInputError, unknown_name
from elbert.experiments import benchmark
from elbert.experiments.benchmark import Benchmark, benchmark_of
from elbert.experiments.jobs import Job
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

    def within(self, envs: Sequence[str]) -> "Experiment":
        """The panels in these environments only."""
        return replace(self, panels=tuple(panel for panel in self.panels if panel.env in envs))


Plan: TypeAlias = Experiment | TwoTrajectories | Benchmark


def _panel(base: Job, title: str, changes: Mapping[str, Mapping[str, Any]], *, published: bool = False) -> Panel:
    """Trainings in one environment that differ from the base by these changes; in order, by label."""
    jobs = {label: replace(base, **change) for label, change in changes.items()}
    series = (Series(label, job, str(job.method) if published else None) for label, job in jobs.items())
    return Panel(next(iter(jobs.values())).env_name, title, tuple(series))


def _methods(base: Job, envs: Sequence[str], *, published: bool) -> tuple[Panel, ...]:
    changes = {env: {method: {"env": env, "method": method} for method in PUBLISHED_METHODS} for env in envs}
    return tuple(_panel(base, env, each, published=published) for env, each in changes.items())


def _alpha(base: Job) -> tuple[Panel, ...]:
    panels = []
    for env in ("attention-harder", "lending", "infectious-harder", "infectious", "attention"):
        usual = replace(base, env=env).request.method.to_dict()["alpha"]
        values = [float(f"{usual * factor:.3g}") for factor in ALPHA_FACTORS]
        changes = {f"alpha {value:g}": {"env": env, "settings": {"alpha": value}} for value in values}
        panels.append(_panel(base, env, changes))
    return tuple(panels)


def _beta(base: Job) -> tuple[Panel, ...]:
    env = "attention-harder"
    return (_panel(base, env, {f"beta {beta:g}": {"env": env, "settings": {"beta": beta}} for beta in BETAS}),)


def _notions(base: Job) -> tuple[Panel, ...]:
    worlds = [{"notion": notion} for notion in ("demographic-parity", "equalized-odds", "accuracy-parity")]
    methods = ("elbert-po", "g-ppo")
    changes = ({method: {"method": method, "world": world} for method in methods} for world in worlds)
    return tuple(_panel(base, world["notion"], each) for world, each in zip(worlds, changes, strict=True))


def _demand(base: Job) -> tuple[Panel, ...]:
    """Demand in lending is applicants who would repay (more is better), in infectious new infections (less is)."""
    panels = []
    for env, group, weights in (("lending", 1, (0.1, 0.5)), ("infectious-harder", 0, (-0.3, -1.0))):
        changes: dict[str, dict[str, Any]] = {"no weight": {"env": env}}
        for weight in weights:
            settings = {"demand_weight": tuple(weight if g == group else 0.0 for g in range(2))}
            changes[f"weight {weight:g} on group {group}"] = {"env": env, "settings": settings}
        panels.append(_panel(base, env, changes))
    return tuple(panels)


def _details(base: Job) -> tuple[Panel, ...]:
    """Where the paper's text and the training behind its numbers differ."""
    infectious = {
        f"{method}, infection {tau:g}": {"env": "infectious-harder", "method": method, "world": world}
        for method in ("elbert-po", "g-ppo")
        for tau, world in ((0.5, {}), (0.1, {"infection": 0.1}))
    }
    signs = {
        "r-ppo, as published": {"method": "r-ppo"},
        "r-ppo, sign as printed": {"method": "r-ppo", "settings": {"penalty_form": "as-printed"}},
    }
    each = {"standardise": "per-signal", "standardise_over": "minibatch"}
    standardised = {
        "combined, then standardised": {},
        "each standardised, same alpha": {"settings": each},
        "each standardised, alpha 2e+05": {"settings": each | {"alpha": 2e5}},
    }
    sighted = [
        {"method": method, "settings": settings}
        for method in ("r-ppo", "a-ppo")
        for settings in ({}, {"gamma": 0.99, "gae_lambda": 0.95})
    ]
    gammas = [replace(base, **change).request.settings.gamma for change in sighted]
    far = {f"{change['method']}, gamma {gamma:g}": change for change, gamma in zip(sighted, gammas, strict=True)}
    return (
        _panel(base, "infection probability", infectious),
        _panel(base, "sign of the penalty", signs),
        _panel(base, "standardisation", standardised),
        _panel(base, "how far ahead", far),
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
    names: Sequence[str],
    *,
    preset: str,
    seeds: int,
    envs: Sequence[str] | None = None,
    quick: bool = False,
    part: float | None = None,
) -> list[Plan]:
    """The experiments of these names, each once, in these environments; without names all of the paper's about them."""
    for name in names:
        if name not in (*EXPERIMENTS, benchmark.NAME):
            raise unknown_name("experiment", name, (*EXPERIMENTS, benchmark.NAME))
    base = Job("lending", "elbert-po", preset, seeds, quick=quick, part=part)
    about = tomllib.loads((files("elbert.experiments") / "data" / "experiments.toml").read_text("utf-8"))

    def plan_of(name: str) -> Plan:
        if name in PANELS:
            return Experiment(name, base=base, panels=PANELS[name](base), **about[name])
        return benchmark_of(base) if name == benchmark.NAME else TwoTrajectories()

    plans = [plan_of(name) for name in dict.fromkeys(names or EXPERIMENTS)]
    if envs is None:
        return plans
    where = [get_entry(env).name for env in envs]
    within = [plan if isinstance(plan, TwoTrajectories) else plan.within(where) for plan in plans]
    for plan, rest in zip(plans, within, strict=True):
        if names and plan.jobs and not rest.jobs:
            have = ", ".join(sorted({job.env_name for job in plan.jobs}))
            raise InvalidInputError(f"{plan.name} is not about {', '.join(where)}. It has: {have}.")
    return [plan for plan in within if names or plan.jobs]
