"""The experiments as data: which trainings they need and how these are shown side by side."""

import difflib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from elbert.envs import get_entry
from elbert.envs.parameters import plain_parameters
from elbert.errors import InvalidInputError
from elbert.experiments.evaluate import protocol_for
from elbert.experiments.presets import preset_for
from elbert.learning import METHODS, Settings, get_method

MAIN = ("lending", "infectious-harder", "attention-harder")
ORIGINAL = ("infectious", "attention")
ALPHA_FACTORS = (0.01, 0.1, 1.0, 10.0)
BETAS = (1.0, 20.0, 100.0)
QUICK_STEPS = 0.4
"""Part of the preset's steps that a quick picture takes."""


@dataclass(frozen=True)
class Job:
    """One training with its evaluation: all seeds side by side. Jobs that compute the same have the same folder."""

    env: str
    method: str
    preset: str = "fast"
    seeds: int = 3
    settings: Mapping[str, Any] = field(default_factory=dict)  # over the preset
    world: Mapping[str, Any] = field(default_factory=dict)  # over the preset's
    quick: bool = False

    @cached_property
    def resolved(self) -> tuple[Settings, dict[str, Any]]:
        """The complete settings, and the world's parameters in training."""
        base = preset_for(self.preset, self.env, get_method(self.method))
        given = dict(self.settings)
        if self.quick:
            steps = max(base.settings.batch, int(QUICK_STEPS * base.settings.steps))
            given = {"steps": min(steps, given.get("steps", steps))} | given
        return Settings.of(given, base.settings), base.world | dict(self.world)

    @property
    def given(self) -> dict[str, Any]:
        """Settings to be asked for over the preset."""
        return dict(self.settings) | ({"steps": self.resolved[0].steps} if self.quick else {})

    @property
    def episodes(self) -> int:
        """Of the evaluation."""
        episodes = protocol_for("default", self.env).episodes
        return max(2, episodes // 4) if self.quick else episodes

    @cached_property
    def name(self) -> str:
        """Of the folder: readable, and different for whatever makes a difference."""
        settings, world = self.resolved
        content = {
            "preset": self.preset,
            "seeds": self.seeds,
            "settings": settings.to_dict(),
            "world": plain_parameters(world),
            "episodes": self.episodes,
        }
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return f"{self.env}-{self.method}-{digest[:10]}"


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
    figure: str  # label in the paper, or what it makes of the paper's words
    question: str
    panels: tuple[Panel, ...]

    @property
    def jobs(self) -> list[Job]:
        """Every training once."""
        return list({series.job.name: series.job for panel in self.panels for series in panel.series}.values())


def experiment(name: str, *, preset: str, seeds: int, envs: Sequence[str] | None, quick: bool) -> Experiment:
    """The experiment of this name, in these environments only if some are named."""
    plan = PLANS[name](Job("lending", "elbert-po", preset, seeds, quick=quick))
    if envs is None:
        return plan
    chosen = tuple(panel for panel in plan.panels if panel.env in envs)
    if not chosen:
        have = sorted({panel.env for panel in plan.panels})
        raise InvalidInputError(f"{name} is not about {', '.join(envs)}. It has: {', '.join(have)}.")
    return replace(plan, panels=chosen)


def _methods(base: Job, envs: Sequence[str], *, published: bool) -> tuple[Panel, ...]:
    return tuple(
        Panel(
            env,
            env,
            tuple(
                Series(method, replace(base, env=env, method=method), method if published else None)
                for method in METHODS
            ),
        )
        for env in envs
    )


def _main(base: Job) -> Experiment:
    return Experiment(
        "main",
        "Four methods in the paper's main environments",
        "fig:learning_curve_main",
        "Does ELBERT-PO reach the lowest bias, and at what reward?",
        _methods(base, MAIN, published=True),
    )


def _original(base: Job) -> Experiment:
    return Experiment(
        "original",
        "Four methods in the two original environments",
        "fig:learning_curve_appendix",
        "The same in the environments that the harder ones were made from.",
        _methods(base, ORIGINAL, published=False),
    )


def _supply_demand(base: Job) -> Experiment:
    return Experiment(
        "supply-demand",
        "Supply and demand of the most and the least advantaged group",
        "fig:learning_curve_sd_appendix",
        "By which change does the bias fall: more supply for some, less for others, or other demand?",
        _methods(base, MAIN, published=False),
    )


def _alpha(base: Job) -> Experiment:
    panels = []
    for env in ("attention-harder", "lending", "infectious-harder", "infectious", "attention"):
        usual = preset_for(base.preset, env, "elbert-po").settings.alpha
        values = [float(f"{usual * factor:.3g}") for factor in ALPHA_FACTORS]
        jobs = [replace(base, env=env, settings={"alpha": value}) for value in values]
        panels.append(
            Panel(env, env, tuple(Series(f"alpha {value:g}", job) for value, job in zip(values, jobs, strict=True)))
        )
    return Experiment(
        "alpha",
        "The bias coefficient",
        "fig:lending_ablation, fig:ablation_appendix",
        "How do reward and bias depend on alpha, from a hundredth of the preset's to ten times of it?",
        tuple(panels),
    )


def _beta(base: Job) -> Experiment:
    env = "attention-harder"
    series = tuple(Series(f"beta {beta:g}", replace(base, env=env, settings={"beta": beta})) for beta in BETAS)
    return Experiment(
        "beta",
        "The temperature of the soft bias",
        "fig:ablation_smooth_appendix",
        "How do reward and bias depend on beta?",
        (Panel(env, env, series),),
    )


def _notions(base: Job) -> Experiment:
    panels = []
    for notion in ("demographic-parity", "equalized-odds", "accuracy-parity"):
        jobs = [replace(base, method=method, world={"notion": notion}) for method in ("elbert-po", "g-ppo")]
        series = tuple(Series(job.method, job) for job in jobs)
        panels.append(Panel("lending", notion, series))
    return Experiment(
        "notions",
        "Lending under other notions of fairness",
        "appendix A, described only",
        "Does the method lower the bias that each notion defines?",
        tuple(panels),
    )


def _demand(base: Job) -> Experiment:
    """Demand in lending is applicants who would repay (more is better), in infectious new infections (less is)."""
    panels = []
    for env, group, weights in (("lending", 1, (0.0, 0.1, 0.5)), ("infectious-harder", 0, (0.0, -0.3, -1.0))):
        series = []
        for weight in weights:
            given = {"demand_weight": tuple(weight if g == group else 0.0 for g in range(2))} if weight else {}
            label = f"weight {weight:g} on group {group}" if weight else "no weight"
            series.append(Series(label, replace(base, env=env, settings=given)))
        panels.append(Panel(env, env, tuple(series)))
    return Experiment(
        "demand",
        "Demand regularisation",
        "appendix E, described only",
        "Does a weight on a group's demand move that demand, and what does it cost?",
        tuple(panels),
    )


def _details(base: Job) -> Experiment:
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
        replace(base, method=method, settings=given)
        for method in ("r-ppo", "a-ppo")
        for given in ({}, {"gamma": 0.99, "gae_lambda": 0.95})
    ]
    far = [Series(f"{job.method}, gamma {job.resolved[0].gamma:g}", job) for job in sighted]
    return Experiment(
        "details",
        "What the text says and what the numbers come from",
        "no figure of the paper",
        "How much does each difference between text and published numbers change the result?",
        (
            Panel("infectious-harder", "infection probability", tuple(infectious)),
            Panel("lending", "sign of the penalty", tuple(signs)),
            Panel("lending", "standardisation", tuple(standardised)),
            Panel("lending", "how far ahead", tuple(far)),
        ),
    )


PLANS: dict[str, Callable[[Job], Experiment]] = {
    "main": _main,
    "original": _original,
    "alpha": _alpha,
    "beta": _beta,
    "supply-demand": _supply_demand,
    "notions": _notions,
    "demand": _demand,
    "details": _details,
}
EXPERIMENTS = (*PLANS, "temporal")


def known_experiments(names: Sequence[str], envs: Sequence[str] | None) -> list[str]:
    """The experiments asked for, each once; all if none is named."""
    for name in names:
        if name not in EXPERIMENTS:
            near = difflib.get_close_matches(name, EXPERIMENTS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise InvalidInputError(f"No experiment is called {name!r}.{hint} Known: {', '.join(EXPERIMENTS)}.")
    if names:
        return list(dict.fromkeys(names))
    if envs is None:
        return list(EXPERIMENTS)
    where = [get_entry(env).name for env in envs]
    every = [experiment(name, preset="fast", seeds=1, envs=None, quick=False) for name in EXPERIMENTS[:-1]]
    return [plan.name for plan in every if any(panel.env in where for panel in plan.panels)]
