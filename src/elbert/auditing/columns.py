"""What stands in the columns of a log: values that mean yes, no or not known, and numbers.

Distinct values of a column are looked at first, in Python; rows are then told apart in the log's own engine by the raw
values, so that no engine has to know what "Yes ", "unknown" or 1.0 mean.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import narwhals as nw
import polars as pl

from elbert.auditing.csv_bytes import shown
from elbert.auditing.log_files import FILE_NAME, ROW_NUMBER, Log
from elbert.auditing.memory_frames import written
from elbert.errors import InvalidInputError, did_you_mean
from elbert.tables import visible

Expr: TypeAlias = nw.Expr
Label: TypeAlias = tuple[str | None, ...]
"""A value of each of several columns; None where it is not known."""
MISSING = frozenset(
    [
        "",
        "na",
        "n/a",
        "n.a.",
        "nan",
        "null",
        "none",
        "nil",
        "unknown",
        "unk",
        "not known",
        "not stated",
        "not specified",
        "unspecified",
        "not reported",
        "not available",
        "missing",
        "undisclosed",
        "prefer not to say",
        "declined to state",
        "?",
        "-",
        "--",
        ".",
    ]
)
"""What means "not known" in any column, in any case of letters."""
YES = frozenset(
    ["1", "y", "yes", "t", "true", "approved", "accepted", "admitted", "granted", "hired", "selected", "passed"]
)
NO = frozenset(["0", "n", "no", "f", "false", "denied", "declined", "rejected", "refused", "failed"]) | {
    "not approved",
    "not selected",
}
FEW_VALUES = 50
"""Up to so many values are told apart one by one."""
MOST_VALUES = 1000
"""A column of groups, decisions or strata with more distinct values than this is a number or a name."""
MOST_COMBINATIONS = 2**62
"""Combinations of values that whole numbers of 64 bits can tell apart."""
TEXTS = (nw.String, nw.Categorical, nw.Enum)
_PLAIN = (
    nw.String,
    nw.Boolean,
    nw.Int8,
    nw.Int16,
    nw.Int32,
    nw.Int64,
    nw.UInt8,
    nw.UInt16,
    nw.UInt32,
    nw.Float32,
    nw.Float64,
)
_CLOCK = "%H:%M:%S%.f"
_SPELLED = sorted(
    {spelled(word) for word in MISSING for spelled in (str, str.upper, str.title, str.capitalize)} | {"NaN", "NaT"}
)
"""What means "not known", as people write it; to look for it in any case of letters takes ten times as long."""


@dataclass(frozen=True)
class Value:
    """A distinct value of a column."""

    raw: Any  # as the engine compares it
    text: str | None  # as people read it; None if it means "not known"
    rows: int


def text_of(raw: Any, missing: Collection[str] = ()) -> str | None:
    """A value as people read it: 1.0 is 1, True is true, blanks at the ends do not count; None if it is not known."""
    if raw is None or (isinstance(raw, float) and raw != raw):
        return None
    text = " ".join(written(raw).split())
    return None if text.casefold() in MISSING or text in missing else text


def values_of(log: Log, column: str) -> Expr:
    """A column as values that engine and Python tell apart alike: text, or numbers that both can hold.

    Times become text: Python's know no nanoseconds and end with the year 9999.
    """
    kind = log.frame.collect_schema()[column]
    if kind in _PLAIN:
        return nw.col(column)
    if kind in (nw.Datetime, nw.Time) and log.is_polars:
        return nw.col(column).dt.to_string(f"%Y-%m-%d {_CLOCK}" if kind == nw.Datetime else _CLOCK)
    foreign = kind == nw.Unknown and not log.is_polars  # such as a UUID in SQL
    if kind in (*TEXTS, nw.Boolean, nw.Date, nw.Datetime, nw.Time) or kind.is_numeric() or foreign:
        return nw.col(column).cast(nw.String)
    raise InvalidInputError(
        f"{log.name}: column {visible(column)!r} holds {kind}. Text, numbers, truth values and dates can be told "
        "apart: make one of them of it, or name another column."
    )


def is_missing(log: Log, column: str, missing: Collection[str]) -> Expr:
    """True where a value means "not known": blank, one of the usual words, NaN, or what was said to mean it."""
    kind, lacking = log.frame.collect_schema()[column], nw.lit(value=False)
    if kind.is_numeric():
        number = nw.col(column).cast(nw.Float64)
        lacking = number.is_nan() | is_in(number, _numbers(missing))
    elif kind in TEXTS:
        text = nw.col(column).cast(nw.String).str.strip_chars()
        lacking = is_in(text, [*_SPELLED, *missing])
    elif missing:
        midnights = [f"{text} 00:00:00" for text in missing] if kind == nw.Datetime else []
        lacking = is_in(values_of(log, column), [*missing, *midnights])
    return nw.col(column).is_null() | lacking


def identities(log: Log, column: str, missing: Collection[str]) -> Expr:
    """What tells units apart, null where it is not known; blanks at the ends do not count."""
    values = values_of(log, column)
    if log.frame.collect_schema()[column] in TEXTS:
        values = values.str.strip_chars()
    return nw.when(~is_missing(log, column, missing)).then(values)


def distinct_values(log: Log, column: str, missing: Collection[str], *, too_many: str) -> list[Value]:
    """The distinct values of a column with the number of their rows, most frequent first."""
    values = values_of(log, column).alias("value")
    rows = log.collect(
        lambda frame: frame.select(values).group_by("value").agg(nw.len().alias("rows")).head(MOST_VALUES + 1),
        lambda table: table.group_by("value").sum(),
    ).rows()
    if len(rows) > MOST_VALUES:
        raise InvalidInputError(
            f"{log.name}: column {visible(column)!r} has more than {MOST_VALUES} different values. {too_many}"
        )
    listed = [Value(raw, text_of(raw, missing), int(count)) for raw, count in rows]
    return sorted(listed, key=lambda value: (-value.rows, str(value.raw)))


@dataclass(frozen=True)
class Coded:
    """Several columns of few values as one whole number per row."""

    key: Expr
    texts: tuple[tuple[str, ...], ...]  # of each column: the values that are known, in order

    def label(self, code: int) -> Label:
        """The values that a number stands for, one of each column; None where it is not known."""
        label = []
        for texts in self.texts:
            code, place = divmod(int(code), len(texts) + 1)
            label.append(texts[place - 1] if place else None)
        return tuple(label)


def coded(log: Log, columns: Sequence[str], missing: Collection[str], what: str) -> Coded:
    """The columns of groups, or of controls."""
    key, stride, listed = nw.lit(0).cast(nw.Int64), 1, []
    for column in columns:
        values = distinct_values(log, column, missing, too_many=f"Put them into fewer classes to use it as --{what}.")
        texts = sorted({value.text for value in values if value.text is not None})
        places = {text: place + 1 for place, text in enumerate(texts)}
        codes = {value.raw: stride * places[value.text] for value in values if value.text is not None}
        key += _code(values_of(log, column), codes)
        stride *= len(texts) + 1
        listed.append(tuple(texts))
    if stride > MOST_COMBINATIONS:
        raise InvalidInputError(
            f"{log.name}: the columns {', '.join(map(visible, columns))} have {stride:.1e} combinations of values. Put "
            f"them into fewer classes to use them as --{what}."
        )
    return Coded(key, tuple(listed))


def _code(values: Expr, codes: Mapping[Any, int]) -> Expr:
    """The code of each value, 0 if it has none. A table of many is looked up, which polars cannot do row by row."""
    if len(codes) > FEW_VALUES:
        return values.replace_strict(list(codes), list(codes.values()), default=nw.lit(0), return_dtype=nw.Int64)
    code = nw.lit(0).cast(nw.Int64)
    for each in sorted(set(codes.values())):
        raws = [raw for raw, own in codes.items() if own == each]
        code += nw.when(is_in(values, raws)).then(nw.lit(each)).otherwise(nw.lit(0))
    return code


@dataclass(frozen=True)
class YesNo:
    """Which raw values of a column mean yes and which no; all others are not known."""

    values: Expr
    yes: tuple[Any, ...]
    no: tuple[Any, ...]
    words: str  # the values that mean yes, for people

    def is_yes(self) -> Expr:
        """True where the value means yes."""
        return is_in(self.values, self.yes)

    def is_no(self) -> Expr:
        """True where the value means no."""
        return is_in(self.values, self.no)


def yes_or_no(
    log: Log, column: str, chosen: Sequence[str], option: str, missing: Collection[str], *, piece: bool = False
) -> YesNo:
    """A column of two kinds of values: those chosen and the others, or words that everybody takes for yes and no.

    A piece of a log need not hold all of them.
    """
    values = distinct_values(
        log, column, missing, too_many="If it is a score, give the value from which on it counts: --threshold 620."
    )
    known: dict[str, list[Value]] = {}
    for value in values:
        if value.text is not None:
            known.setdefault(value.text.casefold(), []).append(value)
    if not known and not piece:
        raise InvalidInputError(f"{log.name}: column {visible(column)!r} has no value that is known.")
    listed = ", ".join(
        f"{visible(each[0].text, 30)} ({sum(v.rows for v in each)})" for each in list(known.values())[:8]
    )
    if chosen:
        for name in chosen:
            if name.casefold() not in known and not piece:
                near = did_you_mean(name, [str(each[0].text) for each in known.values()])
                raise InvalidInputError(
                    f"{option} is {name!r}, which column {visible(column)!r} does not hold.{near} It holds {listed}."
                )
        yes = {name.casefold() for name in chosen}
    elif known.keys() <= YES | NO:
        yes = YES
    else:
        first = next(iter(known.values()))[0].text
        raise InvalidInputError(
            f"{log.name}: column {visible(column)!r} holds {listed}. Say which of them counts: --{option} "
            f"{visible(first, 30)!r}; or, for a score, from where on: --threshold."
        )
    return YesNo(
        values_of(log, column),
        yes=tuple(value.raw for text, each in known.items() if text in yes for value in each),
        no=tuple(value.raw for text, each in known.items() if text not in yes for value in each),
        words=", ".join(str(each[0].text) for text, each in known.items() if text in yes),
    )


def is_in(values: Expr, raws: Sequence[Any]) -> Expr:
    """True where a value is one of these; there may be none of them."""
    return values.is_in(list(raws)) if raws else nw.lit(value=False)


@dataclass(frozen=True)
class Numeric:
    """A column read as numbers: where it is one, and where something else stands."""

    value: Expr  # null where there is no finite number
    unreadable: Expr  # True where something stands that is no number


def as_numeric(log: Log, column: str, missing: Collection[str] = ()) -> tuple[Log, Numeric]:
    """A column as numbers; text is parsed, and the log gets a column with the result."""
    kind, lacking = log.frame.collect_schema()[column], is_missing(log, column, missing)
    if kind.is_numeric() or kind == nw.Boolean:
        value = nw.col(column).cast(nw.Float64)
    elif kind in TEXTS and log.is_polars:
        name, text = log.new_name(f"{column} as number"), pl.col(column).cast(pl.String).str.strip_chars()
        log = log.with_columns(text.cast(pl.Float64, strict=False).alias(name))
        value = nw.col(name)
    else:
        raise InvalidInputError(
            f"{log.name}: column {visible(column)!r} holds {kind}, and numbers are needed. Convert it there."
        )
    lacking = lacking | is_in(value, _numbers(missing))  # 5.0 in a text is 5 as well
    finite = nw.when(value.is_finite() & ~lacking).then(value)
    return log, Numeric(finite, ~lacking & finite.is_null())


def number_in(text: str) -> float | None:
    """The finite number that a text is, if it is one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _numbers(texts: Iterable[str]) -> list[float]:
    """Those texts that are numbers."""
    return [number for number in map(number_in, texts) if number is not None]


def first_row(log: Log, column: str, wrong: Expr) -> str:
    """The first row that is wrong, for a message: ": row 12 of log.csv holds 'abc'"; nothing if there is none."""
    names, kind = log.frame.collect_schema().names(), log.frame.collect_schema()[column]
    # A time that is out of range cannot be written either, but its year is a number or nothing.
    is_time = kind in (nw.Date, nw.Datetime)
    held = nw.col(column).dt.year() if is_time else nw.col(column)
    chosen = [name for name in (ROW_NUMBER, FILE_NAME) if name in names]
    rows = log.collect(
        lambda frame: frame.filter(wrong).select(held.alias("held"), *chosen).head(1), lambda rows: rows.head(1)
    ).rows(named=True)
    if not rows:
        return ""
    found, place = rows[0], "one row"
    if FILE_NAME in found and log.places is not None:
        place = f"row {log.number_in_file(found[ROW_NUMBER], found[FILE_NAME])} of {shown(found[FILE_NAME])}"
    if found["held"] is None:
        return f" ({place} {'holds no time that there can be' if is_time else 'is blank'})"
    return f" ({place} holds {visible(found['held'], 40)!r})"
