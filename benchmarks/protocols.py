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
from elbert.tables import Column, Table, number

COLUMNS = (
    Column("run"),
    Column("bias, all episodes", right=True),
    Column("with 1 added", right=True),
    Column("published size: mean, deviation", right=True),
    Column("with 1 added: mean, deviation", right=True),
)


def largest_difference(supply: np.ndarray, demand: np.ndarray) -> np.ndarray:
    """The bias of pooled episodes. [..., episodes, groups] -> [...]"""
    return np.ptp(supply.sum(axis=-2) / demand.sum(axis=-2), axis=-1)


def row(path: Path) -> tuple[str, ...]:
    """One line of the table: means over the seeds of a run."""
    levels = []
    for place, agent in enumerate(RunFolder(path).agents()):
        protocol = protocol_for("paper", agent.about.env)
        report = evaluate(agent, seed=1 + place).report
        assert report is not None, "what was just evaluated has its report"
        totals = report.totals
        assert totals is not None
        supply, demand = totals.supply[:, 0], totals.demand[:, 0]
        parts = len(supply) // protocol.episodes
        small = [x[: parts * protocol.episodes].reshape(parts, protocol.episodes, -1) for x in (supply, demand)]
        biases = [largest_difference(supply, demand + extra) for extra in (0.0, protocol.extra_demand)]
        for extra in (0.0, protocol.extra_demand):
            each = largest_difference(small[0], small[1] + extra)
            biases += [each.mean(), each.std()]
        levels.append(biases)
    whole, added, mean, deviation, mean_added, deviation_added = np.mean(levels, axis=0)
    return (
        path.name.rpartition("-")[0],
        number(whole),
        number(added),
        f"{mean:.4f}, {deviation:.4f}",
        f"{mean_added:.4f}, {deviation_added:.4f}",
    )


def main() -> None:
    """Evaluate, cut, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="+", type=Path)
    print(Table(COLUMNS, tuple(row(path) for path in parser.parse_args().run)).to_markdown())


if __name__ == "__main__":
    main()
