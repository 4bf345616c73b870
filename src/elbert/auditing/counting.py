"""Rows in, totals out: counted rows are added up per unit, period and group in the log's own engine.

Totals per unit are always those of all units. Cells (unit, period, group) only serve to find errors over time and of
splits; a log may have far more of them than fit into memory, and then they are those of some units, drawn at random.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np
import polars as pl

from elbert.auditing.columns import Coded, Label
from elbert.auditing.exact_sums import assembled, exact_sums, summed
from elbert.auditing.rows import COUNTED, NOT_ASKED_FOR, REASONS, TIME_BLOCKS, WEIGHT, Rows
from elbert.errors import InvalidInputError, NotEstimableError
from elbert.fairness.episode_totals import Floats
from elbert.progress import Progress, Tell

Chunks: TypeAlias = Callable[[], Iterator[Floats]]
"""Units in turns, each time the cells of some: [units, places, groups, measures]."""
MOST_CELLS = 4_000_000
"""Cells (unit, period, group) that are added up; of a log with more of them, those of a random part of the units."""
MOST_ROWS = 12_500_000
"""Rows that are added up at once by units, of which there may be many."""
MOST_GROUPS = 1000
_ONE_OF = 16
"""So many units are taken for one, to say about how many there are."""
_NOWHERE = -(2**40)
_NUMBERS = 2**22
"""Numbers in the cells of some units, as an array."""


@dataclass(frozen=True)
class Tally:
    """What the rows of a log add up to, without a look at units."""

    rows: int  # of the log
    reasons: Mapping[str, int]  # rows by status, of those that occur
    groups: tuple[Label, ...]  # combinations of the group columns' values
    periods: tuple[str, ...]  # one without a name where no time is known
    strata: tuple[Label, ...]  # combinations of the control columns' values
    rows_by_group: Floats  # [groups]
    by_period: Floats  # [periods, groups, measures]
    by_stratum: Floats  # [strata, groups, measures]
    lost_by_group: Floats  # [groups] decisions that were asked about and are not counted
    left_out: Floats  # [periods] the same, where their time is known
    units: int
    by_unit: Floats  # [units, groups, measures]
    part: float  # of the units whose cells by period are looked at
    period_cells: Chunks
    stratum_cells: Chunks  # of all units, in the order of `by_unit`

    @property
    def counted(self) -> int:
        """Rows that are counted."""
        return self.reasons.get(COUNTED, 0)


def count_rows(rows: Rows, tell: Tell) -> Tally:
    """Add up all rows by period and by stratum, and prepare the sweeps over units."""
    tell(Progress("reading", 0, None, "passes"))
    every = added_up(rows, ["status", "period", "group"])
    reasons = {
        REASONS[int(code)]: int(number)
        for code, number in every.select("status", "rows").group_by("status").sum().sort("status").iter_rows()
    }
    if COUNTED not in reasons:
        raise NotEstimableError(_nothing_counted(rows, reasons))
    if rows.not_asked_for:
        reasons[NOT_ASKED_FOR] = rows.not_asked_for
    counted, others = every.filter(every["status"] == 0), every.filter(every["status"] != 0)
    groups, periods = _Axis.of(every, "group", rows.groups), _Axis.of_periods(rows)
    assert _dense(counted, [periods, groups], ["rows"]).sum() == reasons[COUNTED], "a row has no place"
    by_period = _dense(counted, [periods, groups])
    strata, by_stratum = _Axis("stratum", (), ()), np.zeros((0, *by_period.shape[1:]))
    if rows.strata.texts:
        within = added_up(rows, ["status", "stratum", "group"])
        within = within.filter(within["status"] == 0)
        strata = _Axis.of(within, "stratum", rows.strata)
        by_stratum = _dense(within, [strata, groups])

    units = _units(rows)
    number = int(every["rows"].sum()) if units else 0
    blocks = periods if rows.unit == TIME_BLOCKS else None
    drawn = max(1, math.ceil(min(number, units * len(periods.codes) * len(groups.labels)) / MOST_CELLS))
    drawn = drawn if blocks is None else 1
    parts = max(1, math.ceil(number / MOST_ROWS)) if drawn > 1 else 1

    def sweep(places: _Axis, some: Sequence[Rows]) -> Chunks:
        def chunks() -> Iterator[Floats]:
            for each in some:
                yield from _by_unit(added_up(each, ["unit", places.column, "group", "status"]), blocks, places, groups)

        return chunks

    in_parts = [rows if parts == 1 else _of_units(rows, parts, part) for part in range(parts)]
    period_cells = sweep(periods, [rows if drawn == 1 else _of_units(rows, drawn, 0)])
    sums, swept = [], 0
    if drawn == 1:
        sums = [cells.sum(axis=1) for cells in period_cells()]
    for part, each in enumerate(in_parts if drawn > 1 else ()):
        tell(Progress("adding up by unit", part, parts, "parts"))
        table = added_up(each, ["unit", "group", "status"])
        swept += _drawn_units(table, drawn)
        sums += [cells[:, 0] for cells in _by_unit(table, None, _NO_AXIS, groups)]
    by_unit = np.concatenate(sums)
    return Tally(
        rows=sum(reasons.values()),
        reasons=reasons,
        groups=groups.labels,
        periods=tuple(str(label) for (label,) in periods.labels),
        strata=strata.labels,
        rows_by_group=_dense(counted, [groups], ["rows"])[:, 0],
        by_period=by_period,
        by_stratum=by_stratum,
        lost_by_group=_dense(others, [groups], [WEIGHT if WEIGHT in others.columns else "rows"])[:, 0],
        left_out=_dense(others, [periods], ["rows"])[:, 0],
        units=len(by_unit),
        by_unit=by_unit,
        part=1.0 if drawn == 1 else swept / len(by_unit),
        period_cells=period_cells,
        stratum_cells=sweep(strata, in_parts),
    )


@dataclass(frozen=True)
class _Axis:
    """One axis of an array of totals: its column of whole numbers, the labels in order, and whose numbers they are."""

    column: str
    labels: tuple[Label, ...]
    codes: tuple[tuple[int, int], ...]  # number in the column, place on the axis

    @classmethod
    def of(cls, table: pl.DataFrame, column: str, coded: Coded) -> "_Axis":
        """The combinations of values that occur, most frequent first and those with unknown parts last."""
        sums = table.select(column, "rows").group_by(column).sum().rows()
        ordered = sorted(
            ((coded.label(code), code, rows) for code, rows in sums),
            key=lambda each: (None in each[0], -each[2], [part or "" for part in each[0]]),
        )
        if len(ordered) > MOST_GROUPS:
            raise InvalidInputError(
                f"There are {len(ordered)} combinations of values; at most {MOST_GROUPS} are compared."
            )
        places = tuple((int(code), place) for place, (_, code, _) in enumerate(ordered))
        return cls(column, tuple(label for label, _, _ in ordered), places)

    @classmethod
    def of_periods(cls, rows: Rows) -> "_Axis":
        """All periods from the first to the last."""
        if rows.times is None:
            return cls("period", (("",),), ((0, 0),))
        place = {label: number for number, label in enumerate(rows.times.labels)}
        codes = tuple((code, place[label]) for code, label in rows.times.texts.items())
        return cls("period", tuple((label,) for label in rows.times.labels), codes)

    def places(self, values: pl.Series) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The place of each row on this axis; -1 where it has none."""
        numbers = values.cast(pl.Int64).fill_null(_NOWHERE).to_numpy()
        codes = np.array(sorted(self.codes), dtype=np.int64).reshape(-1, 2)
        at = np.minimum(np.searchsorted(codes[:, 0], numbers), len(codes) - 1)
        return np.where(codes[at, 0] == numbers, codes[at, 1], -1)


_NO_AXIS = _Axis("", (("",),), ())


def added_up(rows: Rows, keys: list[str]) -> pl.DataFrame:
    """The sums of all measures, and the number of rows, for every combination of keys."""
    values = ["decision", "outcome"] if rows.by_value else []
    by, names = [*keys, *values], {id(rows.columns[name]): name for name in reversed([*rows.grids])}
    grids = {name: rows.grids[name] for name in reversed(names.values())}  # what is the same is added up once
    table = rows.log.collect(
        lambda frame: summed(rows.of(frame, *by, *grids), by, grids, nw.len().cast(nw.Int64).alias("rows")),
        lambda tables: tables.group_by(by).sum(),
    )
    table = assembled(table, grids).select(
        *by, "rows", *(pl.col(names[id(rows.columns[name])]).alias(name) for name in rows.grids)
    )
    return (_weighed(rows, table, keys) if rows.by_value else table).sort(keys)  # the same sums in the same order


def _weighed(rows: Rows, table: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Rows that were counted by their decision and outcome, as supply, demand and their squares."""
    assert rows.notion is not None
    decision, outcome, number = (
        table[name].cast(pl.Float64).fill_null(0.0).to_numpy() for name in ("decision", "outcome", "measure 0")
    )
    supply, demand = (
        [np.broadcast_to(np.asarray(amount(decision, outcome), float), number.shape) for amount in amounts]
        for amounts in ([c.supply for c in rows.notion.criteria], [c.demand for c in rows.notion.criteria])
    )
    products = [
        *(s * s for s in supply),
        *(s * d for s, d in zip(supply, demand, strict=True)),
        *(d * d for d in demand),
    ]
    columns = {f"measure {k}": number * values for k, values in enumerate([*supply, *demand, *products])}
    kept = [name for name in ("rows", WEIGHT) if name in table.columns]
    return exact_sums(table.select(*keys, *kept).with_columns(**columns), keys, [*kept, *columns])


def _dense(table: pl.DataFrame, axes: Sequence[_Axis], columns: Sequence[str] = ()) -> Floats:
    """The sums of a table as an array.   -> [*axes, columns]"""
    columns = columns or [name for name in table.columns if name.startswith("measure ")]
    places = [axis.places(table[axis.column]) for axis in axes]
    inside = np.all([place >= 0 for place in places], axis=0)
    dense = np.zeros((*(len(axis.labels) for axis in axes), len(columns)))
    values = table.select(columns).cast(pl.Float64).to_numpy()
    np.add.at(dense, tuple(place[inside] for place in places), values[inside])
    return dense


def _by_unit(table: pl.DataFrame, blocks: _Axis | None, places: _Axis, groups: _Axis) -> Iterator[Floats]:
    """The cells of some units at a time, which may be blocks of time.   -> [units, places, groups, measures]"""
    table = table.filter(table["status"] == 0)
    if not table.height:
        return
    names = (
        table["unit"] if blocks is None else pl.Series(blocks.places(table["unit"]))
    )  # in order: equal ones together
    unit = (names != names.shift()).fill_null(value=False).cum_sum().to_numpy()
    columns = [name for name in table.columns if name.startswith("measure ")]
    values = table.select(columns).cast(pl.Float64).to_numpy()
    group = groups.places(table["group"])
    place = places.places(table[places.column]) if places.column else np.zeros_like(group)
    size = max(1, _NUMBERS // (len(places.labels) * len(groups.labels) * len(columns)))
    for start in range(0, int(unit[-1]) + 1, size):
        begin, end = np.searchsorted(unit, [start, start + size])
        here = slice(begin, end)
        shape = (int(unit[end - 1]) - start + 1, len(places.labels), len(groups.labels))
        flat = np.ravel_multi_index((unit[here] - start, place[here], group[here]), shape)
        cells = np.empty((*shape, len(columns)))
        for k, column in enumerate(values[here].T):
            cells[..., k] = np.bincount(flat, weights=column, minlength=math.prod(shape)).reshape(shape)
        yield cells


def _units(rows: Rows) -> int:
    """About how many units there are, where that matters: other engines are left to themselves."""
    if not rows.log.is_polars or rows.unit == TIME_BLOCKS:
        return 0
    chance = pl.col("unit").hash().alias("chance")
    some = rows.log.collect(
        lambda frame: (
            rows.of(frame, "unit").to_native().select(chance).filter(pl.col("chance") % _ONE_OF == 0).unique()
        ),
        pl.DataFrame.unique,
    )
    return _ONE_OF * (some.height + 1)


def _drawn_units(table: pl.DataFrame, drawn: int) -> int:
    """How many of the units of a table are in the first of so many random parts."""
    units = table.filter(table["status"] == 0)["unit"].unique()
    return int((units.hash() % drawn == 0).sum())


def _of_units(rows: Rows, parts: int, part: int) -> Rows:
    """The rows of one random part of the units."""
    name = rows.log.new_name("unit of the log")

    def chosen(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        named = frame.with_columns(rows.columns["unit"].alias(name)).to_native()
        return nw.from_native(named.filter(pl.col(name).hash() % parts == part))

    return replace(rows, log=rows.log.changed(chosen))


def _nothing_counted(rows: Rows, reasons: Mapping[str, int]) -> str:
    if not reasons:
        return f"{rows.log.name} has no rows."
    shown = ", ".join(f"{reason} ({number}){rows.example(reason)}" for reason, number in reasons.items())
    return f"{rows.log.name} has no row that can be counted: {shown}."
