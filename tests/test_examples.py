"""The examples run, and are as short as they promise."""

import re
import runpy
from pathlib import Path

import pytest

import elbert

EXAMPLE = Path(__file__).parents[1] / "examples" / "own_environment.py"


@pytest.mark.slow
def test_own_environment(capsys):
    names = runpy.run_path(str(EXAMPLE), run_name="__main__")
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
    assert len(EXAMPLE.read_text().splitlines()) <= 60
