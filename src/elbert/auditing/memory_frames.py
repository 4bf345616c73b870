"""Frames in memory as polars holds them: what it cannot hold as it is becomes text, or objects that are not read."""

import datetime
import numbers
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl

from elbert.errors import InvalidInputError
from elbert.tables import visible


def as_polars(frame: Any) -> pl.DataFrame:
    """A frame in memory as polars holds it; columns that it cannot hold as they are go through lists."""
    try:
        whole = frame.to_polars()
    except (Exception, pl.exceptions.PanicException):  # mixed types, or pandas without pyarrow: each engine has its own
        columns = [_column(frame.get_column(name)) for name in frame.columns]
        twice = [name for name, often in Counter(column.name for column in columns).items() if often > 1]
        if twice:  # such as 1 and "1" in pandas
            raise InvalidInputError(f"The log has more than one column called {visible(twice[0])!r}.") from None
        whole = pl.DataFrame(columns)
    return whole.cast({pl.Null: pl.String})  # a column without a value may be of any type


def _column(column: Any) -> pl.Series:
    """A column of one simple type as it is, one of several as text, and of anything else as objects."""
    values = [value.item() if isinstance(value, np.generic) else value for value in column.to_list()]
    values = [None if _is_missing(value) else value for value in values]
    kinds, name = {type(value) for value in values} - {type(None)}, written(column.name)
    if not all(issubclass(kind, str | numbers.Real | Decimal | datetime.date) for kind in kinds):
        return pl.Series(name, values, dtype=pl.Object)
    if len(kinds) == 1:
        try:
            return pl.Series(name, values)
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
            pass  # such as whole numbers that are too large: as text they are still told apart
    return pl.Series(name, [None if value is None else written(value) for value in values], dtype=pl.String)


def _is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or what pandas has for them."""
    if value is None or type(value).__name__ in ("NaTType", "NAType"):
        return True
    return value.is_nan() if isinstance(value, Decimal) else isinstance(value, numbers.Real) and value != value


def written(value: Any) -> str:
    """A single value as people write it: 1.0 is 1, True is true."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value).encode("utf-8", "backslashreplace").decode()  # Python's text can hold what no file can
