"""What is installed works without the repository: measuring without JAX, and the wheel in a fresh environment."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WITHOUT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"jax", "jaxlib", "equinox", "optax", "gymnasium", "matplotlib", "polars"}:
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
import elbert
report = elbert.benefit_report([[3, 4], [2, 5], [3, 3]], [[5, 6], [4, 7], [5, 5]], groups=["a", "b"])
print(report, report.test(max_bias=0.5).verdict)
"""


def test_measuring_needs_no_training_stack():
    """An import of JAX at the top of a module that the statistics need turns this red."""
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "0.5714" in done.stdout  # (3 + 2 + 3) / (5 + 4 + 5)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder of programs of a fresh environment that has the wheel and stable-baselines3."""
    place = tmp_path_factory.mktemp("wheel")
    quiet = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", place, ROOT], check=True, env=quiet)
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
    programs = place / "venv" / "bin"
    pip = [programs / "python", "-m", "pip", "install", "-q"]
    subprocess.run([*pip, "torch==2.13.0"], check=True, env=quiet)  # first: a range would pull accelerator packages
    subprocess.run([*pip, next(place.glob("*.whl")), "stable-baselines3"], check=True, env=quiet)
    return programs


@pytest.mark.slow
def test_the_wheel_opens_every_door(installed, tmp_path):
    """Outside the repository: each door that the README names, shortened."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "XLA_FLAGS")}
    environment |= {"PATH": f"{installed}:{os.environ['PATH']}", "ELBERT_COMPILATION_CACHE": ""}

    def run(command, code=0):
        done = subprocess.run(command.split(), cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    judged = run("python examples/judge_sb3_model.py --steps 1024 --episodes 16")
    assert "north" in judged
    assert "longest queue" in judged
    groups = run("python examples/four_groups.py --steps 8192 --episodes 16 --out groups.png")
    assert "west" in groups
    assert (tmp_path / "groups.png").stat().st_size > 10_000
    run("python examples/sweep.py --steps 80000 --seeds 1 --episodes 4 --out sweep")
    assert (tmp_path / "sweep" / "trade-off.png").stat().st_size > 10_000
    assert "supply" in run("elbert train CartPole-v1 --max-bias 0.1", code=2)
    run("elbert train infectious --steps 5120 --seed 3 --no-evaluate --out run")
    assert "beyond the limit" in run("bash examples/gate.sh run 0.0001", code=1)
