"""Which rows meet a condition, such as year>=2015 or sex=F,M. What has no order is not put in one."""

import datetime
import re
from typing import Any

import narwhals as nw

from elbert.auditing.columns import (
    MISSING,
    NO,
    TEXTS,
    YES,
    Expr,
    as_numeric,
    first_row,
    is_in,
    number_in,
    values_of,
)
from elbert.auditing.log_files import Log
from elbert.auditing.question import Condition
from elbert.errors import InvalidInputError
from elbert.tables import visible

_DAY_OR_MONTH = r"\d{4}-\d\d(-\d\d)?"
_WHOLE = re.compile(r"[+-]?\d{1,18}")


def condition_met(log: Log, condition: Condition) -> tuple[Log, Expr]:
    """True where a row meets a condition; where its column is empty, it does not."""
    column, operator, wanted = condition.column, condition.operator, condition.values
    kind = log.frame.collect_schema()[column]
    ordered = operator not in ("=", "!=")
    numbers = [number_in(value) for value in wanted]
    if kind.is_numeric() or (kind in TEXTS and ordered and None not in numbers):
        if None in numbers:
            raise InvalidInputError(f"where compares column {visible(column)!r}, which holds numbers, with {wanted}.")
        if kind == nw.Int64 and all(map(_WHOLE.fullmatch, wanted)):  # not all of them are floating-point numbers
            return log, _compared(nw.col(column), operator, [int(value) for value in wanted])
        log, read = as_numeric(log, column)
        return log, _compared(read.value, operator, numbers)
    if kind in (nw.Date, nw.Datetime):
        moments = [_moment(value, condition) for value in wanted]
        by_day = kind == nw.Datetime and not any(isinstance(moment, datetime.datetime) for moment in moments)
        # A day is all of it, and not its midnight.
        return log, _compared(nw.col(column).dt.date() if by_day else nw.col(column), operator, moments)
    if kind == nw.Boolean:
        unclear = [value for value in wanted if value.casefold() not in YES | NO]
        if unclear:
            raise InvalidInputError(
                f"where compares column {visible(column)!r}, which holds true and false, with {unclear[0]!r}."
            )
        return log, _compared(nw.col(column), operator, [value.casefold() in YES for value in wanted])
    text = values_of(log, column).str.strip_chars()
    if not ordered:
        return log, _compared(text, operator, list(wanted))
    (bound,) = wanted
    _refuse_what_has_no_order(log, column, text, bound)
    return log, _compared(text.str.slice(0, len(bound)), operator, [bound])


def _refuse_what_has_no_order(log: Log, column: str, text: Expr, bound: str) -> None:
    """Text is in the order of time if it is written as 2019-12-31; 31.12.2019 is not."""
    if not re.fullmatch(_DAY_OR_MONTH, bound):
        raise InvalidInputError(
            f"where puts column {visible(column)!r}, which holds text, in order with {bound!r}. Only numbers and dates "
            "such as 2017-03-31 have an order."
        )
    wrong = ~text.str.contains(f"^{_DAY_OR_MONTH}") & ~text.str.to_lowercase().is_in(sorted(MISSING))
    example = first_row(log, column, wrong)
    if example:
        raise InvalidInputError(
            f"{log.name}: where puts column {visible(column)!r} in order with {bound!r}, and not all of it is written "
            f"like that{example}. Convert it to dates."
        )


def _compared(value: Expr, operator: str, wanted: list[Any]) -> Expr:
    """True where a value compares so; False where it is not known."""
    if operator in ("=", "!="):
        among = is_in(value, wanted)
        met = among if operator == "=" else ~among
    else:
        (bound,) = wanted
        met = {"<": value < bound, "<=": value <= bound, ">": value > bound, ">=": value >= bound}[operator]
    return (met & ~value.is_null()).fill_null(value=False)


def _moment(text: str, condition: Condition) -> datetime.datetime | datetime.date:
    try:
        return datetime.date.fromisoformat(text) if len(text) <= 10 else datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInputError(
            f"where compares column {visible(condition.column)!r}, which holds times, with {text!r}. Write 2017-03-31."
        ) from error
