"""The program as users run it: optimised by XLA, with its own cache of compiled functions, in a process of its own."""

import json
import os
import subprocess
import sys

import pytest

SPECIAL = ("XLA_FLAGS", "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS")
SMALL = ["--steps", "1536", "--world", "horizon=64"]
SMALL += [word for pair in ("copies=4", "rollout=64", "minibatch=64", "hidden=[4]") for word in ("--set", pair)]


@pytest.mark.slow
def test_training_under_a_limit_and_its_cache(tmp_path):
    """Two trainings of one seed end with the same numbers; the second one finds what the first compiled."""
    plain = {name: value for name, value in os.environ.items() if name not in SPECIAL}
    environment = plain | {"ELBERT_COMPILATION_CACHE": str(tmp_path / "cache")}

    def train(name):
        command = [sys.executable, "-m", "elbert", "train", "lending", "--max-bias", "0.1", "--json", "--out", name]
        done = subprocess.run([*command, *SMALL], capture_output=True, text=True, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        kept = {path.name for path in (tmp_path / "cache").rglob("*") if path.is_file() and "atime" not in path.name}
        return json.loads(done.stdout) | {"train_seconds": None}, kept

    first, compiled = train("first")
    again, both = train("again")
    assert first == again
    iterations = [{name for name in names if "iteration" in name} for names in (compiled, both)]
    assert iterations[0], "what takes its time to compile is kept"
    assert iterations[0] == iterations[1], "and found again; what takes half a second may be kept now or later"
    assert first["limit"]["max_bias"] == 0.1
