"""The same log in every engine gives the same numbers."""
# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportMissingImports=false

import builtins
import shutil
import sys

import duckdb
import polars as pl
import pytest

import elbert
from elbert.errors import InvalidInputError
from tests.auditing.logs import clustered
from tests.parameters import slow_after

ASKED = {
    "group": "group",
    "decision": "decision",
    "time": "date",
    "unit": "officer",
    "max_bias": 0.05,
    "progress": None,
}


def log():
    frame = clustered(units=60, sigma=0.5, seed=2).with_row_index("id")
    return frame.with_columns(
        pl.when(pl.col("id") % 17 == 0).then(None).otherwise("group").alias("group"),
        (pl.col("id") % 5).alias("dept"),
        pl.when(pl.col("id") % 3 == 0).then(pl.lit("good")).otherwise(pl.lit("bad")).alias("outcome"),
    )


def numbers(answer):
    """Everything but the name of the log."""
    content = answer.to_dict()
    return {name: content[name] for name in ("rows", "reasons", "units", "periods", "verdict", "comparisons")}


def same(one, other):
    """To the last digit of the totals; what is made of them may be rounded otherwise."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            same(one[name], other[name])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9)
    else:
        assert one == other


@pytest.mark.parametrize(
    "asked",
    slow_after(2, [{"control": "dept"}, {"where": ["dept>1", "date>=2020-06-01"]}, {"period": "week"}, {}]),
)
@pytest.mark.parametrize("engine", ["polars", "lazy polars", "pandas", "pyarrow", "duckdb"])
def test_frames_of_all_kinds(engine, asked):
    frame = log()
    frames = {
        "polars": lambda: frame,
        "lazy polars": frame.lazy,
        "pandas": frame.to_pandas,
        "pyarrow": frame.to_arrow,
        "duckdb": lambda: duckdb.from_arrow(frame.to_arrow()),
    }
    wanted = numbers(elbert.audit(frame, **(ASKED | asked)))
    same(numbers(elbert.audit(frames[engine](), **(ASKED | asked))), wanted)


def test_files_give_the_same_as_frames(tmp_path):
    frame = log()
    frame.write_csv(tmp_path / "log.csv")
    frame.write_parquet(tmp_path / "log.parquet")
    wanted = numbers(elbert.audit(frame, **ASKED))
    for name in ("log.csv", "log.parquet"):
        same(numbers(elbert.audit(tmp_path / name, **ASKED)), wanted)


def test_equalized_odds_in_duckdb():
    frame = log()
    asked = ASKED | {"notion": "equalized-odds", "outcome": "outcome", "good": "good", "control": "dept"}
    same(numbers(elbert.audit(duckdb.from_arrow(frame.to_arrow()), **asked)), numbers(elbert.audit(frame, **asked)))


def test_pandas_without_pyarrow(monkeypatch):
    """Columns of text are Python objects then, and blanks are NaN."""
    frame = log()
    without = frame.to_pandas().astype({"group": object, "decision": object, "officer": object})
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    importing = builtins.__import__

    def refused(name, *arguments, **options):
        if name.split(".")[0] == "pyarrow":
            raise ModuleNotFoundError(name)
        return importing(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refused)
    same(numbers(elbert.audit(without, **ASKED)), numbers(elbert.audit(frame, **ASKED)))


def test_text_as_time_must_be_converted_in_other_engines():
    frame = log().with_columns(pl.col("date").cast(pl.String))
    with pytest.raises(InvalidInputError, match=r"Convert it to a date or timestamp there, in SQL with CAST"):
        elbert.audit(duckdb.from_arrow(frame.to_arrow()), **ASKED)


@pytest.mark.filterwarnings(  # Spark leaves sockets to its Java process open until they are collected
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java, which is not installed")
def test_spark(tmp_path):
    pyspark = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    session = (
        pyspark.SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    try:
        frame = log()
        frame.write_parquet(tmp_path / "log.parquet")
        read = session.read.parquet(str(tmp_path / "log.parquet"))
        for asked in ({}, {"period": "week", "control": "dept"}):
            same(numbers(elbert.audit(read, **(ASKED | asked))), numbers(elbert.audit(frame, **(ASKED | asked))))
        amounts = frame.with_columns((pl.col("id") % 101 / 7).alias("due"), (pl.col("id") % 11 / 13).alias("paid"))
        amounts.write_parquet(tmp_path / "amounts.parquet")
        read = session.read.parquet(str(tmp_path / "amounts.parquet"))
        sums = {
            "group": "group",
            "time": "date",
            "unit": "officer",
            "supply": "paid",
            "demand": "due",
            "progress": None,
        }
        assert numbers(elbert.audit(read, **sums)) == numbers(elbert.audit(amounts, **sums))  # to the bit
    finally:
        session.stop()
