"""`elbert export`: from a run to a model that the code on the page serves without JAX."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import elbert
from tests.command_line import cli

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "serve.md"
APART = """
actions, probabilities, noise = decide(np.ones((8, 11), np.float32))
assert actions.shape == (8,) and probabilities.shape == (8, 2) and noise.shape == (8, 1)
assert set(actions.tolist()) <= {0, 1}
import sys
assert not {"jax", "elbert", "gymnasium"} & set(sys.modules)
"""


@pytest.fixture
def runtime():
    """The extra, without which the tests that need it are skipped."""
    pytest.importorskip("onnx", reason="onnx is not installed")
    return pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def test_a_run_becomes_a_model_that_the_page_serves_without_jax(whole, tmp_path, runtime):
    done = cli("export", whole, "--seed", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1000 random observations: the same actions; largest difference of a probability" in done.stdout
    assert "Written: policy.onnx" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["input", "observation", "float32", "[batch,", "11]", "as", "the", "environment", "gives", "it"] in rows
    (server,) = re.findall(r"^```py\n(import numpy.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    code = [sys.executable, "-W", "error", "-c", server + APART]
    served = subprocess.run(code, cwd=tmp_path, capture_output=True, text=True)
    assert served.returncode == 0, served.stderr


def test_the_command_and_python_write_the_same(whole, tmp_path, runtime):
    done = cli("export", whole, "--member", "1", "--out", tmp_path / "policy", "--json")
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["path"] == str(tmp_path / "policy.onnx")
    assert [value["name"] for value in content["inputs"] + content["outputs"]] == [
        "observation", "noise", "action", "probabilities"
    ]  # fmt: skip
    exported = elbert.load(whole, seed=1).to_onnx(tmp_path / "other.onnx")
    assert exported.path.read_bytes() == (tmp_path / "policy.onnx").read_bytes()
    assert exported.to_dict() == content | {"path": str(exported.path)}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "holds agents of the seeds 0, 1. Say which one"),
        (["--seed", "7"], "Say which one"),
        (["--member", "2"], "a place from 0 to 1"),
    ],
)
def test_one_of_several_policies_has_to_be_named(whole, arguments, says, tmp_path):
    done = cli("export", whole, *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert not list(tmp_path.iterdir())


def test_what_has_no_network_is_refused(tmp_path):
    done = cli("export", "rule:lending/thresholds-2-1", cwd=tmp_path)
    assert done.returncode == 2
    assert "is a rule" in done.stderr
    (tmp_path / "model.zip").write_bytes(b"PK\x03\x04 and so on")
    done = cli("export", "model.zip", cwd=tmp_path)
    assert done.returncode == 2
    assert "stable-baselines3" in done.stderr
    assert "There is neither a run nor an agent in nowhere" in cli("export", "nowhere", cwd=tmp_path).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["model.zip"]


def test_without_the_extra_the_command_says_what_to_install(whole, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    done = cli("export", whole, "--seed", "0", cwd=tmp_path)
    assert done.returncode == 2
    assert "pip install 'elbert[onnx]'" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_model_that_cannot_be_written(whole, tmp_path, runtime):
    (tmp_path / "file").write_text("precious")
    done = cli("export", whole, "--seed", "0", "--out", tmp_path / "file" / "policy.onnx")
    assert done.returncode == 2
    assert "Cannot write" in done.stderr
    assert (tmp_path / "file").read_text() == "precious"
