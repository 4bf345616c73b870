"""What a limit on the bias reaches in the five environments: the table "A limit" of docs/results.md.

    python benchmarks/limits.py [--out FOLDER] [--seeds 3] [--limits 0.01 0.02 0.05] [ENV ...]

Each training is the command `elbert train ENV --max-bias LIMIT --seeds SEEDS`, all seeds side by side, in a process
that compiles everything anew; its wall time is that of the whole command, with the choice among candidates and the
evaluation. Every number is of the default evaluation protocol. What is finished is not run again.
"""

import argparse
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

from elbert.exact.frontier import best_reward_at
from learning import trained

ENVS = ("lending", "attention-harder", "infectious-harder", "attention", "infectious")
LIMITS = (0.01, 0.02, 0.05)
SECONDS = {"lending": 180, "attention-harder": 240, "infectious-harder": 240}
"""For one seed. Three side by side are allowed three times as much."""
REWARDS = {("attention-harder", 0.02): -1.95, ("infectious-harder", 0.02): 0.185}
OF_BEST = {"lending": 0.97}


def goals(env: str, limit: float, results: list[dict[str, Any]], wall: float) -> list[str]:
    """What was not reached, in words."""
    missed = []
    for seed, result in enumerate(results):
        bias = result["bias"]
        if bias["debiased"] > limit and bias["ci"][0] > limit:
            missed.append(f"bias of seed {seed}")
    reward = float(np.mean([result["reward"]["mean"] for result in results]))
    if reward < REWARDS.get((env, limit), -np.inf):
        missed.append(f"reward {REWARDS[env, limit]}")
    if env in OF_BEST:
        best = best_reward_at(env, results[0]["horizon"], limit)
        if best is not None and reward < OF_BEST[env] * best.reward:
            missed.append(f"{100 * OF_BEST[env]:.0f} % of the best")
    if wall > len(results) * SECONDS.get(env, np.inf):
        missed.append(f"{len(results) * SECONDS[env]} s")
    return missed


def row(env: str, limit: float, results: list[dict[str, Any]], wall: float) -> str:
    """One line of the table."""
    rewards = [result["reward"]["mean"] for result in results]
    debiased = [result["bias"]["debiased"] for result in results]
    verdicts = [result["limit"]["verdict"] for result in results]
    prices = [result["limit"]["price"] for result in results]
    best = best_reward_at(env, results[0]["horizon"], limit)
    of_best = "" if best is None or not best.exact else f"{100 * np.mean(rewards) / best.reward:.1f} %"
    missed = goals(env, limit, results, wall)
    cells = [
        env,
        f"{limit:g}",
        f"{np.mean(rewards):.4f}",
        of_best,
        ", ".join(f"{bias:.4f}" for bias in debiased),
        ", ".join(verdicts),
        f"{np.mean(prices):.3g}",
        f"{wall:.0f}",
        "met" if not missed else "NOT MET: " + ", ".join(missed),
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Train, evaluate, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env", nargs="*", default=ENVS)
    parser.add_argument("--out", type=Path, default=Path("runs/limits"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limits", type=float, nargs="+", default=LIMITS)
    given = parser.parse_args()
    print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print("| environment | limit | reward | of best | debiased bias per seed | verdicts | price | seconds | goals |")
    print("| --- | ---: | ---: | ---: | --- | --- | ---: | --- | --- |")
    for env in given.env:
        for limit in given.limits:
            folder = given.out / f"{env}-{limit:g}"
            options = ["--max-bias", str(limit), "--seeds", str(given.seeds)]
            result, wall = trained(folder, env, "elbert-po", options)
            found = result.get("seeds", [result])
            print(row(env, limit, found, wall), flush=True)


if __name__ == "__main__":
    main()
