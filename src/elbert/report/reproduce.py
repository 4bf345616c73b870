"""`elbert reproduce`: from the names of experiments to their tables and figures."""

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from elbert.envs import get_entry
from elbert.errors import InvalidInputError
from elbert.experiments.compilation import keep_compiled
from elbert.experiments.plans import EXPERIMENTS, Experiment, experiment
from elbert.experiments.reproduction import Teller, do_jobs
from elbert.experiments.temporal import temporal_example
from elbert.experiments.verdicts import rows_of
from elbert.files import write_whole
from elbert.report.reproduction import experiment_table, write_experiment
from elbert.report.temporal import EXPLANATION, rich_table, write_temporal

MOST_WORKERS = 8


@dataclass(frozen=True)
class Reproduced:
    """What came of it."""

    results: dict[str, Any]  # by experiment, ready for JSON
    tables: list[RenderableType]
    written: list[Path]
    failed: dict[str, str]  # trainings and why

    def to_dict(self) -> Any:
        """Ready for JSON: the one experiment asked for, or all by name."""
        return next(iter(self.results.values())) if len(self.results) == 1 else self.results

    @property
    def failures(self) -> str:
        """All that failed in one message."""
        each = " ".join(f"{name}: {reason}" for name, reason in self.failed.items())
        return f"{len(self.failed)} trainings failed; tables and figures are without them. {each}"


def reproduced(
    names: Sequence[str],
    *,
    preset: str,
    seeds: int | None,
    envs: Sequence[str] | None,
    quick: bool,
    workers: int | None,
    out: Path,
    tell: Teller,
) -> Reproduced:
    """Do what is not done yet, then write tables and figures of all that was asked for."""
    names = _known(names, envs)
    seeds = (1 if quick else 3) if seeds is None else seeds
    if seeds < 1:
        raise InvalidInputError(f"seeds is {seeds}. Give a whole number of at least 1.")
    where = None if envs is None else [get_entry(env).name for env in envs]
    plans = [
        experiment(name, preset=preset, seeds=seeds, envs=where, quick=quick) for name in names if name != "temporal"
    ]
    jobs = {job.name: job for plan in plans for job in plan.jobs}
    failed: dict[str, str] = {}
    if jobs:
        keep_compiled()
        cores = min(MOST_WORKERS, os.cpu_count() or 1)
        count = min(len(jobs), cores) if workers is None else workers
        failed = do_jobs(list(jobs.values()), out / "runs", workers=count, tell=tell)
    done = Reproduced({}, [], [], failed)
    for name in names:
        if name == "temporal":
            _temporal(done, out)
        else:
            about = {"preset": preset, "seeds": seeds, "quick": quick}
            _experiment(done, next(plan for plan in plans if plan.name == name), out, about)
    if len(names) > 1:
        path = out / "reproduction.md"
        pages = "".join(f"- [{name}]({name}.md)\n" for name in names)
        write_whole(path, f"# The paper's experiments, made again\n\n{pages}")
        done.written.append(path)
    return done


def _experiment(done: Reproduced, plan: Experiment, out: Path, about: dict[str, Any]) -> None:
    rows = rows_of(plan, out / "runs")
    done.results[plan.name] = {"experiment": plan.name, **about, "rows": rows}
    done.tables.append(experiment_table(plan, rows))
    done.written.extend(write_experiment(plan, rows, out / "runs", out, about))


def _temporal(done: Reproduced, out: Path) -> None:
    readings = temporal_example()
    done.results["temporal"] = [reading.to_dict() for reading in readings]
    done.tables.extend([rich_table(readings), EXPLANATION])
    done.written.extend(write_temporal(readings, out))


def _known(names: Sequence[str], envs: Sequence[str] | None) -> list[str]:
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
