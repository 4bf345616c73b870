"""`elbert reproduce`: from the names of experiments to their outcomes, with the published numbers next to ours."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from elbert.checks import as_whole
from elbert.errors import InvalidInputError
from elbert.experiments.benchmark import Benchmark, BenchmarkOutcome, benchmark_outcome
from elbert.experiments.jobs import do_jobs
from elbert.experiments.paper import Experiment, Panel, Plan, Series, plans_for
from elbert.experiments.results import BestPossible, best_possible
from elbert.experiments.run_folder import RunFolder
from elbert.experiments.store import NO_STORE, Store
from elbert.experiments.sweep import open_engine
from elbert.experiments.two_trajectories import TwoTrajectories
from elbert.learning.result import Result
from elbert.progress import Tell, tell_nobody
from elbert.shown import Shown

MEASURED = ("episodes", "horizon", "reward", "bias", "groups", "train_seconds")  # of a result, what a row holds
Verdict: TypeAlias = Literal["better", "alike", "worse"]
CellVerdict: TypeAlias = Literal["dominates", "alike", "mixed", "dominated"]


@dataclass(frozen=True)
class Level:
    """What the paper reports of a method in an environment: the ends of its curves, and of the bands around them."""

    reward: float
    reward_lo: float
    reward_hi: float
    bias: float
    bias_lo: float
    bias_hi: float


@dataclass(frozen=True)
class Published:
    """The paper's numbers."""

    source: str
    levels: Mapping[str, Mapping[str, Level]]  # by environment and method


@cache
def published() -> Published:
    """Read the paper's numbers."""
    content = json.loads((files("elbert.experiments") / "data" / "published.json").read_text("utf-8"))
    levels = content["levels"].items()
    return Published(content["source"], {env: {name: Level(**at) for name, at in each.items()} for env, each in levels})


def verdict(ci: Sequence[float], theirs: Sequence[float], *, more_is_better: bool) -> Verdict:
    """Say "better" where our whole interval lies on the good side of their whole band, "worse" on the other side."""
    above, below = min(ci) > max(theirs), max(ci) < min(theirs)
    if above or below:
        return "better" if above == more_is_better else "worse"
    return "alike"


def cell(reward: Verdict, bias: Verdict) -> CellVerdict:
    """Both at once: "dominates" if neither is worse and one is better; "dominated" the other way round."""
    if reward == bias == "alike":
        return "alike"
    if "worse" not in (reward, bias):
        return "dominates"
    return "dominated" if "better" not in (reward, bias) else "mixed"


@dataclass(frozen=True)
class Verdicts:
    """The words on a result next to a published level."""

    reward: Verdict
    bias: Verdict
    cell: CellVerdict


@dataclass(frozen=True)
class Row:
    """One training of an experiment: what was measured and what was published."""

    experiment: str
    panel: Panel
    series: Series
    result: Result | None  # None: the training is missing
    best: BestPossible | None = None

    @property
    def published(self) -> Level | None:
        """What the paper reports of this training."""
        return published().levels.get(self.panel.env, {}).get(self.series.published or "")

    @property
    def verdicts(self) -> Verdicts | None:
        """The words on this row, where both sides have intervals."""
        theirs, result = self.published, self.result
        if theirs is None or result is None or result.reward.ci is None or result.worst.bias.ci is None:
            return None
        reward = verdict(result.reward.ci, (theirs.reward_lo, theirs.reward_hi), more_is_better=True)
        bias = verdict(result.worst.bias.ci, (theirs.bias_lo, theirs.bias_hi), more_is_better=False)
        return Verdicts(reward, bias, cell(reward, bias))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers; `missing` where there is no training."""
        head = {
            "experiment": self.experiment,
            "env": self.panel.env,
            "panel": self.panel.title,
            "label": self.series.label,
            "method": self.series.job.method,
            "run": self.series.job.name,
            "published": None if self.published is None else asdict(self.published),
        }
        if self.result is None:
            return head | {"missing": True}
        content, words = self.result.to_dict(), self.verdicts
        row = head | {name: content[name] for name in MEASURED}
        if self.best is not None:
            row["best"] = asdict(self.best)
        return row | {"seeds": len(self.result.singles), "verdict": None if words is None else asdict(words)}


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
        about = {"experiment": self.name} | self.experiment.base.extent
        return about | {"rows": [row.to_dict() for row in self.rows]}


def outcome_of(plan: Plan, runs: Path) -> Outcome | TwoTrajectories | BenchmarkOutcome:
    """The trainings' results from the folder of runs; a training that is missing has none."""
    if isinstance(plan, Benchmark):
        return benchmark_outcome(plan, runs)
    return experiment_outcome(plan, runs) if isinstance(plan, Experiment) else plan


def experiment_outcome(experiment: Experiment, runs: Path) -> Outcome:
    """What came of one of the paper's experiments."""
    rows = []
    for panel in experiment.panels:
        for series in panel.series:
            run = RunFolder(runs / series.job.name)
            result = run.evaluation() if run.path.is_dir() else None
            best = None if result is None else best_possible(result, run.world)
            rows.append(Row(experiment.name, panel, series, result, best))
    return Outcome(experiment, runs, tuple(rows))


@dataclass(frozen=True)
class Reproduction(Shown):
    """What came of some experiments."""

    page_by: ClassVar[str] = "elbert.report.paper:reproduction_page"

    outcomes: tuple[Outcome | TwoTrajectories | BenchmarkOutcome, ...]
    failed: dict[str, str]  # name of a training -> why it failed

    def to_dict(self) -> Any:
        """Ready for JSON: the outcome of the one experiment, or all by name."""
        contents = {outcome.name: outcome.to_dict() for outcome in self.outcomes}
        return next(iter(contents.values())) if len(contents) == 1 else contents

    @property
    def failures(self) -> str:
        """All failures in one message."""
        reasons = " ".join(f"{name}: {reason}" for name, reason in self.failed.items())
        return f"{len(self.failed)} trainings failed; tables and figures are without them. {reasons}"


def reproduce(
    names: Sequence[str] = (),
    *,
    out: Path,
    preset: str = "fast",
    seeds: int | None = None,
    envs: Sequence[str] | None = None,
    quick: bool = False,
    part: float | None = None,
    workers: int | None = None,
    ray: str | None = None,
    store: Store = NO_STORE,
    progress: Tell = tell_nobody,
) -> Reproduction:
    """Do the trainings of these experiments that are not done yet, and collect the results of all.

    This is a sweep with a fixed plan. The arguments are those of the command `elbert reproduce`; `envs` restricts the
    experiments to these environments, and `progress` is told how many trainings are done and what runs.
    """
    seeds = (1 if quick else 3) if seeds is None else seeds
    as_whole(seeds, "seeds", "a whole number of at least 1", low=1)
    if part is not None and not 0 < part <= 1:
        raise InvalidInputError(f"part is {part:g}. Give a part of the preset's steps, more than 0 and up to 1.")
    plans = plans_for(names, preset=preset, seeds=seeds, envs=envs, quick=quick, part=part)
    runs = out / "runs"
    jobs = [job for plan in plans for job in plan.jobs]
    with open_engine(workers, ray, cores=1) as engine:
        failed = do_jobs(jobs, runs, engine, store=store, progress=progress)
    return Reproduction(tuple(outcome_of(plan, runs) for plan in plans), failed)
