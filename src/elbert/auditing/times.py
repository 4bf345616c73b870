"""When the decisions of a log were made: text is parsed, years and step numbers are taken as they are.

What can be read in two ways is refused. Periods are made here: their labels in Python, what rows are cut down to in the
log's own engine.
"""

import datetime
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import narwhals as nw
import polars as pl

from elbert.auditing.columns import MISSING, TEXTS, Expr, first_row, is_missing
from elbert.auditing.log_files import Log, Query
from elbert.auditing.question import PERIODS
from elbert.errors import InvalidInputError, did_you_mean
from elbert.tables import visible

FEW_PERIODS, MOST_PERIODS = 20, 2000
"""Periods are the longest that give at least the one, where nothing else is said, and never more than the other."""
FIRST_YEAR, LAST_YEAR = 1000, 9998
"""Years of decisions; others stand for "not known" (0001, 9999), or a year of two digits was read as one of four."""
MOST_STEPS = 2**53
_SAMPLE = 2000


@dataclass(frozen=True)
class Times:
    """When rows happened: a whole number for their period, which rises with time, and all periods in order."""

    column: str
    kind: Literal["calendar", "step"]
    moment: Expr  # date, timestamp or whole number; null where it cannot be read
    key: Expr  # the number of the period; of the day, for weeks
    unreadable: Expr  # True where something stands that is no time
    period: str  # day, week, ..., year; or a number of steps
    labels: tuple[str, ...]  # of all periods from the first to the last, also of those without rows
    texts: Mapping[int, str]  # the label of each key
    first: Any
    last: Any


def read_times(
    log: Log, column: str, period: str | None, time_format: str | None, missing: Collection[str] = ()
) -> tuple[Log, Times]:
    """The time of every row. Text is parsed, years and step numbers are taken as they are."""
    lacking = is_missing(log, column, missing)
    log, moment = _moments(log, column, time_format)
    moment = nw.when(~lacking).then(moment)
    unreadable = ~lacking & moment.is_null()
    first, last = log.collect(
        lambda frame: frame.select(moment.min().alias("first"), moment.max().alias("last")),
        lambda ends: ends.select(pl.col("first").min(), pl.col("last").max()),
    ).row(0)
    if first is None:
        example = first_row(log, column, nw.col(column).is_null() | unreadable)
        raise InvalidInputError(
            f"{log.name}: no time in column {visible(column)!r} can be read{example}. Say how it is written: "
            "--time-format %d.%m.%Y."
        )
    if isinstance(first, int):
        return log, _steps(log, column, period, moment, unreadable, first, last)
    finest = "day"
    if period is None and first.day == last.day == 1:
        days = log.collect(lambda frame: frame.select(moment.dt.day().max().alias("day")), pl.DataFrame.max).item()
        finest = "month" if days == 1 else finest  # months that are written as their first day
    return log, _calendar(column, period, moment, unreadable, first, last, finest)


def early_enough(times: Times, due: float) -> Expr:
    """True where the outcome of a decision, known this long after it, could be known at the end of the log."""
    if times.kind != "calendar":
        raise InvalidInputError(
            f"due is a number of days, and column {visible(times.column)!r} holds years or steps. Name a column with "
            "dates, or leave due out."
        )
    whole_log = (times.last - times.first).days + 1
    return times.moment <= times.last - datetime.timedelta(days=min(due, whole_log))


def is_before(log: Log, one: Times, other: Times) -> Expr:
    """True where one time is before the other; by day, if one of them has no time of the day."""
    zoned = [getattr(each.first, "tzinfo", None) is not None for each in (one, other)]
    if one.kind != other.kind or zoned[0] != zoned[1]:
        raise InvalidInputError(
            f"{log.name}: columns {visible(one.column)!r} and {visible(other.column)!r} cannot be compared: one holds "
            "whole numbers or has a time zone, and the other does not. Write both alike."
        )
    clocks = [isinstance(each.first, datetime.datetime) for each in (one, other)]
    by_day = clocks[0] != clocks[1]
    first, second = (
        each.moment.dt.date() if by_day and clock else each.moment
        for each, clock in zip((one, other), clocks, strict=True)
    )
    return first < second


def _calendar(
    column: str, period: str | None, moment: Expr, unreadable: Expr, first: Any, last: Any, finest: str
) -> Times:
    start, end = (each.date() if isinstance(each, datetime.datetime) else each for each in (first, last))
    if period is not None and period not in PERIODS:
        near = did_you_mean(visible(period), PERIODS)
        raise InvalidInputError(f"period is {visible(period)!r}.{near} Give {', '.join(PERIODS)}.")
    if period is None:
        known = PERIODS[PERIODS.index(finest) :]
        longest_first = (name for name in reversed(known) if len(_starts(name, start, end)) >= FEW_PERIODS)
        period = next(longest_first, finest)
    starts = _starts(period, start, end)
    if len(starts) > MOST_PERIODS:
        raise InvalidInputError(
            f"The log goes from {start} to {end}, which are {len(starts)} periods of a {period}. Give a longer "
            f"--period; at most {MOST_PERIODS} are shown."
        )
    return Times(
        column=column,
        kind="calendar",
        moment=moment,
        key=_number_of(period, moment.dt),
        unreadable=unreadable,
        period=period,
        labels=tuple(_label(period, each) for each in starts),
        texts={_number_of_day(period, day): _label(period, each) for each in starts for day in _days(period, each)},
        first=first,
        last=last,
    )


def _steps(log: Log, column: str, period: str | None, moment: Expr, unreadable: Expr, first: int, last: int) -> Times:
    """Years, or step numbers: a period is one of them, or as many as asked for."""
    years = first >= 1000 and last <= 3000
    if period in (None, "year") and (years or period is None):
        size = 1
    else:
        try:
            size = int(period or "")
        except ValueError:
            size = 0
        if not 1 <= size <= MOST_STEPS:
            held = f"{first} .. {last}"
            raise InvalidInputError(
                f"period is {visible(period)!r}, and column {visible(column)!r} holds whole numbers ({held}). Give the "
                "number of steps that make a period, or a column of dates."
            )
    if (last - first) // size >= MOST_PERIODS:
        raise InvalidInputError(
            f"{log.name}: column {visible(column)!r} holds whole numbers from {first} to {last}. Give the number of "
            f"steps that make a period: --period {max(1, (last - first) // 50)}."
        )
    keys = range(first // size, last // size + 1)
    labels = tuple(str(key) if size == 1 else f"{key * size} .. {key * size + size - 1}" for key in keys)
    return Times(
        column=column,
        kind="step",
        moment=moment,
        key=moment if size == 1 else moment // size,
        unreadable=unreadable,
        period="year" if years and size == 1 else "step" if size == 1 else f"{size} steps",
        labels=labels,
        texts=dict(zip(keys, labels, strict=True)),
        first=first,
        last=last,
    )


def _starts(period: str, first: datetime.date, last: datetime.date) -> list[datetime.date]:
    """The first days of all periods from the one of the first day to the one of the last."""
    if period in ("day", "week"):
        begin = first if period == "day" else first - datetime.timedelta(days=first.weekday())
        step = 1 if period == "day" else 7
        return [begin + datetime.timedelta(days=step * i) for i in range((last - begin).days // step + 1)]
    months = {"month": 1, "quarter": 3, "year": 12}[period]
    begin, end = ((12 * day.year + day.month - 1) // months for day in (first, last))
    return [datetime.date(i * months // 12, i * months % 12 + 1, 1) for i in range(begin, end + 1)]


def _number_of(period: str, date: Any) -> Expr:
    """A whole number that tells periods apart and rises with time; weeks are told by their days."""
    if period in ("day", "week"):
        return date.year() * 400 + date.ordinal_day()
    months = date.year() * 12 + (date.month() - 1)
    return {"month": months, "quarter": months // 3, "year": date.year()}[period]


def _number_of_day(period: str, day: datetime.date) -> int:
    """The same number, of a day."""
    if period in ("day", "week"):
        return day.year * 400 + day.timetuple().tm_yday
    months = day.year * 12 + day.month - 1
    return {"month": months, "quarter": months // 3, "year": day.year}[period]


def _days(period: str, start: datetime.date) -> list[datetime.date]:
    """The first day of a period; for a week, which not all engines know, all of them."""
    return [start + datetime.timedelta(days=i) for i in range(7 if period == "week" else 1)]


def _label(period: str, start: datetime.date) -> str:
    if period == "quarter":
        return f"{start.year} Q{(start.month + 2) // 3}"
    return {"month": f"{start:%Y-%m}", "year": f"{start:%Y}"}.get(period, start.isoformat())


FORMATS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%d.%m.%y", "%d.%m.%Y"),
    *("%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y"),
    *("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S%.f"),
    *("%Y-%m-%dT%H:%M:%S%.f", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S"),
    *("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S%z", "%Y-%m-%dT%H:%M:%S%.f%z", "%Y-%m-%d %H:%M:%S%.f%z"),
)
"""How times are written that nobody can misread."""
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M:%S %p", " %I:%M %p")
UNCLEAR = tuple(
    tuple(f"{date}{clock}" for date in dates)
    for mark in "/-"
    for dates in (
        (f"%d{mark}%m{mark}%y", f"%m{mark}%d{mark}%y", f"%y{mark}%m{mark}%d"),
        (f"%d{mark}%m{mark}%Y", f"%m{mark}%d{mark}%Y"),
    )
    for clock in _CLOCKS
)
"""How times are written that can be read in two or three ways, unless a number that is too large decides."""


def _moments(log: Log, column: str, time_format: str | None) -> tuple[Log, Expr]:
    """The time of every row as date, timestamp or whole number; null where it cannot be read."""
    kind, raw = log.frame.collect_schema()[column], nw.col(column)
    if kind in (nw.Date, nw.Datetime):
        return log, nw.when((raw.dt.year() >= FIRST_YEAR) & (raw.dt.year() <= LAST_YEAR)).then(raw)
    if (kind.is_integer() or kind.is_float()) and time_format is None:
        number = raw.cast(nw.Float64)
        whole = (number.round(0) == number) & (number.abs() <= MOST_STEPS)
        return log, nw.when(whole).then(raw).cast(nw.Int64)
    if not log.is_polars or not (kind in TEXTS or kind.is_integer()):
        raise InvalidInputError(
            f"{log.name}: the time in column {visible(column)!r} is of type {kind}. Convert it to a date or timestamp "
            "there, in SQL with CAST(... AS DATE)."
        )
    text = pl.col(column).cast(pl.String).str.strip_chars()
    parsed = _parsed(text, _checked(time_format)) if time_format else _guessed(log, column, text)
    name = log.new_name(f"{column} as time")
    return log.with_columns(parsed.alias(name)), nw.col(name)


def _chosen(*columns: pl.Expr) -> Query:
    return lambda frame: frame.to_native().select(*columns)


def _checked(time_format: str) -> str:
    """The format, if there can be times that are written so."""
    try:
        pl.DataFrame({"text": ["2017-03-31"]}).select(_parsed(pl.col("text"), time_format))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InvalidInputError(
            f"--time-format is {visible(time_format)!r} ({visible(error)}). Give one such as %d.%m.%Y."
        ) from error
    return time_format


def _parsed(text: pl.Expr, time_format: str) -> pl.Expr:
    if time_format == "%Y-%m":
        return _parsed(text + "-01", "%Y-%m-%d")
    if not any(part in time_format for part in ("%H", "%I", "%T", "%s")):
        parsed = text.str.to_date(time_format, strict=False)
    elif "%z" in time_format:
        with_offset = text.str.replace(r"[Zz]$", "+00:00")
        parsed = with_offset.str.to_datetime(time_format, strict=False, time_zone="UTC", time_unit="us")
    else:
        parsed = text.str.to_datetime(time_format, strict=False, time_unit="us")
    return pl.when(parsed.dt.year().is_between(FIRST_YEAR, LAST_YEAR)).then(parsed)


def _guessed(log: Log, column: str, text: pl.Expr) -> pl.Expr:
    """How a column of text writes its times, found from a sample; what can be read in two ways is refused."""
    held = log.collect(
        lambda frame: frame.to_native().select(text.alias("text")).filter(pl.col("text").is_not_null()).head(_SAMPLE),
        lambda rows: rows.head(_SAMPLE),
    )
    values = [value for value in held["text"].to_list() if value.casefold() not in MISSING]
    whole = [value for value in values if value.removeprefix("-").isdigit()]
    if len(whole) >= 0.9 * len(values) and not all(len(value) == 8 for value in whole):
        steps = text.cast(pl.Int64, strict=False)
        return pl.when(steps.is_between(-MOST_STEPS, MOST_STEPS)).then(steps)
    frame = pl.DataFrame({"text": values}, schema={"text": pl.String})

    def share(time_format: str) -> float:
        return frame.select(_parsed(pl.col("text"), time_format).is_not_null().mean()).item() or 0.0

    best = max((*FORMATS, "%Y-%m"), key=share)
    if values and share(best) >= 0.5:
        return _parsed(text, best)
    for formats in UNCLEAR:
        if max(map(share, formats)) < 0.5:
            continue
        counts = [_parsed(text, each).is_not_null().sum().cast(pl.Int64).alias(each) for each in formats]
        readable = log.collect(_chosen(*counts), pl.DataFrame.sum).row(0)
        likely = [each for each, rows in zip(formats, readable, strict=True) if rows == max(readable)]
        if len(likely) == 1:
            parsed = _parsed(text, likely[0])
            others = [_parsed(text, each).is_not_null() & parsed.is_null() for each in formats if each != likely[0]]
            if not log.collect(_chosen(pl.any_horizontal(others).any()), pl.DataFrame.max).item():
                return parsed
            likely = list(formats)  # of some rows one of them is true, and of some rows another
        raise InvalidInputError(
            f"{log.name}: times such as {visible(values[0])!r} in column {visible(column)!r} may have the day or the "
            f"month first. Say which: --time-format {' or '.join(map(repr, likely))}."
        )
    held_first = visible(values[0]) if values else ""
    raise InvalidInputError(
        f"{log.name}: column {visible(column)!r} holds {held_first!r}, which is not recognised as a time. Say how it "
        "is written: --time-format %d.%m.%Y."
    )
