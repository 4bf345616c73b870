"""Sums of amounts that do not depend on the order of the rows, on how they are split, or on the engine.

Floating-point numbers are rounded at every addition, so each order gives another sum. Here every amount is cut into
whole numbers, its digits to the base 2**28. Engines add up whole numbers exactly, digit by digit, and each sum is
rounded once at the end: to the floating-point number that is nearest to the true sum.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np
import polars as pl

from elbert.auditing.log_files import Query, Together

BITS = 28
"""Of a digit: sums of 2**35 of them are whole numbers of 64 bits."""
WHOLE = 2.0**53
"""Up to here floating-point numbers count every whole number; larger ones are whole."""
Grid: TypeAlias = tuple[int, ...]
"""The exponents of the digits that amounts are cut into, highest first; none where plain sums are exact."""
Ask: TypeAlias = Callable[[Query, Together], pl.DataFrame]
"""Puts a query to rows, which may be in parts."""
_NUMBER = "number of rows"


def grids_of(ask: Ask, names: Sequence[str]) -> dict[str, Grid]:
    """The digits that each column of amounts needs: none where no sum is rounded, as of whole numbers below 2**53."""
    grids: dict[str, Grid] = {}
    exponents = [0]
    while left := [name for name in names if name not in grids]:
        found = ask(_probe(left, exponents), _of_all_parts).row(0, named=True)
        for name in left:
            lowest = next((each for each in exponents if not found[f"{name} below {each}"]), None)
            if lowest is not None:
                grids[name] = _grid(found[f"{name} at most"] or 0.0, lowest, found[_NUMBER])
        exponents = [exponents[-1] - BITS * k for k in (1, 2, 3)]
    return {name: grids[name] for name in names}


def plain_is_exact(ask: Ask, names: Sequence[str]) -> bool:
    """Whether columns hold whole numbers, of which no sum is rounded, and none of their products."""
    found = ask(_probe(names, [0]), _of_all_parts).row(0, named=True)
    largest = max(found[f"{name} at most"] or 0.0 for name in names)
    return max(largest, 1.0) ** 2 * found[_NUMBER] < WHOLE and not any(found[f"{name} below 0"] for name in names)


def _of_all_parts(found: pl.DataFrame) -> pl.DataFrame:
    return found.select(pl.col(_NUMBER).sum(), pl.exclude(_NUMBER).max())


def _probe(names: Sequence[str], exponents: Sequence[int]) -> Query:
    """The number of rows, the largest amounts, and whether any has digits below 2**exponent."""
    columns = [nw.len().cast(nw.Int64).alias(_NUMBER)]
    for name in names:
        columns.append(nw.col(name).abs().max().alias(f"{name} at most"))
        for exponent in exponents:
            value = _scaled(nw.col(name), -exponent)
            broken = (value.abs() < WHOLE) & (value != value.floor())
            columns.append(broken.any().alias(f"{name} below {exponent}"))
    return lambda frame: frame.select(*columns)


def _grid(largest: float, lowest: int, number: int) -> Grid:
    if largest * number < WHOLE * 2.0**lowest:
        return ()
    digits = max(1, math.ceil((math.frexp(largest)[1] - lowest) / BITS))
    return tuple(lowest + BITS * place for place in reversed(range(digits)))


def summed(frame: nw.LazyFrame[Any], by: Sequence[str], grids: Mapping[str, Grid], *more: nw.Expr) -> nw.LazyFrame[Any]:
    """The sums of amounts by keys, and more; amounts with a grid are summed digit by digit."""
    sums = [nw.col(name).sum() for name, grid in grids.items() if not grid]
    for name, grid in grids.items():
        for exponent in grid:
            # One digit after the other: as a single expression, it would double in size with each.
            digit = f"{name} digit {exponent}"
            frame = frame.with_columns(_scaled(nw.col(name), -exponent).cast(nw.Int64).alias(digit))
            if exponent != grid[-1]:
                frame = frame.with_columns(nw.col(name) - _scaled(nw.col(digit).cast(nw.Float64), exponent))
            sums.append(nw.col(digit).sum())
    return frame.group_by(*by).agg(*more, *sums)


def assembled(table: pl.DataFrame, grids: Mapping[str, Grid]) -> pl.DataFrame:
    """A table of sums, with the sum of each amount, in order, in place of the sums of its digits."""
    for name, grid in grids.items():
        if grid:
            digits = [f"{name} digit {exponent}" for exponent in grid]
            sums = table.select(pl.col(digits).cast(pl.Int64).fill_null(0)).to_numpy()
            table = table.drop(digits).with_columns(pl.Series(name, _nearest(sums, grid[-1])))
    return table.select(pl.exclude(*grids), *grids)


def exact_sums(table: pl.DataFrame, by: Sequence[str], names: Sequence[str]) -> pl.DataFrame:
    """The sums of columns of a table in memory by keys, exact and rounded once; those that are not finite are plain."""
    frame = nw.from_native(table.lazy())
    finite = [name for name in names if table[name].is_finite().all()]

    def collected(query: Query) -> pl.DataFrame:
        lazy: pl.LazyFrame = nw.to_native(query(frame), pass_through=True)
        return lazy.collect()

    grids = dict.fromkeys(names, ()) | grids_of(lambda query, _: collected(query), finite)
    return assembled(collected(lambda frame: summed(frame, by, grids)), grids)


def _scaled(value: Any, exponent: int) -> Any:
    """value * 2**exponent, where that power itself may be out of range."""
    if abs(exponent) > 1000:
        step = math.copysign(1000, exponent)
        return _scaled(value * 2.0**step, exponent - int(step))
    return value * 2.0**exponent if exponent else value


def _nearest(sums: np.ndarray[Any, np.dtype[np.int64]], lowest: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The floating-point numbers that are nearest to sums of digits, the last of which counts 2**lowest.

    [rows, digits] -> [rows]
    """
    negative = _carried(sums)[:, 0] < 0
    digits = _carried(np.where(negative[:, None], -sums, sums))
    first = np.argmax(digits != 0, axis=1)[:, None]
    high, middle, low = (np.take_along_axis(digits, first + k, axis=1)[:, 0] for k in range(3))
    below = np.flip(np.logical_or.accumulate(np.flip(digits != 0, axis=1), axis=1), axis=1)
    rest = np.take_along_axis(below, first + 3, axis=1)[:, 0]
    # Three digits have 57 bits and more. They are cut to 62 at most, and the last bit says whether anything follows:
    # so the whole number is rounded as the sum itself would be.
    surplus = np.maximum(np.frexp(high.astype(float))[1] - 6, 0)
    rest |= (low & ((1 << surplus) - 1)) != 0
    leading = (((high << BITS) + middle) << (BITS - surplus)) | (low >> surplus) | rest
    exponent = lowest + BITS * (digits.shape[1] - 1 - 3 - first[:, 0] - 2) + surplus
    return np.where(negative, -1.0, 1.0) * np.ldexp(leading.astype(float), exponent)


def _carried(sums: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Sums of digits as digits, with three more in front and three behind; the first alone may be negative."""
    digits = np.pad(sums, ((0, 0), (3, 3)))
    for place in range(digits.shape[1] - 1, 0, -1):
        digits[:, place - 1] += digits[:, place] >> BITS
        digits[:, place] &= (1 << BITS) - 1
    return digits
