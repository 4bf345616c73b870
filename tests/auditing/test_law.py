"""The table of Local Law 144, by hand."""

import numpy as np
import polars as pl
import pytest

import elbert
from elbert.errors import InvalidInputError
from tests.command_line import cli


def people(cells):
    """Rows from {(sex, race): (selected, all)}."""
    rows = [(*key, int(i < yes)) for key, (yes, total) in cells.items() for i in range(total)]
    return pl.DataFrame(rows, schema=["sex", "race", "selected"], orient="row")


CELLS = {
    ("female", "x"): (60, 150),
    ("female", "y"): (20, 100),
    ("male", "x"): (100, 200),
    ("male", "y"): (15, 50),
    ("male", "z"): (4, 6),
    ("", "x"): (1, 9),
    ("male", "unknown"): (0, 3),
}


def test_selection_rates_and_impact_ratios_by_hand():
    table = elbert.law_table(people(CELLS), group=["sex", "race"], decision="selected", progress=None)
    assert (table.rate, table.median, table.rows) == ("selection rate", None, 518)
    sex, race, both = table.sections
    assert (sex.by, race.by, both.by) == ("sex", "race", "sex and race")
    shown = {each.category: (each.people, each.selected, each.rate, each.impact_ratio) for each in sex.categories}
    men, women = 119 / 259, 80 / 250
    assert shown == {
        "male": (259, 119, pytest.approx(men), 1.0),
        "female": (250, 80, pytest.approx(women), pytest.approx(women / men)),
    }
    assert (sex.unknown, race.unknown, both.unknown) == (9, 3, 12)
    ratios = {each.category: each.impact_ratio for each in race.categories}
    assert ratios["z"] is None, "6 of 515 people are fewer than 2 %"
    assert ratios["x"] == 1.0, "z has the highest rate, and is too small to be the measure"
    assert ratios["y"] == pytest.approx((35 / 150) / (161 / 359))
    small = next(each for each in race.categories if each.category == "z")
    assert (small.people, small.selected, small.rate) == (6, 4, pytest.approx(2 / 3)), "shown all the same"
    assert both.categories[0].category == "male, x"


def test_scoring_rates_are_shares_above_the_median():
    rng = np.random.default_rng(0)
    frame = people(CELLS).with_columns(pl.Series("score", rng.normal(size=518).round(3)))
    table = elbert.law_table(frame, group="sex", decision="score", progress=None)
    median = frame["score"].median()
    assert (table.rate, table.median) == ("scoring rate", median)
    for each in table.sections[0].categories:
        own = frame.filter(pl.col("sex") == each.category)["score"]
        assert each.rate == pytest.approx((own > median).mean())


def test_the_command_prints_it(tmp_path):
    people(CELLS).write_csv(tmp_path / "applicants.csv")
    asked = ["--group", "sex", "--group", "race", "--decision", "selected", "--law", "ll144"]
    done = cli("audit", tmp_path / "applicants.csv", *asked, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "Local Law 144: selection rates and impact ratios" in done.stdout
    assert "under 2 %" in done.stdout
    assert "12 people of unknown category are not in this table" in done.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"audit.html", "audit.json", "audit.md"}


def test_what_the_law_needs_is_said():
    with pytest.raises(InvalidInputError, match="who was selected, or the scores"):
        elbert.law_table(people(CELLS), group="sex", progress=None)
    with pytest.raises(InvalidInputError, match=r"elbert\.law_table"):
        elbert.audit(people(CELLS), group="sex", decision="selected", law="ll144", progress=None)
