"""`elbert audit` as people run it: exit codes, JSON, TOML, files, and mistakes."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import polars as pl
import pytest

import elbert
from tests.auditing.logs import clustered
from tests.command_line import cli, cli_apart

EXAMPLE = Path(__file__).parents[2] / "examples" / "loans.csv"
ASKED = ["--time", "date", "--group", "group", "--decision", "decision", "--unit", "officer"]


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    clustered(units=200, spread=0.02, rates=(0.6, 0.6), seed=1).write_csv(path)
    return path


@pytest.mark.parametrize(
    ("limit", "code", "words"),
    [
        (None, 0, "a difference of"),
        ("0.08", 0, "Within the limit: a bias of at most 0.08 is confirmed"),
        ("0.0", 3, "Undetermined: a bias of at most 0 is neither confirmed nor refuted"),
    ],
)
def test_the_exit_code_is_the_verdict(log, limit, code, words):
    done = cli("audit", log, *ASKED, *([] if limit is None else ["--max-bias", limit]))
    assert done.returncode == code, done.stderr
    assert words in done.stdout


@pytest.mark.slow
def test_beyond_the_limit_in_a_process_of_its_own(tmp_path):
    asked = ["--time", "date", "--group", "group", "--decision", "approved", "--max-bias", "0.05"]
    done = cli_apart("audit", str(EXAMPLE), *asked, "--unit", "officer", "--out", str(tmp_path / "out"))
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("Beyond the limit: a bias of at most 0.05 is refuted.\n")
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"audit.html", "audit.json", "audit.md", "course-1.png", "course-1.svg"}
    assert ET.parse(tmp_path / "out" / "course-1.svg").getroot().tag.endswith("svg")  # noqa: S314  (our own file)
    text = (tmp_path / "out" / "audit.md").read_text()
    assert text.startswith("# Beyond the limit")
    assert "## Where it comes from" in text


def test_json_is_what_python_gives(log):
    printed = json.loads(cli("audit", log, *ASKED, "--max-bias", "0.05", "--json").stdout)
    answer = elbert.audit(
        log, time="date", group="group", decision="decision", unit="officer", max_bias=0.05, progress=None
    )
    assert printed == json.loads(json.dumps(answer.to_dict()))
    assert printed["files"][0]["sha256"]
    assert printed["versions"]["elbert"] == elbert.__version__


def test_a_question_in_a_file(log, tmp_path):
    (tmp_path / "audit.toml").write_text(
        'log = "log.csv"\ntime = "date"\ngroup = "group"\ndecision = "decision"\nunit = "officer"\nmax-bias = 0.08\n'
    )
    assert cli("audit", tmp_path / "audit.toml").returncode == 0
    assert cli("audit", tmp_path / "audit.toml", "--max-bias", "0.0").returncode == 3, "what is typed takes precedence"
    (tmp_path / "wrong.toml").write_text('log = "log.csv"\ndesicion = "decision"\n')
    done = cli("audit", tmp_path / "wrong.toml")
    assert done.returncode == 2
    assert "Did you mean 'decision'?" in " ".join(done.stderr.split())
    (tmp_path / "broken.toml").write_text("log = \n")
    assert "is no TOML file" in " ".join(cli("audit", tmp_path / "broken.toml").stderr.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--group", "gruop", "--decision", "decision", "--time", "date"], "Did you mean 'group'? It has officer"),
        (["--decision", "decision", "--time", "date"], "No group is given"),
        (["--group", "group", "--decision", "decision"], "Neither a time nor a unit is given"),
        (["--group", "group", "--decision", "decision", "--time", "date", "--period", "moth"], "'month'"),
        (["--group", "group", "--decision", "date", "--time", "date"], "Say which of them counts"),
        (["--group", "group", "--decision", "decision", "--time", "date", "--burdn"], "--burden"),
    ],
)
def test_mistakes_end_with_2_and_say_what_to_do(log, arguments, words):
    done = cli("audit", log, *arguments)
    assert done.returncode == 2
    assert words in " ".join((done.stderr + done.stdout).split())
    assert "Traceback" not in done.stderr


def test_names_from_the_log_change_nothing_in_what_is_written(tmp_path):
    hostile = "<script>alert(1)</script> [b](javascript:x) | $x_1$ " + "\u202e" + "n" * 500
    frame = clustered(units=40, seed=2).with_columns(
        pl.col("group").replace({"group a": hostile, "group b": "[red]b[/red]"})
    )
    answer = elbert.audit(frame, time="date", group="group", decision="decision", progress=None)
    from elbert.report.audit_pages import write_audit

    written = write_audit(answer, tmp_path)
    text = next(path for path in written if path.suffix == ".md").read_text()
    assert "<script>" not in text
    assert "](javascript" not in text
    assert "\u202e" not in text + str(answer) + answer._repr_html_()
    assert "<script>" not in answer._repr_html_()
    assert "[red]b[/red]" in str(answer)
    svg = next(path for path in written if path.suffix == ".svg").read_text()
    assert "<script>" not in svg


def test_the_picture_of_an_audit():
    answer = elbert.audit(clustered(units=40), time="date", group="group", decision="decision", progress=None)
    assert len(answer.plot().axes) == 4
    timeless = elbert.audit(clustered(units=40), unit="officer", group="group", decision="decision", progress=None)
    assert timeless.plot().axes
