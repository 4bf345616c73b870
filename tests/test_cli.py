"""The command line: what it prints, what it writes, how it refuses."""

import io
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from rich.console import Console

from elbert.envs import ENTRIES, describe
from elbert.errors import InvalidInputError
from elbert.experiments.environment_from import environment_from
from elbert.gym_ids import IDS
from elbert.report.pages import worlds_page
from tests.command_line import cli as run


def test_temporal_prints_the_table_and_writes_everything(tmp_path):
    done = run("reproduce", "temporal", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert "long-term bias (total approved / total applicants)        0.9802        0.9802" in done.stdout
    assert "sum of step-wise differences (Wen 2021, Chi 2022)         0.0000        0.9900" in done.stdout
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"temporal.md", "temporal.json", "temporal.png", "temporal.svg"}
    assert ET.parse(tmp_path / "out" / "temporal.svg").getroot().tag.endswith("svg")  # noqa: S314  (our own file)
    assert (tmp_path / "out" / "temporal.png").read_bytes().startswith(b"\x89PNG")
    table = (tmp_path / "out" / "temporal.md").read_text()
    assert {line.count("|") for line in table.splitlines()} == {4}


def test_json_is_one_document_and_the_same_as_the_file(tmp_path):
    done = run("reproduce", "temporal", "--json", cwd=tmp_path)
    printed = json.loads(done.stdout)
    assert printed == json.loads((tmp_path / "reproduction" / "temporal.json").read_text())
    assert [reading["long_term_bias"] for reading in printed] == pytest.approx([99 / 101] * 2)
    assert [reading["stepwise_difference"] for reading in printed] == pytest.approx([0, 0.99])


def test_the_same_command_writes_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        assert run("reproduce", "temporal", "--out", str(tmp_path / name)).returncode == 0
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_envs_lists_what_there_is():
    done = run("envs")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["lending", "2", "2", "choices", "2048", "equal-opportunity", "elbert/Lending-v0"] in rows
    attention = ["attention-harder", "5", "5", "in", "[-3,", "3]", "1024", "discovery-probability"]
    assert [*attention, "elbert/AttentionHarder-v0"] in rows
    listed = json.loads(run("envs", "--json").stdout)
    assert [world["name"] for world in listed] == list(IDS)


def test_names_and_ids_are_whole_on_a_narrow_terminal():
    shown = io.StringIO()
    Console(width=80, file=shown).print(worlds_page([describe(entry) for entry in ENTRIES.values()]))
    assert "\u2026" not in shown.getvalue()
    for word in ("groups", "horizon", "infectious-harder", "attention-harder"):
        assert word in shown.getvalue()


def test_envs_describes_one_with_its_parameters():
    shown = run("envs", "infectious-harder")
    assert shown.returncode == 0, shown.stderr
    assert ["waning", "0.2", "probability", "that", "a", "recovered"] in [
        line.split()[:6] for line in shown.stdout.splitlines()
    ]
    one = json.loads(run("envs", "elbert/Lending-v0", "--json").stdout)
    assert one["name"] == "lending"
    assert one["groups"] == 2
    assert one["horizon"] == 2048
    assert {"name": "shift", "default": 0.01}.items() <= next(
        p for p in one["parameters"] if p["name"] == "shift"
    ).items()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["envs", "lendign"], "Did you mean 'lending'?"),
        (["reproduce", "temporl"], "temporal"),
        (["reproduce", "temporal", "--oot", "x"], "--out"),
        (["nothing"], "nothing"),
    ],
)
def test_mistakes_get_a_hint_and_no_traceback(arguments, message):
    done = run(*arguments)
    assert done.returncode != 0
    assert message in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("precious")
    done = run("reproduce", "temporal", "--out", str(tmp_path / "file" / "below"))
    assert done.returncode == 2
    assert "Cannot write" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "file").read_text() == "precious"


def test_version_and_help():
    import elbert

    assert run("--version").stdout.strip() == elbert.__version__
    assert "reproduce" in run("--help").stdout


def test_no_figure_library_is_loaded_for_help():
    code = "import sys; sys.argv = ['elbert', '--help']\nfrom elbert.cli import main\n"
    code += "try: main()\nexcept SystemExit: pass\nassert not {'jax', 'matplotlib', 'scipy'} & set(sys.modules)"
    environment = os.environ | {"PYTHONWARNINGS": "error"}
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=environment)


def test_a_module_that_fails_leaves_nothing_behind(tmp_path):
    (tmp_path / "half_written.py").write_text("value = 1 / 0\n")
    with pytest.raises(InvalidInputError, match="ZeroDivisionError"):
        environment_from(f"{tmp_path / 'half_written.py'}:make")
    assert "half_written" not in sys.modules
