"""Looking again and again: new rows of a log are added to a small state, and the bounds hold however often one looks.

A unit is a block of time, or a value of the unit's column, whose rows must then come within one period; or every row is
one. A unit counts when its period is over, that is when a row of a later period was seen. So it does not matter in how
many pieces a log comes, as long as they come in the order of time.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from elbert.auditing.columns import Label, identities, text_of
from elbert.auditing.counting import added_up
from elbert.auditing.log_files import Log, open_log
from elbert.auditing.monitor_look import Monitored, look_at
from elbert.auditing.monitor_state import (
    AGAIN,
    LATE,
    REPEATED,
    UNKNOWN_GROUP,
    UNKNOWN_OUTCOME,
    State,
    hashed,
    locked,
)
from elbert.auditing.question import ROW, Question, asked_of, question_of
from elbert.auditing.rows import (
    COUNTED,
    NOT_ASKED_FOR,
    REASONS,
    TIME_BLOCKS,
    UNKNOWN_COUNT,
    WEIGHT,
    NoneAskedForError,
    Rows,
    read_rows,
)
from elbert.checks import as_number
from elbert.errors import InvalidInputError
from elbert.fairness.confidence_sequences import BEST_AT
from elbert.files import as_path
from elbert.progress import Progress, Watch, watched

ANY_NUMBER = 1e300
"""Decisions that a row may stand for whose count is not known: more than there are of anything."""
REFUSED = ("control", "assume", "law", "smallest", "due", "outcome_time", "unknown_groups", "seed")
"""What an audit can be asked, and a monitor cannot."""


def monitor(
    log: Any,
    question: Question | None = None,
    *,
    state: str | Path,
    exact: bool = False,
    largest: float | None = None,
    best_at: float | None = None,
    progress: Watch = "auto",
    **asked: Any,
) -> Monitored:
    """Add new rows of a log to a state, and say what all rows so far show. The bounds hold however often one looks.

        elbert.monitor("monday.csv", state="loans.json", time="date", period="day", group="race", decision="approved",
                       max_bias=0.05)
        elbert.monitor("tuesday.csv", state="loans.json")

    Args:
        log: The new rows, as in `elbert.audit`; None only looks.
        question: What is asked, the first time; or give its fields by name. Later it is in the state.
        state: File that keeps what was seen; it is made the first time.
        exact: Bounds without approximation, by betting. Each row must be a unit, or `largest` be given.
        largest: Largest demand that a unit can have, for exact bounds.
        best_at: Number of units at which the bounds are narrowest; 500 by default.
        progress: As in `elbert.audit`.
        **asked: Fields of the question.
    """
    path = as_path(state, "state")
    given = asked_of(asked, question, source="monitor")
    if best_at is not None:
        best_at = float(as_number(best_at, "best_at", "a number of units of at least 1", low=1, high=1e15))
    with watched(progress, "monitor") as tell, locked(path):
        kept = State.read(path) if path.exists() else None
        if kept is None and log is None:
            raise InvalidInputError(f"There is no state {path} yet. Give a log to begin with.")
        chosen = _agreed(given, kept, path, exact=exact, largest=largest, best_at=best_at)
        before = 0 if kept is None else kept.rows
        if log is not None:
            tell(Progress("reading", 0, None, "rows"))
            kept = _take_in(open_log(log), chosen, kept, exact=exact, largest=largest, best_at=best_at)
            kept.write(path)
        assert kept is not None
        return look_at(kept, path, added=kept.rows - before)


def _agreed(
    given: Question, kept: State | None, path: Path, *, exact: bool, largest: float | None, best_at: float | None
) -> Question:
    """The question: the state's, which a later one must not contradict."""
    if kept is None:
        given.check()
        refused = [name for name in REFUSED if getattr(given, name) not in (None, ())]
        if refused:
            raise InvalidInputError(f"A monitor cannot be asked for {', '.join(refused)}. An audit can.")
        if given.time is None:
            raise InvalidInputError("A monitor needs to know when decisions were made. Name the column: --time date.")
        return given
    ways = {"exact": exact or None, "largest": largest, "best_at": best_at}
    asked = given.to_dict() | {name: value for name, value in ways.items() if value is not None}
    begun = kept.question | {"exact": kept.exact, "largest": kept.largest or None, "best_at": kept.best_at}
    for name, value in asked.items():
        if begun.get(name) != value:
            raise InvalidInputError(
                f"{path} was begun with {name} = {begun.get(name)!r}, and now {value!r} is given. Leave it out, or "
                "begin with a new file."
            )
    return question_of(kept.question)


def _take_in(
    log: Log, question: Question, kept: State | None, *, exact: bool, largest: float | None, best_at: float | None
) -> State:
    """The state with new rows."""
    try:
        rows = read_rows(log, question, question.checked_notion(), piece=True)
    except NoneAskedForError as error:
        if kept is None:
            raise
        _add(kept.reasons, NOT_ASKED_FOR, error.rows)
        return kept
    repeated, hashes = 0, set()
    if question.key is not None:
        rows, repeated, hashes = _unseen(rows, question.key, set() if kept is None else kept.keys_seen)
    assert rows.times is not None
    if rows.times.kind == "calendar" and question.period is None:
        raise InvalidInputError("Say how long a period is: --period day, week or month. Units count when it is over.")
    if rows.unit == ROW and not rows.measures.pairs:
        raise InvalidInputError(
            "A monitor adds up numbers and does not keep rows, so rows that hold amounts cannot be its units. Name a "
            "column that says what is independent (--unit), or leave it out: then periods are."
        )
    if kept is None:
        most = _largest(rows, largest) if exact else 0.0
        kept = State.empty(
            question,
            rows.measures.criteria,
            unit=rows.unit,
            counts=bool(rows.measures.pairs),
            exact=exact,
            largest=most,
            best_at=best_at or BEST_AT,
        )
    kept.keys_seen |= hashes
    _add(kept.reasons, REPEATED, repeated)
    _add(kept.reasons, NOT_ASKED_FOR, rows.not_asked_for)
    by_unit = [] if rows.unit in (ROW, TIME_BLOCKS) else ["unit"]
    if rows.unit == ROW and question.count is not None:
        raise InvalidInputError("unit is row, and rows stand for several decisions (count). Leave one of them out.")
    table = added_up(rows, ["status", "period", *by_unit, "group"])
    for period, label, part in _by_period(rows, table):
        _take_in_period(kept, rows, period, label, part)
    return kept


def _take_in_period(kept: State, rows: Rows, period: int | None, label: str, part: pl.DataFrame) -> None:
    """Add the rows of one period, after closing the one before."""
    pairs = rows.measures.pairs
    needed = rows.measures.needs_outcome and len(pairs) > 2
    unknown = [k for k, (_, outcome) in enumerate(pairs) if outcome is None and needed]
    late = kept.period is not None and period is not None and period < kept.period
    if period is not None and not late and period != kept.period:
        kept.close(rows.measures)
        kept.period, kept.until = period, label
    for row in part.iter_rows(named=True):
        reason = REASONS[int(row["status"])]
        unit = (text_of(row["unit"]) or "") if "unit" in row else ""
        if reason == COUNTED and late:
            reason = LATE
        elif reason == COUNTED and unit and hashed(unit) in kept.units_seen and unit not in kept.open:
            reason = AGAIN
        _add(kept.reasons, reason, int(row["rows"]))
        group = _group_name(rows.groups.label(row["group"]))
        decisions = float(row[WEIGHT] if WEIGHT in row else row["rows"])
        if reason == UNKNOWN_COUNT:
            decisions = ANY_NUMBER
        if reason != COUNTED or not group:
            kept.astray[group] = kept.astray.get(group, 0.0) + decisions
        if reason != COUNTED:
            continue
        kept.counted[group] = kept.counted.get(group, 0.0) + decisions
        sums = kept.open.setdefault(unit, {}).setdefault(group, [0.0] * rows.measures.number)
        for k in range(rows.measures.number):
            sums[k] += float(row[f"measure {k}"])
        if not group:
            _add(kept.reasons, UNKNOWN_GROUP, int(row["rows"]))
        _add(kept.reasons, UNKNOWN_OUTCOME, round(sum(row[f"measure {k}"] for k in unknown)))


def _group_name(parts: Label) -> str:
    """What the state calls a group: none where a part is not known. Different groups have different names."""
    if None in parts:
        return ""
    unclear = len(parts) > 1 and any("," in str(part) or str(part).startswith(("'", '"')) for part in parts)
    return ", ".join(repr(part) if unclear else str(part) for part in parts)


def _by_period(rows: Rows, table: pl.DataFrame) -> Iterable[tuple[int | None, str, pl.DataFrame]]:
    """The rows of a table of sums, period by period in the order of time; those of unknown time first."""
    assert rows.times is not None
    texts = rows.times.texts
    labels = [texts.get(code, "") for code in table["period"].to_list()]
    first = {label: code for code, label in reversed(list(texts.items()))}
    named = table.with_columns(pl.Series("label", labels, dtype=pl.String))
    for label in ["", *rows.times.labels]:
        part = named.filter(named["label"] == label)
        if part.height:
            yield first.get(label), label, part


def _unseen(rows: Rows, key: str, seen: set[int]) -> tuple[Rows, int, set[int]]:
    """The rows without those whose key was counted before, how many these are, and the hashes of the new keys."""
    if not rows.log.is_polars:
        raise InvalidInputError(
            "key is given for a frame that is not in memory. Leave it out, or remove repeated rows there."
        )
    status, name = rows.log.new_name("status"), rows.log.new_name("key")
    columns = (rows.columns["status"].alias(status), identities(rows.log, key, ()).alias(name))
    frame = rows.log.collect(lambda frame: frame.with_columns(*columns))
    new, fresh = [], set()
    for code, value in zip(frame[status].to_list(), frame[name].to_list(), strict=True):
        number = hashed(text_of(value) or "")
        known = value is not None and (number in seen or number in fresh)
        new.append(not known)
        if value is not None and code == 0:
            fresh.add(number)
    kept = nw.from_native(frame.drop(status, name).filter(pl.Series(new))).lazy()
    return replace(rows, log=replace(rows.log, frame=kept)), len(new) - sum(new), fresh - seen


def _largest(rows: Rows, largest: float | None) -> float:
    """The largest demand of a unit, without which nothing is exact."""
    if rows.notion is not None and not rows.notion.bounded:
        raise InvalidInputError("Exact bounds need rates between 0 and 1. Leave exact out.")
    if rows.unit == ROW and rows.measures.pairs:
        return 1.0
    if largest is None:
        raise InvalidInputError(
            "Exact bounds need the largest demand that a unit can have (--largest 500), or rows as units (--unit row)."
        )
    need = "the largest demand that a unit can have, a number above 0"
    return float(as_number(largest, "largest", need, low=np.nextafter(0, 1)))


def _add(reasons: dict[str, int], reason: str, rows: int) -> None:
    if rows:
        reasons[reason] = reasons.get(reason, 0) + rows
