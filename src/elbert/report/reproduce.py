"""`elbert reproduce`: from the names of experiments to their tables and figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from elbert.envs import get_entry
from elbert.errors import InvalidInputError
from elbert.experiments.jobs import Teller, train_experiments
from elbert.experiments.paper import Experiment, experiment, known_experiments
from elbert.experiments.published import rows_of
from elbert.experiments.two_trajectories import temporal_example
from elbert.files import write_whole
from elbert.report.paper import experiment_table, write_experiment
from elbert.report.two_trajectories import EXPLANATION, rich_table, write_temporal


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
    names = known_experiments(names, envs)
    seeds = (1 if quick else 3) if seeds is None else seeds
    if seeds < 1:
        raise InvalidInputError(f"seeds is {seeds}. Give a whole number of at least 1.")
    where = None if envs is None else [get_entry(env).name for env in envs]
    plans = [
        experiment(name, preset=preset, seeds=seeds, envs=where, quick=quick) for name in names if name != "temporal"
    ]
    done = Reproduced({}, [], [], train_experiments(plans, out / "runs", workers=workers, tell=tell))
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
