"""Sums of amounts are the nearest to the true sums, in any order, any split and any engine."""
# pyright: reportOptionalMemberAccess=false, reportMissingImports=false, reportArgumentType=false

import math
from itertools import pairwise

import duckdb
import narwhals as nw
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import elbert
from elbert.auditing.exact_sums import assembled, exact_sums, grids_of, summed

ANY_AMOUNTS = st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=40)
USUAL_AMOUNTS = st.lists(st.integers(0, 10**7).map(lambda cents: cents / 100), min_size=1, max_size=40)


def same_bits(one, other):
    return np.asarray(one, float).tobytes() == np.asarray(other, float).tobytes()


def in_parts(values, keys, cuts):
    """Sums of a table that is cut into parts, which are asked and added up one by one."""
    table = pl.DataFrame({"key": keys, "amount": values}, schema={"key": pl.Int64, "amount": pl.Float64})
    ends = [0, *sorted(cuts), table.height]
    parts = [table[a:b] for a, b in pairwise(ends)]

    def ask(query, together):
        return together(pl.concat([query(nw.from_native(part.lazy())).to_native().collect() for part in parts]))

    grids = grids_of(ask, ["amount"])
    tables = ask(lambda frame: summed(frame, ["key"], grids), lambda each: each.group_by("key").sum())
    return dict(assembled(tables, grids).sort("key").select("key", "amount").rows())


def check_any_order_and_split(values, data):
    keys = [place % 3 for place in range(len(values))]
    order = data.draw(st.permutations(range(len(values))))
    cuts = data.draw(st.lists(st.integers(0, len(values)), max_size=4))
    sums = in_parts([values[i] for i in order], [keys[i] for i in order], cuts)
    for key, total in sums.items():
        assert same_bits(total, math.fsum(value for value, own in zip(values, keys, strict=True) if own == key) + 0.0)


@settings(max_examples=25, deadline=None)
@given(values=ANY_AMOUNTS | USUAL_AMOUNTS, data=st.data())
def test_any_order_and_split_gives_the_nearest_to_the_true_sum(values, data):
    """Red if a digit is lost, carried wrongly or rounded twice."""
    check_any_order_and_split(values, data)


@pytest.mark.study
@settings(max_examples=400, deadline=None)
@given(values=ANY_AMOUNTS | USUAL_AMOUNTS, data=st.data())
def test_many_orders_and_splits_give_the_nearest_to_the_true_sum(values, data):
    check_any_order_and_split(values, data)


@pytest.mark.parametrize(
    "values",
    [
        [1e15, 1e-15, 0.1],
        [5e-324, 5e-324, 1e-310],
        [1.0, 2.0**-53, 2.0**-120],  # a tie, but for the last
        [1.0, 2.0**-53],
        [2.0**52, 0.5, 2.0**-60],
        [-1e30, 1e-30, 1e30],
        [-0.1, -0.2, -0.3],
        [2.0**53, 1.0, 1.0],
        [0.0],
    ],
)
def test_hard_sums(values):
    table = pl.DataFrame({"key": [0] * len(values), "amount": values})
    assert same_bits(exact_sums(table, ["key"], ["amount"])["amount"].item(), math.fsum(values))


def test_whole_numbers_are_added_up_as_ever():
    """They take no digits, which would cost time."""
    table = pl.DataFrame({"amount": [0.0, 1.0, 250.0], "cents": [0.01, 1.25, 20.0], "huge": [1e15, 1e15, 9e15]})
    frame = nw.from_native(table.lazy())
    grids = grids_of(lambda query, _: nw.to_native(query(frame), pass_through=True).collect(), table.columns)
    assert grids == {"amount": (), "cents": (0, -28, -56, -84), "huge": (28, 0)}


def test_what_is_not_finite_stays_so():
    table = pl.DataFrame({"key": [0, 0, 1], "amount": [math.nan, 1.0, 0.1], "more": [0.1, math.inf, 0.3]})
    sums = exact_sums(table, ["key"], ["amount", "more"]).sort("key")
    assert math.isnan(sums["amount"][0])
    assert sums["more"].to_list() == [math.inf, 0.3]
    assert sums["amount"][1] == 0.1


def amounts(rows=3000):
    rng = np.random.default_rng(5)
    due = np.round(rng.lognormal(3, 2, rows), 2)
    return pl.DataFrame(
        {
            "id": np.arange(rows),
            "year": 2000 + rng.integers(0, 8, rows),
            "group": np.array(["a", "b", "c"])[rng.integers(0, 3, rows)],
            "branch": rng.integers(0, 40, rows),
            "due": due,
            "paid": due * rng.random(rows),
        }
    )


ASKED = {"group": "group", "time": "year", "unit": "branch", "supply": "paid", "demand": "due", "progress": None}


def numbers(answer):
    content = answer.to_dict()
    return {name: content[name] for name in ("rows", "reasons", "units", "periods", "comparisons")}


@pytest.mark.parametrize("engine", ["shuffled", "duckdb", "several files"])
def test_an_audit_of_fractions_is_the_same_in_any_order_and_engine(engine, tmp_path):
    """To the bit, where sums of floating-point numbers would differ in the last digits."""
    frame = amounts()
    shuffled = frame.sample(fraction=1, shuffle=True, seed=1)
    if engine == "several files":
        for number, part in enumerate(shuffled.iter_slices(700)):
            part.write_parquet(tmp_path / f"{number}.parquet")
    logs = {
        "shuffled": lambda: shuffled,
        "duckdb": lambda: duckdb.from_arrow(shuffled.to_arrow()),
        "several files": lambda: tmp_path,
    }
    assert numbers(elbert.audit(logs[engine](), **ASKED)) == numbers(elbert.audit(frame, **ASKED))


@pytest.mark.parametrize("fractions", [(), ("paid",), ("due",), ("paid", "due")])
def test_totals_of_fractions_and_whole_numbers(fractions):
    """Red if a column of sums takes the place of another, where some are added up plainly and others by digits."""
    whole = [name for name in ("paid", "due") if name not in fractions]
    frame = amounts().with_columns(pl.col(whole).round(0))
    answer = elbert.audit(frame, **ASKED)
    for row in answer.report.criteria[0].groups:
        own = frame.filter(pl.col("group") == row.group)
        assert row.rate == pytest.approx(math.fsum(own["paid"]) / math.fsum(own["due"]), rel=1e-14)


def test_a_notion_of_amounts_is_the_same_in_any_order():
    frame = amounts().with_columns(pl.col("due").round(1), pl.col("paid").round(1))
    asked = {name: value for name, value in ASKED.items() if name not in ("supply", "demand")} | {
        "decision": "paid",
        "outcome": "due",
        "notion": "discovery-probability",
    }
    shuffled = frame.sample(fraction=1, shuffle=True, seed=2)
    assert numbers(elbert.audit(shuffled, **asked)) == numbers(elbert.audit(frame, **asked))
