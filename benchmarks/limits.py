"""What a limit on the bias reaches in all worlds: the tables "A limit" of docs/results.md.

    python benchmarks/limits.py [--out FOLDER] [--seeds 3] [--limits 0.01 0.02 0.05] [ENV ...]

Each training runs all seeds side by side in a process of its own that compiles everything; its wall time is that of the
whole process, with the choice among candidates and the evaluation. Every number is of the default evaluation protocol.
What is finished is not run again.
"""

import argparse
from pathlib import Path

import numpy as np
from cold import Timed, machine, train_cold

from elbert.exact.frontier import best_reward_at
from elbert.experiments.benchmark import WORLDS
from elbert.experiments.jobs import Job
from elbert.tables import Column, Table, number

LIMITS = (0.01, 0.02, 0.05)
SECONDS = {"lending": 180, "attention-harder": 240, "infectious-harder": 240}
"""For one seed. Three side by side are allowed three times as much."""
REWARDS = {("attention-harder", 0.02): -1.95, ("infectious-harder", 0.02): 0.185}
OF_BEST = {"lending": 0.97, "credit": 0.97}
COLUMNS = (
    Column("environment"),
    Column("limit", right=True),
    Column("reward", right=True),
    Column("of best", right=True),
    Column("debiased bias per seed"),
    Column("verdicts"),
    Column("seconds", right=True),
    Column("goals"),
)


def missed_goals(env: str, limit: float, training: Timed, best: float | None) -> list[str]:
    """What was not reached, in words."""
    singles = training.result.singles
    missed = [
        f"bias of seed {seed}"
        for seed, single in enumerate(singles)
        if min(single.worst.bias.debiased or 0.0, (single.worst.bias.ci or (0.0,))[0]) > limit
    ]
    reward = training.result.reward.mean
    if reward < REWARDS.get((env, limit), -np.inf):
        missed.append(f"reward {REWARDS[env, limit]}")
    if best is not None and env in OF_BEST and reward < OF_BEST[env] * best:
        missed.append(f"{100 * OF_BEST[env]:.0f} % of the best")
    if training.seconds > len(singles) * SECONDS.get(env, np.inf):
        missed.append(f"{len(singles) * SECONDS[env]} s")
    return missed


def row(env: str, limit: float, training: Timed) -> tuple[str, ...]:
    """One line of the table."""
    result = training.result
    assert result.limit is not None
    possible = best_reward_at(env, result.horizon, limit)
    best = possible.reward if possible is not None and possible.exact else None
    missed = missed_goals(env, limit, training, best)
    return (
        env,
        f"{limit:g}",
        number(result.reward.mean),
        "" if best is None else f"{100 * result.reward.mean / best:.1f} %",
        ", ".join(number(single.worst.bias.debiased) for single in result.singles),
        ", ".join(single.limit.verdict for single in result.singles if single.limit is not None),
        f"{training.seconds:.0f}",
        "met" if not missed else "NOT MET: " + ", ".join(missed),
    )


def main() -> None:
    """Train, evaluate, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env", nargs="*", default=WORLDS)
    parser.add_argument("--out", type=Path, default=Path("runs/limits"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limits", type=float, nargs="+", default=LIMITS)
    options = parser.parse_args()
    rows = []
    for env in options.env:
        for limit in options.limits:
            job = Job(env, "elbert-po", seeds=options.seeds, settings={"max_bias": limit})
            rows.append(row(env, limit, train_cold(job, options.out)))
    print(machine())
    print(Table(COLUMNS, tuple(rows)).to_markdown())


if __name__ == "__main__":
    main()
