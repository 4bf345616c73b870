"""How large a log can be: an audit of many rows of Parquet, next to fairlearn's MetricFrame on as many as it can take.

    python benchmarks/audit_scale.py [--rows 100000000] [--folder FOLDER] [--ray]

The log has 5 groups, 120 months and 100 000 units. Both run in processes of their own, one after the other, so that
times are a ratio of one run, and the memory is the peak of each process. With --ray, the same log is audited by a Ray
cluster of three nodes on this machine in place of fairlearn, and the answer must be that of the single scan.
"""
# pyright: reportMissingImports=false

import argparse
import datetime as dt
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

PART = 10_000_000
UNITS, MONTHS = 100_000, 120
GROUPS = ("north", "south", "east", "west", "middle")
FAIRLEARN_ROWS = 20_000_000
FAIRLEARN = """
import sys
import polars as pl
from fairlearn.metrics import MetricFrame, selection_rate
frame = pl.scan_parquet(sys.argv[1]).select("group", "approved").head(int(sys.argv[2])).collect().to_pandas()
found = MetricFrame(metrics=selection_rate, y_true=frame["approved"], y_pred=frame["approved"],
                    sensitive_features=frame["group"])
print(found.difference())
"""


def write_log(folder: Path, rows: int) -> None:
    """The log in files of ten million rows; one that is there already is kept."""
    months = np.array([dt.date(2010 + month // 12, month % 12 + 1, 15) for month in range(MONTHS)], "datetime64[D]")
    for number, first in enumerate(range(0, rows, PART)):
        path = folder / f"part-{number:03d}.parquet"
        if path.exists():
            continue
        rng = np.random.default_rng(number)
        size = min(PART, rows - first)
        unit = (UNITS * rng.random(size) ** 1.5).astype(np.int32)
        group = rng.choice(len(GROUPS), size, p=[0.4, 0.3, 0.15, 0.1, 0.05]).astype(np.int8)
        chance = 0.5 + 0.02 * group + 0.1 * np.sin(unit)
        pl.DataFrame(
            {
                "date": months[rng.integers(0, MONTHS, size)],
                "group": pl.Series(np.array(GROUPS)[group], dtype=pl.Enum(GROUPS)),
                "unit": unit,
                "approved": rng.random(size) < chance,
            }
        ).write_parquet(path)
        print(f"wrote {path.name}", file=sys.stderr, flush=True)


def measured(*command: str) -> tuple[float, float, str]:
    """Seconds, peak memory in GB so far among such processes, and what was printed."""
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begun
    if done.returncode not in (0, 1, 3):
        raise SystemExit(done.stderr)
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20, done.stdout


def on_a_cluster(*command: str) -> tuple[float, str]:
    """Seconds and what was printed by an audit on three nodes of one core each."""
    from ray.cluster_utils import Cluster

    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 300_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        for _ in range(2):
            cluster.add_node(**node)
        seconds, _, printed = measured(*command, "--ray", str(cluster.address))
        return seconds, printed
    finally:
        cluster.shutdown()


def main() -> None:
    """Write the log, audit it, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--folder", type=Path, help="where the log is kept; a temporary folder by default")
    parser.add_argument("--ray", action="store_true", help="compare with a Ray cluster of three nodes on this machine")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="elbert-audit-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        write_log(folder, given.rows)
        asked = ("--time", "date", "--group", "group", "--decision", "approved", "--unit", "unit", "--max-bias", "0.1")
        command = (sys.executable, "-m", "elbert", "audit", str(folder), *asked, "--json")
        seconds, memory, printed = measured(*command)
        answer = json.loads(printed)
        rows, units = answer["rows"], answer["units"]
        print(f"elbert audit: {rows:,} rows, {units:,} units: {seconds:.1f} s, {memory:.2f} GB at most")
        print(f"  verdict {answer['verdict']}, {1e-6 * rows / seconds:.2f} million rows a second")
        if given.ray:
            spread, on_three = on_a_cluster(*command)
            assert json.loads(on_three) == answer, "the cluster's answer is not that of the single scan"
            print(f"three nodes of a Ray cluster: the same answer in {spread:.1f} s")
            return
        fewer = min(FAIRLEARN_ROWS, rows)
        other, more, _ = measured(sys.executable, "-c", FAIRLEARN, str(folder / "*.parquet"), str(fewer))
        print(f"fairlearn MetricFrame, rates alone: {fewer:,} rows: {other:.1f} s, {more:.2f} GB at most")
        print(f"  per row, the audit takes {seconds / rows / (other / fewer):.2f} times as long")
    finally:
        if given.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
