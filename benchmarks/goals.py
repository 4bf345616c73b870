"""How good trainings with a limit are on seeds that nobody tuned on: the table "Ten new seeds" of docs/results.md.

    python benchmarks/goals.py [--out FOLDER] [--first 1000] [--seeds 10] [--together 5] [--again EPISODES] [ENV ...]

Seeds are trained in groups, those of a group side by side in a process of its own that compiles everything. Every
number is of the default evaluation protocol. What is finished is not run again. A goal is met if the mean over seeds
reaches the reward, the worst seed is within 3 % of the mean, no limit is refuted, and four of five are confirmed. With
`--again` the policies are judged again, in this many episodes that no choice and no other evaluation has seen.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from cold import machine, train_cold

from elbert.exact.frontier import best_reward_at
from elbert.experiments.evaluate import Conditions, evaluate_policy
from elbert.experiments.jobs import Job
from elbert.experiments.run_folder import RunFolder
from elbert.learning.result import Result
from elbert.tables import Column, Table, number


class Goal(NamedTuple):
    """What is asked for."""

    max_bias: float
    reward: float | None  # None: a part of the best possible
    part: float | None = None


GOALS = {
    "lending": Goal(0.01, None, 0.992),
    "attention-harder": Goal(0.02, -1.79),
    "attention": Goal(0.02, 0.70),
    "infectious-harder": Goal(0.02, 0.1985),
}
WITHIN = 0.03  # of the mean, that the worst seed may lie below it
CONFIRMED = 0.8  # of the seeds
AGAIN = 10_000_000  # plus the training's seed: that of the episodes in which it is judged again
COLUMNS = (
    Column("environment"),
    *(Column(name, right=True) for name in ("limit", "goal", "reward", "worst seed", "largest bias", "confirmed")),
    *(Column(name, right=True) for name in ("refuted", "seconds")),
    Column("missed"),
)


def judged_again(job: Job, out: Path, episodes: int) -> list[Result]:
    """The policies of a training in this many new episodes."""
    agents = RunFolder(out / job.name).agents()
    return [evaluate_policy(agent, Conditions(episodes=episodes, seed=AGAIN + agent.about.seed)) for agent in agents]


def row(env: str, goal: Goal, seeds: list[int], together: int, out: Path, again: int | None) -> tuple[str, ...]:
    """Train what is not there yet, and judge it."""
    groups = [seeds[i : i + together] for i in range(0, len(seeds), together)]
    jobs = [Job(env, "elbert-po", seeds=tuple(group), settings={"max_bias": goal.max_bias}) for group in groups]
    timed = [train_cold(job, out) for job in jobs]
    singles = [single for each in timed for single in each.result.singles]
    if again is not None:
        singles = [single for job in jobs for single in judged_again(job, out, again)]
    rewards = np.asarray([single.reward.mean for single in singles])
    verdicts = [single.limit.verdict for single in singles if single.limit is not None]
    best = best_reward_at(env, singles[0].horizon, goal.max_bias)
    wanted = goal.reward
    if goal.part is not None:
        assert best is not None
        wanted = goal.part * best.reward
    assert wanted is not None
    missed = [
        *(["reward"] if rewards.mean() < wanted else []),
        *(["worst seed"] if rewards.min() < rewards.mean() - WITHIN * abs(rewards.mean()) else []),
        *(["refuted"] if "refuted" in verdicts else []),
        *(["confirmed"] if verdicts.count("confirmed") < CONFIRMED * len(verdicts) else []),
    ]
    return (
        env,
        f"{goal.max_bias:g}",
        number(wanted),
        number(rewards.mean()),
        number(rewards.min()),
        number(max(single.worst.bias.debiased or 0.0 for single in singles)),
        f"{verdicts.count('confirmed')} of {len(verdicts)}",
        str(verdicts.count("refuted")),
        f"{sum(each.seconds for each in timed):.0f}",
        ", ".join(missed) or "nothing",
    )


def main() -> None:
    """Train, judge, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", nargs="*", help=", ".join(GOALS))
    parser.add_argument("--out", type=Path, default=Path("runs/goals"))
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--together", type=int, default=5)
    parser.add_argument("--again", type=int)
    given = parser.parse_args()
    if unknown := set(given.env) - {*GOALS}:
        parser.error(f"There are {', '.join(GOALS)}, not {', '.join(unknown)}.")
    seeds = list(range(given.first, given.first + given.seeds))
    rows = [row(env, GOALS[env], seeds, given.together, given.out, given.again) for env in given.env or GOALS]
    print(machine())
    print(Table(COLUMNS, tuple(rows)).to_markdown())


if __name__ == "__main__":
    main()
