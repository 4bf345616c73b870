"""The examples run, and are as short as they promise."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

import elbert

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
def test_own_environment(capsys):
    names = runpy.run_path(str(EXAMPLES / "own_environment.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert "Environment, ready: 3 groups; 500 steps with random actions, 8 episodes ended." in shown
    assert "Note:" not in shown
    assert "From 100 episodes." in shown
    found = {
        name: float(bias) for name, bias in re.findall(r"^([\w-]+): reward .*, bias ([\d.]+)$", shown, re.MULTILINE)
    }
    assert found["elbert-po"] < 0.08 < 0.2 < found["g-ppo"], shown  # the limit is 0.05, seen through noise
    assert elbert.check_env(names["make"](), steps=100).groups == 3


def test_own_environment_is_short():
    assert len((EXAMPLES / "own_environment.py").read_text().splitlines()) <= 60


@pytest.mark.slow
def test_four_groups_keep_their_names(monkeypatch, tmp_path, capsys):
    """Names that are lost between the wrapper and a table or a picture turn this red."""
    picture = tmp_path / "groups.png"
    options = ["--steps", "4096", "--episodes", "16", "--out", str(picture)]
    monkeypatch.setattr(sys, "argv", ["four_groups.py", *options])
    runpy.run_path(str(EXAMPLES / "four_groups.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("north", "east", "south", "west", "longest queue", "limit 0.05"))
    assert picture.stat().st_size > 10_000


@pytest.mark.slow
def test_the_notebook_runs():
    """Its cells, in order, in one namespace, shortened."""
    cells = json.loads((EXAMPLES / "lending.ipynb").read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert not any(cell.get("outputs") for cell in cells), "outputs belong to the reader's run, not to the repository"
    shorter = code.replace("400_000", "16_000").replace("1000", "100").replace("episodes=50", "episodes=8")
    names = {}
    exec(compile(shorter, "lending.ipynb", "exec"), names)  # noqa: S102  (our own example)
    assert names["fair"].limit.max_bias == 0.05
    assert "<table" in names["comparison"]._repr_html_()
