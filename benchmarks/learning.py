"""What the preset `fast` reaches, and how long it takes from a cold start: the tables of docs/results.md.

    python benchmarks/learning.py [--out FOLDER] [--seeds 3] [ENV ...]

In the three environments of the paper's main figure ELBERT-PO is trained once per seed, each in a process of its own
that compiles everything; the wall time is that of the whole process, evaluation included. All other trainings run
their seeds side by side. Every number is of the default evaluation protocol. What is finished is not run again.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cold import Timed, machine, train_cold

from elbert.experiments.jobs import Job
from elbert.experiments.paper import MAIN, ORIGINAL
from elbert.experiments.reproduce import published
from elbert.tables import Column, Table, number


@dataclass(frozen=True)
class Goal:
    """What a training should reach, in the mean over seeds."""

    seconds: float  # at most, for each seed
    reward: float  # at least
    bias: float  # at most

    def verdict(self, levels: np.ndarray, seconds: Sequence[float]) -> str:
        """Whether it was reached. levels: [seeds, (reward, bias)]"""
        reward, bias = levels.mean(axis=0)
        met = max(seconds) <= self.seconds and reward >= self.reward and bias <= self.bias
        return f"{'met' if met else 'NOT MET'}: {self.seconds:g} s, {self.reward} / {self.bias}"


METHODS = ("elbert-po", "g-ppo")
GOALS = {
    ("lending", "elbert-po"): Goal(90, 0.183, 0.015),
    ("attention-harder", "elbert-po"): Goal(120, -2.05, 0.025),
    ("infectious-harder", "elbert-po"): Goal(120, 0.188, 0.04),
}
COLUMNS = (
    Column("environment"),
    Column("method"),
    Column("reward", right=True),
    Column("bias", right=True),
    Column("reward / bias per seed"),
    Column("published"),
    Column("wall time"),
    Column("goal"),
)


def jobs_for(env: str, method: str, seeds: int) -> list[Job]:
    """A job for each seed where the time of one is a goal; otherwise one job for all seeds."""
    if (env, method) in GOALS:
        return [Job(env, method, seeds=(seed,)) for seed in range(seeds)]
    return [Job(env, method, seeds=seeds)]


def row(env: str, method: str, trainings: Sequence[Timed]) -> tuple[str, ...]:
    """One line of the table."""
    singles = [single for training in trainings for single in training.result.singles]
    levels = np.array([(single.reward.mean, single.worst.bias.estimate) for single in singles])
    seconds = [training.seconds for training in trainings]
    theirs, goal = published().levels.get(env, {}).get(method), GOALS.get((env, method))
    together = f"{seconds[0]:.0f} s for all"
    return (
        env,
        method,
        *(number(level) for level in levels.mean(axis=0)),
        ", ".join(f"{reward:.4f} / {bias:.4f}" for reward, bias in levels),
        "" if theirs is None else f"{theirs.reward:.3f} / {theirs.bias:.3f}",
        f"{np.mean(seconds):.0f} s (longest {max(seconds):.0f} s)" if len(seconds) > 1 else together,
        "" if goal is None else goal.verdict(levels, seconds),
    )


def main() -> None:
    """Train, evaluate, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env", nargs="*", default=[*MAIN, *ORIGINAL])
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark"))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    rows = [
        row(env, method, [train_cold(job, options.out) for job in jobs_for(env, method, options.seeds)])
        for env in options.env
        for method in METHODS
    ]
    print(machine())
    print(Table(COLUMNS, tuple(rows)).to_markdown())


if __name__ == "__main__":
    main()
