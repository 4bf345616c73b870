"""What the preset `fast` reaches, and how long it takes from a cold start: the tables of docs/results.md.

    python benchmarks/learning.py [--out FOLDER] [--seeds 3] [ENV ...]

In the three environments of the paper's main figure ELBERT-PO is trained once per seed, each in a process of its own
that compiles everything anew; its wall time is that of the whole command `elbert train`, evaluation included. All other
trainings run their seeds side by side. Every number is of the default evaluation protocol. What is finished is not run
again.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

GOALS = {  # environment: seconds, reward at least, bias at most
    "lending": (90, 0.183, 0.015),
    "attention-harder": (120, -2.05, 0.025),
    "infectious-harder": (120, 0.188, 0.04),
}
PUBLISHED = {
    "lending": {"elbert-po": (0.182, 0.024), "g-ppo": (0.150, 0.158)},
    "attention-harder": {"elbert-po": (-2.302, 0.037), "g-ppo": (-2.398, 0.314)},
    "infectious-harder": {"elbert-po": (0.177, 0.047), "g-ppo": (0.176, 1.264)},
}
ORIGINALS = ("attention", "infectious")
COLD = os.environ | {"ELBERT_COMPILATION_CACHE": ""}


def trained(folder: Path, env: str, method: str, options: list[str]) -> tuple[dict[str, Any], float]:
    """The evaluation of a training and the wall time of its command."""
    kept = folder / "wall.json"
    if not kept.exists():
        command = [sys.executable, "-m", "elbert", "train", env, "--method", method, *options, "--json"]
        begun = time.monotonic()
        subprocess.run([*command, "--out", str(folder), "--resume"], check=True, env=COLD, stdout=subprocess.DEVNULL)
        kept.write_text(json.dumps(time.monotonic() - begun))
    return json.loads((folder / "evaluation.json").read_text()), json.loads(kept.read_text())


def levels(result: dict[str, Any]) -> list[tuple[float, float]]:
    """Reward and bias of each seed."""
    each = result.get("seeds", [result])
    return [(one["reward"]["mean"], one["bias"]["estimate"]) for one in each]


def row(env: str, method: str, found: list[tuple[float, float]], walls: list[float], note: str) -> str:
    """One line of the table."""
    reward, bias = np.mean(found, axis=0)
    published = PUBLISHED.get(env, {}).get(method)
    theirs = "" if published is None else f"{published[0]:.3f} / {published[1]:.3f}"
    singles = ", ".join(f"{r:.4f} / {b:.4f}" for r, b in found)
    wall = f"{np.mean(walls):.0f} s (longest {max(walls):.0f} s)" if len(walls) > 1 else f"{walls[0]:.0f} s for all"
    return f"| {env} | {method} | {reward:.4f} | {bias:.4f} | {singles} | {theirs} | {wall} | {note} |"


def main() -> None:
    """Train, evaluate, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env", nargs="*", default=[*GOALS, *ORIGINALS])
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark"))
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print("| environment | method | reward | bias | per seed | published | wall time | goal |")
    print("| --- | --- | ---: | ---: | --- | --- | --- | --- |")
    for env in given.env:
        base: float | None = None
        for method in ("elbert-po", "g-ppo"):
            folder = given.out / f"{env}-{method}"
            if env in GOALS and method == "elbert-po":
                parts = [trained(folder / f"seed-{s}", env, method, ["--seed", str(s)]) for s in range(given.seeds)]
                found = [levels(result)[0] for result, _ in parts]
                walls = [wall for _, wall in parts]
                reward, bias = np.mean(found, axis=0)
                seconds, least, most = GOALS[env]
                met = max(walls) <= seconds and reward >= least and bias <= most
                note = f"{'met' if met else 'NOT MET'}: {seconds} s, {least} / {most}"
            else:
                result, wall = trained(folder, env, method, ["--seeds", str(given.seeds)])
                found, walls, note = levels(result), [wall], ""
            reward, bias = np.mean(found, axis=0)
            if env in ORIGINALS and method == "g-ppo" and base is not None:
                worse = (reward - base) / abs(reward)
                note = f"elbert-po's reward is {100 * worse:.1f} % below this" if worse > 0 else "elbert-po earns more"
            base = float(reward)
            print(row(env, method, found, walls, note), flush=True)


if __name__ == "__main__":
    main()
