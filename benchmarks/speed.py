"""How long the fairness room takes, beside the plain way of doing the same work, measured in one run.

python benchmarks/speed.py
"""

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from elbert.fairness import EpisodeTotals, benefit_report, estimate_rates


def seconds(work: Callable[[], Any], repeat: int = 3) -> float:
    """The fastest of a few runs."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def import_seconds(module: str) -> float:
    """Time of an import in a fresh interpreter, less that of starting it."""
    return seconds(lambda: subprocess.run([sys.executable, "-c", f"import {module}"], check=True)) - seconds(
        lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)
    )


def main() -> None:
    """Print the times."""
    rng = np.random.default_rng(0)
    demand = rng.poisson(40, (1000, 100)).astype(float)
    supply = rng.binomial(demand.astype(int), 0.5).astype(float)
    totals = EpisodeTotals.of(supply, demand)
    report = seconds(lambda: benefit_report(supply, demand))
    resamples = 10_000
    bootstrap = seconds(lambda: estimate_rates(totals, method="bootstrap", resamples=resamples), 1)
    columns = 2
    peer = seconds(
        lambda: [
            stats.bootstrap(
                (supply[:, g], demand[:, g]),
                lambda s, d, axis: s.sum(axis=axis) / d.sum(axis=axis),
                paired=True,
                vectorized=True,
                n_resamples=resamples,
                method="percentile",
                rng=0,
            )
            for g in range(columns)
        ],
        1,
    )
    print(f"import elbert                                     {1000 * import_seconds('elbert'):8.1f} ms")
    print(f"import elbert.fairness                            {1000 * import_seconds('elbert.fairness'):8.1f} ms")
    print(f"report, 1 000 episodes x 100 groups               {1000 * report:8.1f} ms")
    print(f"bootstrap of it, {resamples} resamples              {1000 * bootstrap:8.1f} ms")
    print(
        f"scipy.stats.bootstrap, {columns} of the groups x {100 // columns}    {1000 * peer * 100 / columns:12.1f} ms"
    )
    print(f"ratio                                             {peer * 100 / columns / bootstrap:8.1f}")


if __name__ == "__main__":
    main()
