"""`elbert reproduce`: from the names of experiments to their outcomes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elbert.checks import as_whole
from elbert.experiments.jobs import do_jobs
from elbert.experiments.paper import Outcome, plans_for
from elbert.experiments.two_trajectories import TwoTrajectories
from elbert.progress import Tell, tell_nobody


@dataclass(frozen=True)
class Reproduction:
    """What came of some experiments."""

    outcomes: tuple[Outcome | TwoTrajectories, ...]
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
    workers: int | None = None,
    progress: Tell = tell_nobody,
) -> Reproduction:
    """Do the trainings of these experiments that are not done yet, and collect the results of all.

    The arguments are those of the command `elbert reproduce`; `envs` restricts the experiments to these environments,
    and `progress` is told how many trainings are done and what runs.
    """
    seeds = (1 if quick else 3) if seeds is None else seeds
    as_whole(seeds, "seeds", "a whole number of at least 1", low=1)
    plans = plans_for(names, preset=preset, seeds=seeds, envs=envs, quick=quick)
    runs = out / "runs"
    failed = do_jobs([job for plan in plans for job in plan.jobs], runs, workers=workers, progress=progress)
    return Reproduction(tuple(plan.outcome(runs) for plan in plans), failed)
