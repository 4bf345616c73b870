"""Rows and columns: nothing is cut at any width, and Markdown holds the same cells."""

import pytest

from elbert.tables import Column, Page, Table, as_text, facts

COLUMNS = (
    Column("run"),
    Column("reward / step", right=True),
    Column("95 % interval", right=True),
    Column("rates", folds=True),
    Column("note", detail=True),
)
ROWS = (
    ("attention-harder-elbert-po-1", "-1.9782", "-2.0123 .. -1.9441", "0.123 0.345 0.567 0.789 0.912", "x"),
    ("g-ppo", "-10.1234", "-10.5000 .. -9.7468", "0.100 0.200 0.300 0.400 0.500", "y"),
)


@pytest.mark.parametrize("width", [30, 50, 80, 90, 100, 140])
def test_nothing_is_cut_at_any_width(width):
    table = Table(COLUMNS, ROWS).brief()
    lines = as_text(table, width).splitlines()
    assert max(len(line) for line in lines) <= width
    words = " ".join(lines).split()
    for row in table.rows:
        assert all(word in words for cell in row for word in cell.split()), "a cell that is cut loses a whole word"
    assert "…" not in "".join(lines)


def test_a_narrow_table_is_folded_then_turned_then_stacked():
    table = Table(COLUMNS, ROWS).brief()
    wide, folded, turned, stacked = (as_text(table, width).splitlines() for width in (140, 90, 80, 50))
    assert next(line for line in wide if "-1.9782" in line).count(" 0.") == 5, "all in one line"
    assert any(line.strip() == "0.912" for line in folded), "the rates take two lines"
    assert turned[1].split() == ["run", "attention-harder-elbert-po-1", "g-ppo"]
    assert turned[3].split() == ["reward", "/", "step", "-1.9782", "-10.1234"]
    assert stacked[:2] == ["attention-harder-elbert-po-1", "  reward / step  -1.9782"]


def test_the_brief_form_leaves_out_details_and_empty_columns():
    columns = (Column("a"), Column("b"), Column("c", detail=True))
    brief = Table(columns, (("1", "", "x"), ("2", "", "y"))).brief()
    assert [column.heading for column in brief.columns] == ["a"]
    assert brief.rows == (("1",), ("2",))


def test_markdown_holds_every_cell_and_none_ends_early():
    table = Table(COLUMNS, (("a|b", "<1>", "x & y", "two\nlines", ""),))
    lines = table.to_markdown().splitlines()
    assert lines[1] == "| --- | ---: | ---: | --- | --- |"
    assert lines[2] == "| a\\|b | &lt;1> | x &amp; y | two lines |  |"
    page = Page(("# Head", "Words.", table)).to_markdown()
    assert page.startswith("# Head\n\nWords.\n\n| run |")


def test_markup_is_shown_as_it_is_and_facts_fold_on_a_narrow_page():
    shown = as_text(Page(("[red]x[/red]", facts([("name", "[bold]", "word " * 20)]))), 40)
    assert "[red]x[/red]" in shown
    assert "[bold]" in shown
    assert shown.count("word") == 20
