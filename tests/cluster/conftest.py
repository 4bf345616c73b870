"""One Ray cluster of three nodes for all tests of this folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.worlds import PAUSE

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    "ELBERT_COMPILATION_CACHE": "",
}
NODES = {  # what workers inherit from their nodes
    PAUSE: "0.1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "200",  # on a busy machine
    "RAY_worker_niceness": "0",  # Ray's workers let every other process go first, and would hardly train there
}


class ThreeNodes:
    """Three nodes of one core each. The first one holds the cluster together; the others may die."""

    def __init__(self, process):
        self._process = process
        self._read()

    def _read(self):
        said = json.loads(self._process.stdout.readline())
        self.address, self.mortal = said["address"], said["mortal"]

    def kill(self, node):
        """Kill one of the mortal nodes; another takes its place when `replaced` returns."""
        self._process.stdin.write(f"{node}\n")
        self._process.stdin.flush()

    def replaced(self):
        self._read()


@pytest.fixture(scope="session")
def cluster():
    pytest.importorskip("ray")
    command = [sys.executable, "-m", "tests.cluster.nodes"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, env=ENVIRONMENT | NODES, cwd=ROOT, **pipes) as process:
        yield ThreeNodes(process)
        process.communicate()
    assert process.returncode == 0
