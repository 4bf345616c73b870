"""Broken logs of many kinds, each made from a seed: what stands in the table, how it is written, what is asked."""

import csv
import datetime as dt
import gzip
import io
from decimal import Decimal
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

FIELDS = {
    "time": "date",
    "unit": "officer",
    "group": "group",
    "decision": "decision",
    "outcome": "outcome",
    "count": "people",
    "supply": "given",
    "demand": "due",
    "control": "dept",
    "key": "id",
    "outcome_time": "known",
}
NAMES = (
    *("rows", "status", "unit", "period", "stratum", "measure 0", "measure 1", "value", "key", "keys", "held", "label"),
    *("elbert row", "elbert file", "copies of a row", "unit of a row", "unit of the log", "date as time", "literal"),
    *("score as number", "given at most", "people as number", "date as time?", "len", "count", "index", "", " ", "*"),
    *("^.*$", "^group$", "a.b", "a\nb", "a\tb", "\x1b[31mred", "[bold]x[/bold]", "<script>alert(1)</script>", "a|b"),
    *(
        "\u202egroup",
        "\u200bgroup",
        "\x00",
        "\x9b1m",
        "'",
        '"',
        "a,b",
        "a;b",
        "x" * 10_000,
        "名前",
        "🙂",
        "\ufeffgroup",
    ),
    *("row", "time", "time?", "all", "None", "nan", "1", "true", "a=b", "a>b", "%s", "{}", "../../etc", "C:\\x"),
)
DATES = (
    *("0000-00-00", "0001-01-01", "9999-12-31", "99999-01-01", "2020-02-30", "2020-13-01", "1.2.2020", "03/04/2020"),
    *("2020-01-01T10:00:00Z", "2020-01-01T10:00:00+05:30", "2020-01-01 10:00", "20200101", "2020", "now", "-1", ""),
    *(
        "2020-W01-1",
        "Jan 5, 2020",
        "1e9",
        "99999999999999999999",
        "05/06/20",
        "20-01-02",
        "\u0662\u0660\u0662\u0660-01-01",
        "NaT",
    ),
)
NUMBERS = (
    *("nan", "inf", "-inf", "1e400", "-5", "0", "-0.0", "1e300", "1e15", "0.5", "2.7", "1,5", "1.000,5", "1 000"),
    *(
        "<10",
        "≤5",
        "<=7",
        "<",
        "< 1e9",
        "<0",
        "<\u0663",
        ">5",
        "5-9",
        "",
        "NA",
        "0x10",
        "1_000",
        "\u0661\u0662",
        "9" * 400,
    ),
    *("18446744073709551616", "1e-320", "true", "twelve", "+3", "$5", "5%"),
)
WORDS = (
    "perhaps",
    "",
    "NA",
    "unknown",
    "YES",
    " yes ",
    "Yes",
    "1",
    "0",
    "true",
    "1.0",
    "yes\x00",
    "y" * 100_000,
    "\uff59es",
)
GROUPS = (
    *(" a ", "A", "a\u00a0", "a\x1b[0m", "", "unknown", "-", "1", "1.0", "true", "a, b", "<b>a</b>", "\u202ea", "b\r"),
    *("x" * 77 + "one", "x" * 77 + "two", "'", '"a"', "á", "a\u0301", "NaN", "None", "0", "\x07", "名", "a\nb"),
)
QUESTIONS: dict[str, tuple[Any, ...]] = {
    "threshold": ("3", "<5", ">=1e999", "", "high", "1e5", "> -3", " 5 ", True, 3, 0.5, "\u0663"),
    "favourable": ("yes", "no", "maybe", "", "YES", "\udcff", ["yes", "no"], "1", 1, True),
    "good": ("1", "yes", "nope"),
    "where": (
        *("date>=2020-02-01", "date<01.02.2020", "group=a", "group!=a,b", "score>3", "score=3", "group>a", "people<=2"),
        *(
            "no such=1",
            "=",
            "<",
            "group",
            "group=",
            "date=2020-01-05",
            "score>nan",
            "score>1e999",
            "dept=x",
            " " * 5000,
        ),
        *("id>9007199254740993", "decision=yes", "group=\udcff", "officer>=o1", ["group=a", "group=b"]),
    ),
    "due": (0, 10, 1e300, float("inf"), float("nan"), -1, "ten", True, np.float32(3)),
    "period": ("day", "week", "month", "quarter", "year", "fortnight", "1", "0", "-1", "1e3", 10, 10**400, 2**63, ""),
    "time_format": ("%Y-%m-%d", "%d.%m.%Y", "%Q", "%", "", "%H", "%Y-%m-%d %H:%M", "x" * 10_000, "%Y", "%s", "\udcff"),
    "missing": ("a", "3", "0", "yes", "2020-01-04", "", "\udcff", 5, ["a", "1"]),
    "smallest": (0, 1, 5, 30, 1e300, float("nan"), "few", np.int64(2)),
    "max_bias": (0, 0.1, 5, 1e300, -1, float("inf"), "0.1", np.float32(0.1), [0.1]),
    "confidence": (0.9, 0.999999, 0, 1, 95, float("nan"), "high"),
    "seed": (0, 1, -1, 2**40, 1.5, "x"),
    "assume": ("none", "no-better", "odds:2", "odds:", "odds:-1", "odds:nan", "odds:1e9", "random", "hope"),
    "unknown_groups": ("bound", "leave-out", "forget", ""),
    "burden": (True, False, "yes"),
    "notion": (
        *("demographic-parity", "equal-opportunity", "equalized-odds", "accuracy-parity", "discovery-probability"),
        "fairness",
    ),
    "law": ("ll144", "gdpr"),
    "group": (
        ["group", "dept"],
        ["group", "group"],
        "dept",
        [],
        "nobody",
        ["group", "dept", "decision"],
        3,
        None,
        "id",
    ),
    "unit": ("row", "id", "group", "score", "nowhere", "date", ""),
    "control": (["dept", "group"], "id", "score", "nothing"),
    "decision": ("score", "outcome", "group", "id", "date", None, "people"),
    "count": ("people", "score", "group"),
    "time": ("known", "year", "id", "score", "group"),
    "key": ("id", "dept", "missing"),
    "unheard": ("of",),
}


class Case(NamedTuple):
    """A log and a question."""

    kind: str  # how it was broken, for messages
    source: Any  # bytes of a file, or a frame
    name: str  # of the file
    asked: dict[str, Any]


def table(rng: np.random.Generator) -> dict[str, list[str]]:
    """A log that is well: columns of text."""
    n = int(rng.choice([0, 1, 2, 7, 40, 90, 150], p=[0.02, 0.03, 0.05, 0.1, 0.3, 0.3, 0.2]))
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=int(day)) for day in np.sort(rng.integers(0, 500, n))]
    people = rng.integers(1, 4, n)
    due = rng.integers(5, 30, n)
    return {
        "date": [day.isoformat() for day in days],
        "officer": [f"o{number}" for number in rng.integers(0, 12, n)],
        "group": rng.choice(["a", "b", "c"][: int(rng.choice([1, 2, 3], p=[0.1, 0.6, 0.3]))], n).tolist(),
        "decision": rng.choice(["yes", "no"], n).tolist(),
        "outcome": rng.choice(["1", "0", ""], n, p=[0.45, 0.45, 0.1]).tolist(),
        "people": people.astype(str).tolist(),
        "given": (due * rng.random(n)).astype(int).astype(str).tolist(),
        "due": due.astype(str).tolist(),
        "dept": rng.choice(["x", "y"], n).tolist(),
        "id": np.arange(n).astype(str).tolist(),
        "known": [
            (day + dt.timedelta(days=int(later))).isoformat() for day, later in zip(days, people * 9, strict=True)
        ],
        "score": rng.integers(0, 10, n).astype(str).tolist(),
        "year": [str(day.year) for day in days],
        "note": rng.choice(["", "fine", "5 in", "a, b", 'say "hi"', "two\nlines"], n).tolist(),
    }


def question(rng: np.random.Generator) -> dict[str, Any]:
    """What is asked of it: what makes sense, and then some of it changed."""
    kinds = (
        {"decision": "decision", "unit": "officer"},
        {"decision": "decision", "time": "date", "period": "month"},
        {"decision": "decision", "unit": "row"},
        {"decision": "decision", "unit": "row", "count": "people"},
        {"decision": "score", "threshold": "5", "unit": "officer"},
        {"supply": "given", "demand": "due", "unit": "officer"},
        {"decision": "decision", "outcome": "outcome", "notion": "equal-opportunity", "unit": "officer"},
        {"decision": "score", "outcome": "people", "notion": "discovery-probability", "time": "date"},
        {"decision": "decision", "outcome": "outcome", "notion": "equalized-odds", "time": "date", "due": 30}
        | {"outcome_time": "known", "control": "dept", "unit": "officer", "key": "id"},
    )
    asked: dict[str, Any] = {"group": "group", **kinds[int(rng.integers(len(kinds)))]}
    for name in rng.choice(list(QUESTIONS), int(rng.choice([0, 1, 2, 4], p=[0.6, 0.2, 0.15, 0.05])), replace=False):
        choices = QUESTIONS[name]
        asked[str(name)] = choices[int(rng.integers(len(choices)))]
    return asked


def spoiled(columns: dict[str, list[str]], rng: np.random.Generator) -> str:
    """Put odd values into some columns; says which."""
    odd = {
        "date": DATES,
        "known": DATES,
        "year": DATES,
        "decision": WORDS,
        "outcome": WORDS,
        "group": GROUPS,
        "dept": GROUPS,
        "officer": (*GROUPS, *NUMBERS),
    }
    chosen = [str(each) for each in rng.choice(list(columns), int(rng.choice([0, 1, 2, 5])), replace=False)]
    for name in chosen:
        values, among = columns[name], odd.get(name, NUMBERS)
        picked = [among[int(place)] for place in rng.integers(0, len(among), 3)]
        share = rng.choice([0.02, 0.2, 1.0], p=[0.5, 0.4, 0.1])
        columns[name] = [picked[int(rng.integers(3))] if rng.random() < share else value for value in values]
    return f"odd {', '.join(chosen)}" if chosen else ""


def renamed(columns: dict[str, list[str]], asked: dict[str, Any], rng: np.random.Generator) -> str:
    """Call some columns otherwise, in the log and in the question; or only in the log."""
    kind = ""
    for _ in range(int(rng.choice([0, 1, 2], p=[0.75, 0.15, 0.1]))):
        old, new = str(rng.choice(list(columns))), str(NAMES[int(rng.integers(len(NAMES)))])
        values = {(new if name == old else name): each for name, each in columns.items()}
        columns.clear()
        columns.update(values)
        if rng.random() < 0.9:
            for name, value in asked.items():
                asked[name] = new if value == old else value
        kind += f" {old} is {new[:12]!r}"
    return kind


def written(columns: dict[str, list[str]], rng: np.random.Generator) -> tuple[bytes, str]:
    """As CSV, in one of the ways of the world."""
    separator = str(rng.choice([",", ",", ",", ";", "\t", "|", ":"]))
    ends = str(rng.choice(["\n", "\n", "\r\n", "\r"], p=[0.4, 0.4, 0.15, 0.05]))
    out = io.StringIO()
    quoting = csv.QUOTE_ALL if rng.random() < 0.2 else csv.QUOTE_MINIMAL
    writer = csv.writer(out, delimiter=separator, lineterminator=ends, quoting=quoting)
    rows = list(zip(*columns.values(), strict=True))
    if rng.random() < 0.97:
        writer.writerow(columns)
    writer.writerows(rows)
    text, encoding = (
        out.getvalue(),
        str(rng.choice(["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le"], p=[0.8, 0.1, 0.04, 0.03, 0.03])),
    )
    return text.encode(encoding, "replace"), f"{separator!r} {ends!r} {encoding}"


def damaged(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """Bytes flipped, put in or lost; quotes and line ends in wrong places; rows too short and too long."""
    kind = str(
        rng.choice(
            [
                "none",
                "flip",
                "insert",
                "remove",
                "cut",
                "quote",
                "separator",
                "line end",
                "nul",
                "utf-8",
                "empty",
                "long",
            ],
            p=[0.4, 0.08, 0.08, 0.08, 0.06, 0.1, 0.06, 0.04, 0.03, 0.04, 0.01, 0.02],
        )
    )
    if kind == "none" or not content:
        return content, "whole"
    if kind == "empty":
        return [b"", b"\n\n", b"\xef\xbb\xbf", b"\r\n \r\n", b"\x00", b'"', b"PAR1", b"PAR1PAR1"][
            int(rng.integers(8))
        ], kind
    data = bytearray(content)
    if kind == "cut":
        return bytes(data[: int(rng.integers(len(data)))]), kind
    put = {
        "quote": b'"',
        "separator": b",",
        "line end": b"\n",
        "nul": b"\0",
        "utf-8": b"\xff\xe9",
        "long": b"x" * 300_000,
    }
    for _ in range(int(rng.choice([1, 2, 2, 8]))):
        place = int(rng.integers(len(data)))
        if kind == "flip":
            data[place] = int(rng.integers(256))
        elif kind == "remove":
            del data[place : place + int(rng.integers(1, 4))]
        else:
            data[place:place] = put.get(kind) or rng.bytes(int(rng.integers(1, 4)))
        if not data:
            break
    return bytes(data), kind


def packed(content: bytes, name: str, rng: np.random.Generator) -> tuple[bytes, str, str]:
    """In a gzip file, which may be broken, or not be one at all."""
    kind = str(
        rng.choice(
            ["plain", "gzip", "cut", "flip", "none", "two", "unnamed"], p=[0.85, 0.03, 0.03, 0.03, 0.02, 0.02, 0.02]
        )
    )
    if kind == "plain":
        return content, name, ""
    data = bytearray(gzip.compress(content, mtime=0))
    if kind == "cut":
        data = data[: int(rng.integers(3, len(data)))]
    if kind == "flip":
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    if kind == "none":
        data = bytearray(content)
    if kind == "two":
        half = len(content) // 2
        data = bytearray(gzip.compress(content[:half], mtime=0) + gzip.compress(content[half:], mtime=0))
    return bytes(data), name if kind == "unnamed" else f"{name}.gz", f"gzip {kind}"


def file_case(seed: int) -> Case:
    """A CSV or Parquet file."""
    rng = np.random.default_rng(seed)
    columns, asked = table(rng), question(rng)
    kind = f"{spoiled(columns, rng)}{renamed(columns, asked, rng)}"
    if rng.random() < 0.12:
        out = io.BytesIO()
        kinds: tuple[Any, ...] = ("zstd", "uncompressed", "snappy")
        typed(columns, rng).write_parquet(out, compression=kinds[int(rng.integers(3))])
        content, how = damaged(out.getvalue(), rng)
        return Case(f"parquet {how} {kind}", content, "log.parquet", asked)
    content, how = written(columns, rng)
    content, broken = damaged(content, rng)
    content, name, pack = packed(content, str(rng.choice(["log.csv", "log.txt", "log [1].csv", "l\x1b[1mog.csv"])), rng)
    return Case(f"csv {how} {broken} {pack} {kind}", content, name, asked)


def typed(columns: dict[str, list[str]], rng: np.random.Generator) -> pl.DataFrame:
    """The table with types where the values allow it, and odd types for some columns."""
    frame = pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))
    numbers, days = ("people", "score", "given", "due"), ("date", "known")
    frame = frame.with_columns(
        pl.col(name).str.to_date(strict=False) if name in days else pl.col(name).cast(pl.Float64, strict=False)
        for name in (*numbers, *days)
        if name in columns and rng.random() < 0.8
    )
    if rng.random() < 0.5:
        return frame
    n, name = frame.height, str(rng.choice(list(columns)))
    places = pl.Series(rng.integers(0, 5, n))
    odd = {
        "far days": lambda: (places * 10**9).cast(pl.Int32, strict=False).cast(pl.Date),
        "far times": lambda: (places * 10**17).cast(pl.Datetime("ms")),
        "nanoseconds": lambda: places.cast(pl.Datetime("ns")),
        "zone": lambda: (
            (places * 10**15).cast(pl.Datetime("us")).dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Kolkata")
        ),
        "duration": lambda: places.cast(pl.Duration("us")),
        "time": lambda: places.cast(pl.Time),
        "decimal": lambda: places.cast(pl.Decimal(10, 2)),
        "categorical": lambda: places.cast(pl.String).cast(pl.Categorical),
        "truth": lambda: places.cast(pl.Boolean),
        "whole": lambda: places.cast(pl.UInt8),
        "long": lambda: places.cast(pl.UInt64) + 2**63,
        "longest": lambda: pl.Series([int(each) * 2**80 for each in places], dtype=pl.Int128),
        "single": lambda: (places / 3).cast(pl.Float32),
        "nan": lambda: pl.Series([float("nan"), float("inf"), -0.0, 1.0, None], dtype=pl.Float64).gather(places),
        "list": lambda: (
            places.reshape((-1, 1)).cast(pl.List(pl.Int64)) if n else pl.Series([], dtype=pl.List(pl.Int64))
        ),
        "struct": lambda: places.to_frame("x").to_struct(),
        "bytes": lambda: places.cast(pl.String).cast(pl.Binary),
        "null": lambda: pl.Series([None] * n, dtype=pl.Null),
    }
    return frame.with_columns(odd[str(rng.choice(list(odd)))]().alias(name))


def frame_case(seed: int) -> Case:
    """A frame of pandas, polars, pyarrow or DuckDB."""
    rng = np.random.default_rng(seed)
    columns, asked = table(rng), question(rng)
    kind = f"{spoiled(columns, rng)}{renamed(columns, asked, rng)}"
    frame = typed(columns, rng)
    engine = str(rng.choice(["polars", "lazy", "pandas", "pyarrow", "duckdb"], p=[0.25, 0.1, 0.35, 0.15, 0.15]))
    if engine not in ("polars", "lazy"):
        frame = frame.cast({pl.Int128: pl.String}).rename(lambda name: name.replace("\0", "?"))  # others know neither
    if engine == "pandas":
        source, how = odd_pandas(frame, rng)
    elif engine == "duckdb":
        names = pa.table({f"c{place}": column for place, column in enumerate(frame.to_arrow().columns)})
        source, how = (
            duckdb.connect()
            .from_arrow(names)
            .project(
                ", ".join(
                    f'c{place} as "{name.replace(chr(34), chr(34) * 2) or " "}"'
                    for place, name in enumerate(frame.columns)
                )
            ),
            "",
        )
    else:
        source = {"polars": lambda: frame, "lazy": frame.lazy, "pyarrow": frame.to_arrow}[engine]()
        how = ""
    return Case(f"{engine} {how} {kind}", source, "", asked)


def odd_pandas(frame: pl.DataFrame, rng: np.random.Generator) -> tuple[pd.DataFrame, str]:
    """A frame of pandas, perhaps with columns that only Python can hold."""
    try:
        source = frame.to_pandas()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # pandas cannot hold these types
        source = frame.select(pl.col(pl.String)).to_pandas()
    n = frame.height
    objects: tuple[Any, ...] = (
        *([1], {"a": 1}, None, pd.NaT, pd.NA, np.nan, 1, 1.0, True, "1", b"a", 2**100, Decimal("1.0"), Decimal("NaN")),
        *(
            dt.date(2020, 1, 1),
            pd.Timestamp("2020-01-01", tz="UTC"),
            np.array([1, 2]),
            "\udcff",
            1j,
            object,
            np.int8(1),
        ),
    )
    kind = str(rng.choice(["plain", "objects", "twice", "levels", "numbered", "nullable", "zoned", "empty"]))
    place = int(rng.integers(len(source.columns)))
    if kind == "objects":
        few = [objects[int(each)] for each in rng.integers(0, len(objects), 3)]
        source.isetitem(place, pd.Series([few[i % 3] for i in range(n)], dtype=object))
    elif kind == "twice":
        source.columns = [*source.columns[:-1], source.columns[0]]
    elif kind == "levels":
        source.columns = pd.MultiIndex.from_tuples([(name, "x") for name in source.columns])
    elif kind == "numbered":
        source.columns = [place if name == "note" else name for place, name in enumerate(source.columns)]
    elif kind == "nullable":
        source.isetitem(place, pd.array([None if i % 3 else i % 2 for i in range(n)], dtype="Int64"))
    elif kind == "zoned":
        source.isetitem(place, pd.date_range("2020-01-01", periods=n, tz="America/New_York"))
    elif kind == "empty":
        source = source.iloc[:0, : int(rng.integers(0, len(source.columns)))]
    return source, kind
