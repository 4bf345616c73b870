"""The benchmark: every method in every world at two limits on the bias, judged by every notion that applies.

Methods with a limit are given it. Return-gap has the same number as the limit of its own notion; R-PPO and A-PPO leave
a bias below it unpunished, and have the coefficients of the preset otherwise; G-PPO knows no limit and is trained once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from elbert.errors import ElbertError
from elbert.exact.frontier import BestReward, best_reward_at
from elbert.experiments.jobs import Job
from elbert.experiments.results import VERDICTS
from elbert.experiments.run_folder import RunFolder
from elbert.fairness.bias_inference import Verdict
from elbert.learning.result import Result

NAME = "benchmark"
LIMITS = (0.02, 0.05)
LIMITED = ("elbert-po", "band", "lagrangian", "focops", "cpo")
METHODS: Mapping[str, str | None] = dict.fromkeys(LIMITED, "max_bias") | {  # with the setting that takes the limit
    "return-gap": "max_gap",
    "r-ppo": "omega",
    "a-ppo": "omega",
    "g-ppo": None,
}
QUICK_METHODS = (*LIMITED, "g-ppo")
QUICK_LIMITS = LIMITS[1:]
QUICK_PART = 0.1  # of the preset's steps, in a quick picture
FEWEST_ROLLOUTS = {True: 30, False: 100}  # if it is quick or not: multipliers need some to move at all
WORLDS = (
    *("lending", "infectious", "infectious-harder", "attention", "attention-harder"),
    *("credit", "waiting-list", "patrol", "admission"),
)


@dataclass(frozen=True)
class Entrant:
    """One training of the benchmark."""

    world: str
    limit: float
    method: str
    job: Job


@dataclass(frozen=True)
class Benchmark:
    """The trainings, before they are done."""

    base: Job  # preset, seeds and extent of all trainings
    entrants: tuple[Entrant, ...]
    name: str = NAME

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The trainings."""
        return tuple(entrant.job for entrant in self.entrants)

    def within(self, envs: Sequence[str]) -> "Benchmark":
        """Those in these environments only."""
        return replace(self, entrants=tuple(each for each in self.entrants if each.world in envs))


def benchmark_of(base: Job) -> Benchmark:
    """The benchmark with this preset, these seeds and this extent."""
    limits, methods = (QUICK_LIMITS, QUICK_METHODS) if base.quick else (LIMITS, tuple(METHODS))
    entrants = []
    for world in WORLDS:
        for limit in limits:
            for method in methods:
                setting = METHODS[method]
                chosen: dict[str, Any] = {} if setting is None else {setting: limit}
                job = replace(base, env=world, method=method, settings=chosen, judged=True)
                part = QUICK_PART if base.quick and base.part is None else base.part
                if part is not None:
                    usual = replace(job, quick=False, part=None).request.settings
                    fewest = FEWEST_ROLLOUTS[base.quick] * usual.batch
                    steps = min(usual.steps, max(fewest, int(part * usual.steps)))
                    job = replace(job, settings=chosen | {"steps": steps})
                entrants.append(Entrant(world, limit, method, job))
    return Benchmark(base, tuple(entrants))


@dataclass(frozen=True)
class Cell:
    """What came of one training: the world's own notion, every other that applies, and what is possible."""

    entrant: Entrant
    result: Result | None  # None: the training is missing
    judged: Result | None  # by every notion; None where the world's own is the only one
    best: BestReward | None  # that any policy can have at the limit, or a bound

    @property
    def verdicts(self) -> list[Verdict]:
        """On the limit, seed by seed; none where the training is missing.

        Policies that were not trained for the limit are judged by the 95 % interval of their bias. As in the test of a
        limit, nothing is confirmed where a group had to be left out.
        """
        singles = () if self.result is None else self.result.singles
        return [_verdict(single, self.entrant.limit) for single in singles]

    @property
    def verdict(self) -> Verdict | None:
        """The least favourable over seeds."""
        return max(self.verdicts, key=VERDICTS.index, default=None)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers; `missing` where there is no training."""
        entrant, result = self.entrant, self.result
        head = {"env": entrant.world, "limit": entrant.limit, "method": entrant.method, "run": entrant.job.name}
        if result is None:
            return head | {"missing": True}
        return head | {
            "reward": asdict(result.reward),
            "best": None if self.best is None else self.best._asdict(),
            "bias": asdict(result.worst.bias),
            "verdict": self.verdict,
            "verdicts": self.verdicts,
            "train_seconds": result.train_seconds,
            "seeds": len(result.singles),
            "rates": {
                part.criterion: asdict(part.bias) for part in (result if self.judged is None else self.judged).criteria
            },
        }


def _verdict(single: Result, limit: float) -> Verdict:
    if single.limit is not None and single.limit.max_bias == limit:
        return single.limit.verdict
    ends = [part.bias.ci for part in single.criteria]
    known = [each for each in ends if each is not None]
    if any(low > limit for low, _ in known):
        return "refuted"
    if len(known) < len(ends):
        return "not estimable"
    whole = not any(part.bias.left_out for part in single.criteria)
    return "confirmed" if whole and all(high <= limit for _, high in known) else "not refuted"


@dataclass(frozen=True)
class BenchmarkOutcome:
    """What came of the benchmark."""

    benchmark: Benchmark
    cells: tuple[Cell, ...]

    @property
    def name(self) -> str:
        """Of the experiment."""
        return self.benchmark.name

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        about = {"experiment": self.name} | self.benchmark.base.extent
        return about | {"rows": [cell.to_dict() for cell in self.cells]}


def benchmark_outcome(benchmark: Benchmark, runs: Path) -> BenchmarkOutcome:
    """The results from the folder of runs; a training that is missing has none."""
    return BenchmarkOutcome(benchmark, tuple(_cell(entrant, runs) for entrant in benchmark.entrants))


def _cell(entrant: Entrant, runs: Path) -> Cell:
    run = RunFolder(runs / entrant.job.name)
    there = run.path.is_dir()
    result = run.evaluation() if there else None
    best = None
    if result is not None:
        try:
            best = best_reward_at(entrant.world, result.horizon, entrant.limit, **(run.world or {}))
        except ElbertError:  # nobody can keep the limit, or the world has no frontier
            best = None
    return Cell(entrant, result, run.judged() if there and entrant.job.judging else None, best)
