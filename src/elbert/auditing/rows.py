"""What each row of a log means: whether it counts, and if not why; its period, unit and group; what it adds up to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import polars as pl

from elbert.auditing.amounts import bounded, summable
from elbert.auditing.columns import (
    Coded,
    Expr,
    Numeric,
    as_numeric,
    coded,
    first_row,
    identities,
    yes_or_no,
)
from elbert.auditing.conditions import condition_met
from elbert.auditing.exact_sums import Ask, Grid, grids_of, plain_is_exact
from elbert.auditing.log_files import ROW_NUMBER, Log
from elbert.auditing.question import ROW, Question
from elbert.auditing.times import Times, early_enough, is_before, read_times
from elbert.errors import InvalidInputError, NotEstimableError
from elbert.fairness.episode_totals import Floats
from elbert.fairness.notions import Criterion, Notion
from elbert.tables import visible

COUNTED = "counted"
NOT_ASKED_FOR = "left out by where"
UNKNOWN_COUNT = "count is not known, or below 0"
REASONS = (
    COUNTED,
    "time cannot be read",
    "time is not known",
    "decision cannot be read",
    "decision is not known",
    "unit is not known",
    UNKNOWN_COUNT,
    "amount is not known, or below 0",
    "outcome is before its decision",
    "outcome is not known",
)
"""Why a row that was asked for does not count; the first that applies is given."""
ROW_UNITS = 10_000
"""Independent rows may be put together at random: this many units of them say as much as the rows."""
MOST_EXPANDED = 5_000_000
"""Decisions that a column of counts may stand for, where each is a unit of its own."""
TIME_BLOCKS = ""
"""The unit of a log for which none was given."""
WEIGHT = "weight"
"""How many decisions a row stands for, also where it does not count; there where a column of counts is."""
DECIDED, UNDECIDED = 1.0, 0.0


class NoneAskedForError(NotEstimableError):
    """No row of a log meets the conditions."""

    def __init__(self, name: str, rows: int, where: tuple[str, ...]) -> None:
        """The log, the number of its rows, and the conditions."""
        super().__init__(f"{name}: none of its {rows:,} rows meets where ({visible(', '.join(where))}).")
        self.rows = rows


class Measures(NamedTuple):
    """What is added up, and how supply and demand are made of it.

    For decisions, the measures count rows by decision and outcome, and `pairs` says which; an outcome of None is one
    that nobody knows. For amounts they are supply and demand, each at its lowest and highest where cells such as "<10"
    leave room, and the squares that errors by row need.
    """

    criteria: tuple[str, ...]
    supply: Floats  # [criteria, measures]
    demand: Floats  # [criteria, measures]
    bounded: bool  # whether no more is given than is due
    pairs: tuple[tuple[float, float | None], ...] = ()  # (decision, outcome) of each measure
    suppressed: bool = False  # whether some amounts are only known to be below a number
    needs_outcome: bool = True  # whether an outcome that nobody knows leaves a decision open

    @property
    def number(self) -> int:
        """How many measures there are."""
        return self.supply.shape[1]

    def most_demand(self, sums: Floats) -> Floats:
        """The demand if everybody of unknown outcome was due.   [..., measures] -> [..., criteria]"""
        weights = self.demand.copy()
        for place, (decision, outcome) in enumerate(self.pairs):
            if outcome is None and (decision, 0.0) in self.pairs:
                known = [self.pairs.index((decision, each)) for each in (0.0, 1.0)]
                weights[:, place] = self.demand[:, known].max(axis=1)
        return sums @ weights.T

    def totals(self, sums: Floats) -> tuple[Floats, Floats]:
        """Supply and demand.   [..., measures] -> [..., criteria], twice"""
        return sums @ self.supply.T, sums @ self.demand.T


AMOUNTS = ("supply_low", "supply_high", "demand_low", "demand_high", "supply_square", "product", "demand_square")


@dataclass(frozen=True)
class Rows:
    """A log whose rows have a status, keys and measures."""

    log: Log
    columns: Mapping[str, Expr]  # status, period, unit, group, stratum, measure 0 ..
    measures: Measures
    notion: Notion | None
    times: Times | None
    unit: str  # ROW, TIME_BLOCKS, or the name of the column
    favourable: str  # what counts as the decision, for people
    due: str  # what counts as a good outcome, for people
    groups: Coded
    strata: Coded
    not_asked_for: int = 0  # rows of the log that do not meet the conditions
    by_value: bool = False  # decision and outcome are numbers: rows are counted by both, then weighed
    grids: Mapping[str, Grid] = field(default_factory=dict)  # of each column that is added up: how, to be exact
    wrong: Mapping[str, list[tuple[str, Expr]]] | None = None  # reason: columns, and which rows, for examples

    def of(self, frame: nw.LazyFrame[Any], *names: str) -> nw.LazyFrame[Any]:
        """Some columns of the log's frame, or of a part of it; not computed yet."""
        return frame.select(*(self.columns[name].alias(name) for name in names))

    def example(self, reason: str) -> str:
        """Where such a row stands, for a message."""
        found = (first_row(self.log, column, rows) for column, rows in (self.wrong or {}).get(reason, ()))
        return next((example for example in found if example), "")


def read_rows(log: Log, question: Question, notion: Notion | None, *, piece: bool = False) -> Rows:
    """Every row of a log, read as the question says. Nothing is added up yet.

    A piece of a log may lack groups and values that others hold.
    """
    log.require(question.columns)
    if question.unit == ROW and ROW in log.columns:
        raise InvalidInputError(
            f"{log.name}: unit is {ROW}, and there is a column of that name. Rename the column: if every row is a unit "
            "the name is not needed, and otherwise it must be told apart."
        )
    log = log.narrowed(question.columns)
    if not log.collect(lambda frame: frame.head(1), lambda rows: rows.head(1)).height:
        raise NotEstimableError(f"{log.name} has no rows. A log has one for every decision.")
    log, not_asked_for = _asked_for(log, question)
    missing, checks = question.missing, []
    wrong: dict[str, list[tuple[str, Expr]]] = {}

    def check(reason: str, rows: Expr, column: str = "") -> None:
        checks.append((REASONS.index(reason), rows.fill_null(value=False)))
        if column:
            wrong.setdefault(reason, []).append((column, rows))

    times = None
    if question.time is not None:
        log, times = read_times(log, question.time, question.period, question.time_format, missing)
        check("time cannot be read", times.unreadable, question.time)
        check("time is not known", times.moment.is_null())
    weight: Expr = nw.lit(1.0)
    if question.count is not None:
        log, count = summable(log, question.count, missing)
        check(UNKNOWN_COUNT, count.value.is_null() | (count.value < 0), question.count)
        weight = count.value
    unit, unit_key = question.unit or TIME_BLOCKS, nw.lit(0) if times is None else times.key
    if unit == ROW:
        log, unit_key, weight = _row_units(log, question, weight)
    elif question.unit is not None:
        unit_key = identities(log, question.unit, missing)
        check("unit is not known", unit_key.is_null(), question.unit)
    if question.supply is not None and question.demand is not None:
        log, body, unknown = _amounts(log, question.supply, question.demand, missing)
        for column, rows in unknown.items():
            check("amount is not known, or below 0", rows, column)
    else:
        log, body = _decisions(log, question, notion, times, weight, check, piece=piece)
    groups, strata = coded(log, question.group, missing, "group"), coded(log, question.control, missing, "control")
    if not piece:
        _check_groups(log, question, groups)
    status = nw.lit(0)
    for code, rows in sorted(checks, key=lambda each: -each[0]):
        status = nw.when(rows).then(nw.lit(code)).otherwise(status)
    period = nw.lit(0) if times is None else times.key
    keys = {"status": status, "unit": unit_key, "period": period, "group": groups.key, "stratum": strata.key}
    if question.count is not None and unit != ROW:
        keys[WEIGHT] = nw.when(weight >= 0).then(weight).otherwise(nw.lit(0.0))
    columns = keys | body.columns
    added = {name: columns[name] for name in columns if name == WEIGHT or name.startswith("measure ")}
    counts_rows = question.supply is None and WEIGHT not in added
    return Rows(
        log=log,
        columns=columns,
        measures=body.measures,
        notion=notion,
        times=times,
        unit=unit,
        favourable=body.favourable,
        due=body.due,
        groups=groups,
        strata=strata,
        not_asked_for=not_asked_for,
        by_value=body.by_value,
        grids=dict.fromkeys(added, ()) if counts_rows else _grids(log, added, body.amounts or (weight,)),
        wrong=wrong,
    )


def _grids(log: Log, added: Mapping[str, Expr], amounts: Sequence[Expr]) -> dict[str, Grid]:
    """How columns, which are amounts and their products, are added up so that sums are exact."""

    def asking(columns: Mapping[str, Expr]) -> Ask:
        named = [expr.alias(name) for name, expr in columns.items()]
        return lambda query, together: log.collect(lambda frame: query(frame.select(*named)), together)

    distinct = {f"amount {k}": expr for k, expr in enumerate({id(expr): expr for expr in amounts}.values())}
    if plain_is_exact(asking(distinct), [*distinct]):
        return dict.fromkeys(added, ())
    return grids_of(asking(added), [*added])


def _asked_for(log: Log, question: Question) -> tuple[Log, int]:
    """The rows that meet all conditions, and the number of those that do not."""
    if not question.where:
        return log, 0
    every = [nw.lit(value=True)]
    for condition in question.conditions():
        log, met = condition_met(log, condition)
        every.append(met)
    kept = nw.all_horizontal(*every, ignore_nulls=True)
    chosen = log.changed(lambda frame: frame.filter(kept))
    rows, within = log.number_of_rows(), chosen.number_of_rows()
    if not within:
        raise NoneAskedForError(log.name, rows, question.where)
    return chosen, rows - within


class _Body(NamedTuple):
    """The part of a row that is added up."""

    columns: dict[str, Expr]
    measures: Measures
    favourable: str = ""
    due: str = ""
    by_value: bool = False
    amounts: tuple[Expr, ...] = ()  # that columns are made of, where they are not counts


def _check_groups(log: Log, question: Question, groups: Coded) -> None:
    for column, texts in zip(question.group, groups.texts, strict=True):
        if len(texts) < 2:
            held = visible(texts[0], 30) if texts else "nothing that is known"
            raise InvalidInputError(
                f"{log.name}: column {visible(column)!r} holds one group only ({held}), and a bias compares groups."
            )


def _row_units(log: Log, question: Question, weight: Expr) -> tuple[Log, Expr, Expr]:
    """Rows as units: each its own, or put together at random where there are many. A count is written out first."""
    if not log.is_polars:
        raise InvalidInputError("unit is row, and this frame has no row numbers. Name a column with a row's number.")
    if question.count is None:
        if ROW_NUMBER not in log.frame.collect_schema().names():
            log = replace(log, frame=nw.from_native(log.frame.to_native().with_row_index(ROW_NUMBER)))
        return *_dealt(log, ROW_NUMBER), weight
    if log.parts:
        raise InvalidInputError(
            f"ray is given, column {visible(question.count)!r} holds counts, and every decision is to be a unit. Leave "
            "ray out: such a log is small enough for one machine. Or give --unit or --time."
        )
    name, unit = log.new_name("copies of a row"), log.new_name("unit of a row")
    log = replace(log, frame=log.frame.with_columns(weight.alias(name)))
    broken = nw.col(name).round(0) != nw.col(name)
    example = first_row(log, question.count, broken & (nw.col(name) >= 0))
    if example:
        raise InvalidInputError(
            f"{log.name}: column {visible(question.count)!r} holds a count that is no whole number{example}, and every "
            "decision is to be a unit. Name a column that says what is independent (--unit), or a --time."
        )
    # A row whose count is not known stays one row, which does not count; one that stands for nobody is none.
    copies = pl.when(pl.col(name) >= 0).then(pl.col(name)).otherwise(1.0)
    number = log.collect(lambda frame: frame.to_native().select(copies.sum())).item()
    if number > MOST_EXPANDED:
        raise InvalidInputError(
            f"{log.name} stands for {number:.0f} decisions, too many to take each as a unit. Give --unit or --time."
        )
    note = f"Column {visible(question.count)!r} says how many decisions a row stands for: each is counted as a row."
    log = replace(log, notes=(*log.notes, note))
    native = log.frame.to_native().filter(copies > 0)
    native = native.with_columns(pl.lit(1.0).repeat_by(copies.cast(pl.UInt32)).alias(name)).explode(name)
    return *_dealt(replace(log, frame=nw.from_native(native.with_row_index(unit))), unit), nw.col(name)


def _dealt(log: Log, column: str) -> tuple[Log, Expr]:
    """Rows as units; many are put together at random, since those at equal distances in a sorted log are alike."""
    if log.number_of_rows() <= ROW_UNITS:
        return log, nw.col(column).cast(nw.Int64)
    name = log.new_name("unit of rows")
    return log.with_columns((pl.col(column).hash() % ROW_UNITS).alias(name)), nw.col(name)


def _decisions(
    log: Log, question: Question, notion: Notion | None, times: Times | None, weight: Expr, check: Any, *, piece: bool
) -> tuple[Log, _Body]:
    """Decisions, with outcomes where they are asked for: yes or no, or numbers where the notion counts."""
    assert notion is not None
    assert question.decision is not None
    cut, missing = question.cut(), question.missing
    if not notion.binary and cut is None:
        return _by_value(log, question, notion, weight, check)
    decided, refused, favourable = nw.lit(value=False), nw.lit(value=False), ""
    if cut is not None:
        log, score = as_numeric(log, question.decision, missing)
        at = cut.at
        beyond = {"<": score.value < at, "<=": score.value <= at, ">": score.value > at, ">=": score.value >= at}
        decided, refused = beyond[cut.operator], ~beyond[cut.operator]
        favourable = f"{question.decision} {cut}"
        check("decision cannot be read", score.unreadable, question.decision)
    else:
        values = yes_or_no(log, question.decision, question.favourable, "favourable", missing, piece=piece)
        decided, refused = values.is_yes(), values.is_no()
        favourable = f"{question.decision} = {values.words}"
    decided, refused = decided.fill_null(value=False), refused.fill_null(value=False)
    check("decision is not known", ~decided & ~refused)
    outcomes: list[tuple[float | None, Expr]] = [(None, nw.lit(value=True))]
    good = ""
    if question.outcome is not None:
        values = yes_or_no(log, question.outcome, question.good, "good", missing, piece=piece)
        due, not_due = values.is_yes().fill_null(value=False), values.is_no().fill_null(value=False)
        good = f"{question.outcome} = {values.words}"
        if question.due is not None and times is not None:
            known = early_enough(times, question.due)
            due, not_due = due & known, not_due & known
        if question.outcome_time is not None and times is not None:
            log, later = read_times(log, question.outcome_time, None, question.time_format, missing)
            check("outcome is before its decision", is_before(log, later, times), question.outcome_time)
        outcomes = [(UNDECIDED, not_due), (DECIDED, due), (None, ~due & ~not_due)]
    pairs = [(d, q) for d in (UNDECIDED, DECIDED) for q, _ in outcomes]
    cells = [rows & outcome for rows in (refused, decided) for _, outcome in outcomes]
    columns = {f"measure {k}": nw.when(rows).then(weight).otherwise(nw.lit(0.0)) for k, rows in enumerate(cells)}
    return log, _Body(columns, _measures_of(notion, pairs), favourable, good)


def _measures_of(notion: Notion, pairs: list[tuple[float, float | None]]) -> Measures:
    """Counts by decision and outcome; what is not known adds nothing, unless the notion does without."""
    needed = notion.needs_qualified

    def weights(amount: Any) -> list[float]:
        return [
            0.0 if q is None and needed else float(np.asarray(amount(np.float64(d), np.float64(q or 0.0)) * 1.0))
            for d, q in pairs
        ]

    return Measures(
        criteria=tuple(criterion.name for criterion in notion.criteria),
        supply=np.array([weights(criterion.supply) for criterion in notion.criteria]),
        demand=np.array([weights(criterion.demand) for criterion in notion.criteria]),
        bounded=notion.bounded,
        pairs=tuple(pairs),
        needs_outcome=needed,
    )


def _by_value(log: Log, question: Question, notion: Notion, weight: Expr, check: Any) -> tuple[Log, _Body]:
    """Decision and outcome as numbers, such as units of attention and incidents."""
    assert question.decision is not None
    log, decision = summable(log, question.decision, question.missing)
    check("decision cannot be read", decision.unreadable, question.decision)
    check("decision is not known", decision.value.is_null())
    outcome = Numeric(nw.lit(0.0), nw.lit(value=False))
    if question.outcome is not None:
        log, outcome = summable(log, question.outcome, question.missing)
        check("outcome is not known", outcome.value.is_null() | outcome.unreadable, question.outcome)
    columns = {"decision": decision.value, "outcome": outcome.value, "measure 0": weight}
    criteria: tuple[Criterion, ...] = notion.criteria
    eye = np.eye(len(criteria))
    blank, squares = np.zeros_like(eye), np.zeros((len(criteria), 3 * len(criteria)))
    measures = Measures(
        criteria=tuple(criterion.name for criterion in criteria),
        supply=np.hstack([eye, blank, squares]),
        demand=np.hstack([blank, eye, squares]),
        bounded=notion.bounded,
    )
    return log, _Body(columns, measures, question.decision, question.outcome or "", by_value=True)


def _amounts(log: Log, supply: str, demand: str, missing: Sequence[str]) -> tuple[Log, _Body, dict[str, Expr]]:
    """Columns of supply and demand, and where they are not known; "<10" is known to lie between 0 and 9."""
    log, given = bounded(log, supply, missing)
    log, due = bounded(log, demand, missing)
    s_high, d_low = given.high, due.low
    beyond = (given.low > due.high).any().alias("beyond")
    within = not log.collect(lambda frame: frame.select(beyond), pl.DataFrame.max).item()
    if within and (given.cut or due.cut):  # of what is not known, no more was given than was due, as everywhere else
        s_high = nw.when(given.open).then(nw.min_horizontal(given.high, due.high)).otherwise(given.high)
        least = nw.min_horizontal(nw.max_horizontal(due.low, s_high), due.high)
        d_low = nw.when(due.open).then(least).otherwise(due.low)
    s, d = (each.low if not each.cut else (each.low + high) / 2 for each, high in ((given, s_high), (due, due.high)))
    named = dict(zip(AMOUNTS, (given.low, s_high, d_low, due.high, s * s, s * d, d * d), strict=True))
    columns = {f"measure {k}": expr for k, expr in enumerate(named.values())}
    measures = Measures(
        criteria=("benefit rate",),
        supply=np.array([[0.5, 0.5, 0, 0, 0, 0, 0]]),
        demand=np.array([[0, 0, 0.5, 0.5, 0, 0, 0]]),
        bounded=within,
        suppressed=given.cut or due.cut,
    )
    body = _Body(columns, measures, amounts=(given.low, s_high, d_low, due.high, s, d))
    return log, body, {supply: given.unknown, demand: due.unknown}
