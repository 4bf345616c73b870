"""docs/names.md says what everything is called; here it is compared with what there is."""

# pyright: reportArgumentType=false

import inspect
import re
from dataclasses import fields
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

import elbert
from elbert import cli, exit_codes
from elbert.experiments.run_metrics import read_metrics
from elbert.learning.methods import BiasLimit
from elbert.learning.result import judged
from elbert.learning.simulators import Episodes
from elbert.report.pages import result_page
from elbert.tables import as_text

PAGE = (Path(__file__).parents[1] / "docs" / "names.md").read_text()


def table(heading):
    """The cells of the table below a heading, by row."""
    below = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in below.splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in row] for row in rows[2:]]


def at(thing, path):
    """What stands under a dotted name, in an object or in JSON."""

    def step(thing, name):
        if name.isdigit():
            return thing[int(name)]
        return thing[name] if isinstance(thing, dict) else getattr(thing, name)

    return reduce(step, re.findall(r"[A-Za-z_]+|\d+", path), thing)


def plain(value):
    return list(value) if isinstance(value, tuple) else value


@pytest.fixture(scope="module")
def result():
    episodes = 40
    noise = np.random.default_rng(0).uniform(-0.01, 0.01, (episodes, 1, 2))
    sums = Episodes(
        reward=np.linspace(1.0, 2.0, episodes),
        length=np.full(episodes, 8),
        supply=8 * (0.5 + noise),
        demand=np.full((episodes, 1, 2), 8.0),
    )
    return judged(sums, env="lending", method="elbert-po", criteria=("rate",), max_bias=0.1)


def test_an_evaluation_has_one_name_for_one_thing(result):
    content, shown = result.to_dict(), " ".join(as_text(result_page(result), 200).split())
    rows = table("An evaluation")
    for quantity, _, python, json_name, words in rows:
        value = at(result, python)
        assert value is not None, quantity
        assert plain(value) == at(content, json_name), quantity
        assert words in shown, quantity
    names = {python for _, _, python, _, _ in rows}
    left = {"criterion.bias.left_out", "criterion.bias.reliable"}  # of which groups and how much to believe, no numbers
    assert {f"criterion.bias.{name}" for name in vars(result.criterion.bias)} - left <= names
    assert {f"criterion.groups[0].{name}" for name in vars(result.criterion.groups[0])} - names == {
        "criterion.groups[0].group"
    }


def test_the_units_are_what_the_page_says(result):
    group, totals = result.criterion.groups[0], result.report.criteria[0].groups[0]
    assert (group.demand, totals.demand) == (1.0, 8.0), "8 in an episode of 8 steps"
    assert result.reward.mean == pytest.approx(1.5 / 8)
    units = {(row[0], row[1]) for row in (*table("An evaluation"), *table("A report from totals"))}
    assert {("demand of a group", "per step"), ("demand of a group", "per episode")} <= units


def test_a_report_has_the_same_names(result):
    report = result.report
    criterion, content, text = report.criteria[0], report.to_dict()["criteria"][0], str(report)
    frame = report.to_frame().row(0, named=True)
    for quantity, _, python, json_name, columns, words in table("A report from totals"):
        value = at(criterion, python)
        assert value is not None, quantity
        assert plain(value) == at(content, json_name), quantity
        assert words in text, quantity
        if columns:
            in_frame = [frame[name.strip("` ")] for name in columns.split(",")]
            assert in_frame == (list(value) if isinstance(value, tuple) else [value]), quantity


def test_an_audit_has_the_same_names():
    log = Path(__file__).parents[1] / "examples" / "loans.csv"
    asked = {"time": "date", "group": "group", "decision": "approved", "unit": "officer", "max_bias": 0.05}
    audit = elbert.audit(log, progress=None, **asked)
    content, shown = audit.to_dict(), " ".join(as_text(audit._page(), 200).split())
    for quantity, _, python, json_name, words in table("An audit"):
        value = at(audit, python)
        assert value is not None, quantity
        assert plain(value) == at(content, json_name), quantity
        assert words in shown, quantity


def test_metrics_have_these_columns(tmp_path):
    source = Path(__file__).parent / "experiments" / "data" / "run-0.1.0"
    columns = read_metrics(source)
    for _, _, column in table("A rollout in training"):
        assert column in columns


def test_a_limit_is_called_max_bias_everywhere():
    for _, command, python in table("Where a limit is given"):
        asked = {field.name for field in fields(elbert.Question)}
        given = inspect.signature(getattr(cli, command.split()[1])).parameters
        assert "max_bias" in (asked if "question" in given else given)
        function = python.removesuffix("(max_bias=)").removeprefix("elbert.")
        taken = inspect.signature(at(elbert, function)).parameters
        assert "max_bias" in (BiasLimit.settings() if "settings" in taken else asked if "question" in taken else taken)


def test_exit_codes_are_those_of_the_package():
    codes = {int(code) for row in table("Exit codes") for code in row[0].split(",")}
    assert {exit_codes.CONFIRMED, exit_codes.REFUTED, exit_codes.UNDETERMINED, cli.CRASHED, 2} <= codes
