"""What the published way of evaluating makes of a policy: few episodes, 1 added to every group's demand in each.

    python benchmarks/protocols.py RUN [RUN ...]

Every seed of a run is evaluated in the episodes of the default protocol. These are then cut into parts as large as the
published evaluations (3 episodes in lending, 200 in infectious, 10 in attention), and the bias of every part is taken
as published, with and without the 1.
"""

import argparse
from pathlib import Path

import numpy as np

from elbert.experiments.evaluate import evaluate, protocol_for
from elbert.experiments.run_folder import RunFolder


def largest_difference(supply: np.ndarray, demand: np.ndarray) -> np.ndarray:
    """The bias of pooled episodes. [..., episodes, groups] -> [...]"""
    return np.ptp(supply.sum(axis=-2) / demand.sum(axis=-2), axis=-1)


def main() -> None:
    """Evaluate, cut, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="+", type=Path)
    print(
        "| run | bias, all episodes | with 1 added | published size: mean, deviation | with 1 added: mean, deviation |"
    )
    print("| --- | ---: | ---: | ---: | ---: |")
    for path in parser.parse_args().run:
        rows = []
        for i, agent in enumerate(RunFolder(path).agents()):
            plan = protocol_for("paper", agent.about.env)
            totals = evaluate(agent, seed=1 + i).report.totals
            supply, demand = totals.supply[:, 0], totals.demand[:, 0]
            parts = len(supply) // plan.episodes
            cut = [x[: parts * plan.episodes].reshape(parts, plan.episodes, -1) for x in (supply, demand)]
            small = [largest_difference(cut[0], cut[1] + extra) for extra in (0.0, plan.extra_demand)]
            whole = [largest_difference(supply, demand + extra) for extra in (0.0, plan.extra_demand)]
            rows.append([*whole, *(f(x) for x in small for f in (np.mean, np.std))])
        mean = np.mean(rows, axis=0)
        print(
            f"| {path.name.rpartition('-')[0]} | {mean[0]:.4f} | {mean[1]:.4f} | {mean[2]:.4f}, {mean[3]:.4f} "
            f"| {mean[4]:.4f}, {mean[5]:.4f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
