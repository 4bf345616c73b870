"""How long it takes from a cold start to the published quality: the table "In a minute" of docs/results.md.

    python benchmarks/learning.py [--out FOLDER] [--first 1000] [--seeds 5] [ENV ...]

Runs `elbert train ENV --max-bias LIMIT --steps STEPS` for one seed after the other and takes the time of the whole
command: start, compiling everything anew, training, choosing the policy and evaluating it by the default protocol. The
steps were settled on seeds 20 and 21. Nothing else should run on the machine.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from cold import machine

from elbert.experiments.reproduce import published
from elbert.experiments.run_folder import RunFolder
from elbert.tables import Column, Table, number


class Plan(NamedTuple):
    """A training, and how long it may take."""

    max_bias: float
    steps: int
    seconds: float


PLANS = {
    "lending": Plan(0.01, 10_000_000, 45),
    "attention-harder": Plan(0.02, 2_000_000, 45),
    "infectious-harder": Plan(0.02, 1_500_000, 60),
}
COLUMNS = (
    Column("environment"),
    *(Column(name, right=True) for name in ("limit", "steps", "reward", "worst seed", "bias", "largest bias")),
    Column("published: reward, bias", right=True),
    *(Column(name, right=True) for name in ("confirmed", "refuted", "seconds", "longest", "goal")),
)


def train(env: str, plan: Plan, seed: int, out: Path) -> float:
    """Train by the command line, with nothing compiled before; the seconds that it took."""
    given = ["--max-bias", str(plan.max_bias), "--steps", str(plan.steps), "--seed", str(seed), "--out", str(out)]
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "elbert", "train", env, *given, "--fail-on", "never"],
        env={**os.environ, "ELBERT_COMPILATION_CACHE": ""},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{env}, seed {seed}: exit code {done.returncode}.")
    return time.monotonic() - begun


def row(env: str, seeds: range, out: Path) -> tuple[str, ...]:
    """One line of the table."""
    plan, theirs, seconds, results = PLANS[env], published().levels[env]["elbert-po"], [], []
    for seed in seeds:
        folder = out / f"{env}-{seed}"
        seconds.append(train(env, plan, seed, folder))
        results.append(RunFolder(folder).evaluation())
        print(env, seed, f"{seconds[-1]:.1f} s", file=sys.stderr, flush=True)
    singles = [result for result in results if result is not None]
    rewards = np.array([single.reward.mean for single in singles])
    biases = np.array([single.worst.bias.estimate for single in singles])
    verdicts = [single.limit.verdict for single in singles if single.limit is not None]
    return (
        env,
        f"{plan.max_bias:g}",
        f"{plan.steps:,}",
        number(rewards.mean()),
        number(rewards.min()),
        number(biases.mean()),
        number(biases.max()),
        f"{theirs.reward:.3f}, {theirs.bias:.3f}",
        f"{verdicts.count('confirmed')} of {len(verdicts)}",
        str(verdicts.count("refuted")),
        f"{np.mean(seconds):.0f}",
        f"{max(seconds):.0f}",
        f"{plan.seconds:g}",
    )


def main() -> None:
    """Train, evaluate, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", nargs="*", help=", ".join(PLANS))
    parser.add_argument("--out", type=Path, default=Path("runs/learning"))
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    if unknown := set(given.env) - {*PLANS}:
        parser.error(f"There are {', '.join(PLANS)}, not {', '.join(unknown)}.")
    rows = [row(env, range(given.first, given.first + given.seeds), given.out) for env in given.env or PLANS]
    print(machine())
    print(Table(COLUMNS, tuple(rows)).to_markdown())


if __name__ == "__main__":
    main()
