"""Columns of plain values, and what pandas and polars make of them."""

import math
import sys

import pytest

import elbert
from elbert.errors import ElbertError, InvalidInputError
from elbert.frames import Frame

KINDS = {"name": str, "count": int, "rate": float, "sure": bool}
FRAME = Frame.of_rows(
    [
        {"name": "<a>", "count": 1, "rate": None, "sure": True},
        {"name": "b", "count": 2, "rate": 0.5, "sure": False},
    ],
    KINDS,
)


def test_columns_rows_and_names():
    assert (len(FRAME), list(FRAME), FRAME["count"]) == (2, list(KINDS), (1, 2))
    assert FRAME.to_dict() == {"name": ["<a>", "b"], "count": [1, 2], "rate": [None, 0.5], "sure": [True, False]}
    assert repr(FRAME) == "Frame(2 rows: name, count, rate, sure)"
    with pytest.raises(InvalidInputError, match=r"No column is called 'rates'\. Did you mean 'rate'"):
        FRAME["rates"]
    assert "&lt;a&gt;" in FRAME._repr_html_()


@pytest.mark.parametrize("frame", [FRAME, Frame.of_rows([], KINDS)], ids=["rows", "empty"])
def test_pandas_gets_typed_columns_without_pyarrow(frame, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # importing it fails
    given = frame.to_pandas()
    assert list(given.columns) == list(KINDS)
    assert given["rate"].dtype == float, "None is NaN, not an object"
    if len(frame):
        assert math.isnan(given["rate"][0])
        assert given["count"].sum() == 3


@pytest.mark.parametrize("frame", [FRAME, Frame.of_rows([], KINDS)], ids=["rows", "empty"])
def test_polars_gets_typed_columns(frame):
    given = frame.to_polars()
    assert [str(kind) for kind in given.dtypes] == ["String", "Int64", "Float64", "Boolean"]
    assert given.height == len(frame)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_is_named(library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ElbertError, match=f"needs {library}. Install it: pip install {library}"):
        getattr(FRAME, f"to_{library}")()


def test_a_report_gives_pandas_what_it_gives_polars():
    report = elbert.benefit_report([[1.0, 0.0], [2.0, 0.0]], [[4.0, 0.0], [4.0, 0.0]], groups=["a", "b"])
    ours, theirs = report.to_pandas(), report.to_frame()
    assert list(ours.columns) == theirs.columns
    assert (ours["rate"][0], ours["supply"][0]) == (0.375, 1.5)
    assert ours["rate"].isna().tolist() == [False, True]
    assert theirs["rate"][1] is None
    assert ours["reason"][1] == theirs["reason"][1]
