"""Numbers that are added up: counts and amounts, of which some may only be known to be below a number, as in "<10"."""

from collections.abc import Collection
from typing import NamedTuple

import narwhals as nw
import polars as pl

from elbert.auditing.columns import TEXTS, Expr, Numeric, as_numeric
from elbert.auditing.log_files import Log

LARGEST = 1e15
"""Numbers beyond this are not added up: they are mistakes, and next to one of them the others would not count."""


def summable(log: Log, column: str, missing: Collection[str]) -> tuple[Log, Numeric]:
    """A column of numbers that can be added up."""
    log, read = as_numeric(log, column, missing)
    value = nw.when(read.value.abs() <= LARGEST).then(read.value)
    return log, Numeric(value, read.unreadable | (~read.value.is_null() & value.is_null()))


class Bounded(NamedTuple):
    """A column of amounts: the lowest and the highest that each can be."""

    low: Expr
    high: Expr
    cut: bool  # whether they differ anywhere

    @property
    def unknown(self) -> Expr:
        """True where there is no amount, or one below 0."""
        return self.low.is_null() | (self.low < 0)

    @property
    def open(self) -> Expr:
        """True where an amount is only known to be below a number."""
        return self.low < self.high


def bounded(log: Log, column: str, missing: Collection[str]) -> tuple[Log, Bounded]:
    """A column of amounts; "<10" is known to lie between 0 and 9."""
    most = log.new_name(f"{column} at most")
    if log.is_polars and log.frame.collect_schema()[column] in TEXTS:
        text = pl.col(column).cast(pl.String)
        below = text.str.extract(r"^\s*<\s*([0-9]{1,15})\s*$").cast(pl.Float64) - 1
        up_to = text.str.extract(r"^\s*(?:<=|≤)\s*([0-9]{1,15})\s*$").cast(pl.Float64)
        bound = pl.coalesce(below, up_to)
        known = log.with_columns(pl.when(bound >= 0).then(bound).alias(most))
        if known.collect(lambda frame: frame.select((~nw.col(most).is_null()).any()), pl.DataFrame.max).item():
            log, read = summable(known, column, missing)
            low = nw.when(nw.col(most).is_null()).then(read.value).otherwise(nw.lit(0.0))
            return log, Bounded(low, nw.coalesce(nw.col(most), read.value), cut=True)
    log, read = summable(log, column, missing)
    return log, Bounded(read.value, read.value, cut=False)
