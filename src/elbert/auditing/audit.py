"""From a log to an answer: read, add up, compare, and say what is not known."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import narwhals as nw

from elbert.auditing.answering import Answer
from elbert.auditing.columns import identities
from elbert.auditing.counting import Tally, count_rows
from elbert.auditing.log_files import Log, open_log
from elbert.auditing.question import ROW, Question, asked_of
from elbert.auditing.ray_parts import in_parts, refuse_what_is_no_file
from elbert.auditing.results import Audit
from elbert.auditing.rows import COUNTED, NOT_ASKED_FOR, TIME_BLOCKS, Rows, read_rows
from elbert.auditing.sweeping import SMALLEST, Side, Sweep, sides_of
from elbert.auditing.timeline import Timeline
from elbert.errors import InvalidInputError
from elbert.exit_codes import overall
from elbert.fairness.notions import Notion
from elbert.progress import Tell, Watch, watched
from elbert.ray_cluster import connected
from elbert.tables import visible

MOST_FOLLOWED = 2e8
"""Periods times the cube of the number of groups: beyond, groups are not followed over time, which would take long."""


def audit(
    log: Any, question: Question | None = None, *, ray: str | None = None, progress: Watch = "auto", **asked: Any
) -> Audit:
    """Long-term benefit rates from a log of decisions, with their uncertainty and what is not known.

        elbert.audit("loans.csv", time="date", group="race", decision="approved", unit="officer", max_bias=0.05)

    Args:
        log: Path of a CSV or Parquet file, several of them, a pattern, or a frame: pandas, polars, pyarrow, DuckDB or
            Spark.
        question: What is asked; or give its fields by name. `Question` describes them.
        ray: Where Ray tasks read the files, each a part of them: "local" for this machine, "auto" or "host:port" for a
            cluster. The answer is the same to the bit. By default this process reads them.
        progress: "auto" for a display in terminals and notebooks, True for lines elsewhere too, None, or a function.
        **asked: Fields of the question: group, decision, time, unit, outcome, notion, max_bias and so on.
    """
    own = asked.pop("notion") if isinstance(asked.get("notion"), Notion) else None
    question = asked_of(asked, question, source="audit")
    question.check(own)
    if question.law is not None and ray is not None:
        raise InvalidInputError(f"ray is given next to law ({question.law}), whose table is made here. Leave ray out.")
    if question.law is not None:
        raise InvalidInputError(f"law is {question.law!r}, which asks for another table: elbert.law_table(log, ...).")
    with watched(progress, "audit") as tell:
        opened, notion = open_log(log), own or question.checked_notion()
        if ray is None:
            return conduct(opened, question, notion, tell)
        refuse_what_is_no_file(opened)
        with connected(ray) as cluster:
            return conduct(in_parts(opened, cluster, tell), question, notion, tell)


def conduct(log: Log, question: Question, notion: Notion | None, tell: Tell) -> Audit:
    """The audit itself."""
    rows = read_rows(log, question, notion)
    tally = count_rows(rows, tell)
    unit = _unit_name(rows)
    timed = len(tally.periods) > 1
    smallest = SMALLEST if question.smallest is None else question.smallest
    sides = sides_of(question.group, tally, rows.measures, smallest)
    sweeps = [
        Sweep(
            side,
            tally.by_period,
            timed and place < len(question.group) and _can_follow(side, tally),
            (side.totals(tally.by_unit)[1] > 0).sum(axis=0) > 1,
            tally.part,
        )
        for place, side in enumerate(sides)
    ]
    for cells in tally.period_cells():
        for sweep in sweeps:
            sweep.add(cells)
    answers = [Answer(sweep, rows, tally, question, unit, comparisons=len(sweeps)) for sweep in sweeps]
    comparisons = tuple(answer.comparison() for answer in answers)
    examples = {reason: rows.example(reason) for reason in tally.reasons}
    timeline = Timeline.of(rows, tally, sides[0])
    return Audit(
        question=question.to_dict() | ({} if notion is None else {"notion": notion.name}),
        log=log.name,
        files=tuple(log.provenance()),
        rows=tally.rows,
        reasons=tally.reasons,
        examples={reason: example.strip(" ()") for reason, example in examples.items() if example},
        favourable=rows.favourable,
        due=rows.due,
        burden=question.burden,
        unit=unit,
        unit_words=_unit_words(rows, unit),
        units=tally.counted if rows.unit == ROW else tally.units,
        period=None if rows.times is None else rows.times.period,
        periods=tally.periods if rows.times is not None else (),
        timeline=timeline.periods() if rows.times is not None else (),
        jumps=timeline.jumps() if timed else (),
        comparisons=comparisons,
        max_bias=question.max_bias,
        verdict=None
        if question.max_bias is None
        else overall(each.limit and each.limit.verdict for each in comparisons),
        notes=(*rows.log.notes, *_notes(rows, tally, sides[: len(question.group)]), *_duplicates(rows, question)),
        versions=_versions(),
    )


def _can_follow(side: Side, tally: Tally) -> bool:
    """Whether groups are few enough to be followed over time."""
    return len(tally.periods) * side.compared**3 <= MOST_FOLLOWED


def _unit_name(rows: Rows) -> str:
    if rows.unit == TIME_BLOCKS:
        assert rows.times is not None
        return rows.times.period
    return visible(rows.unit, 30)


def _unit_words(rows: Rows, unit: str) -> str:
    if rows.unit == ROW:
        return "Every row is taken as independent of all others, as you said (unit: row)."
    if rows.unit == TIME_BLOCKS:
        return (
            f"No unit was given, so blocks of time stand in: rows of one {unit} may depend on each other, and "
            f"different {unit}s are taken as independent. If the same person or officer comes back, give that column."
        )
    return f"Rows of one {unit} may depend on each other; those of different ones are taken as independent."


def _notes(rows: Rows, tally: Tally, sides: Sequence[Side]) -> Iterator[str]:
    """What a reader should know about the rows, and about comparisons of too many groups."""
    for side in sides:
        if len(tally.periods) > 1 and not _can_follow(side, tally):
            yield (
                f"{side.compared} groups of {side.name} in {len(tally.periods)} periods are too many to follow over "
                "time. Put them into fewer classes, or give a longer --period."
            )
    if rows.measures.pairs:
        empty = [name for name, sums in zip(tally.periods, tally.by_period, strict=True) if not sums.any()]
        if empty and len(tally.periods) > 1:
            listed = ", ".join(empty[:5]) + (", ..." if len(empty) > 5 else "")
            yield f"{len(empty)} of {len(tally.periods)} periods have no row that counts: {listed}."
    if tally.part < 1:
        yield (
            f"Intervals over time and of splits come from the cells of {100 * tally.part:.1f} % of the units, drawn at "
            "random. Everything else is of all units."
        )
    lost = sum(number for reason, number in tally.reasons.items() if reason not in (COUNTED, NOT_ASKED_FOR))
    if lost > 0.2 * (lost + tally.counted):
        share = lost / (lost + tally.counted)
        yield f"{100 * share:.0f} % of the rows could not be read: the answer is about the others only."


def _duplicates(rows: Rows, question: Question) -> Iterator[str]:
    """Rows that share a key, and keys that are in two groups: named, and counted all the same."""
    key, log = question.key, rows.log
    if key is None or (question.count is not None and question.unit == ROW):  # which makes several rows of one
        return
    columns = (identities(log, key, ()).alias("key"), rows.columns["group"].alias("group"))

    def pairs(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        keyed = frame.select(*columns).filter(~nw.col("key").is_null())
        return keyed.group_by("key", "group").agg(nw.len().cast(nw.Int64).alias("rows"))

    def repeated(pairs: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        often = pairs.group_by("key").agg(nw.col("rows").sum(), nw.col("group").n_unique().alias("groups"))
        mixed = (nw.col("groups") > 1).cast(nw.Int64).sum().alias("mixed")
        return often.filter(nw.col("rows") > 1).select(nw.len().alias("keys"), nw.col("rows").sum(), mixed)

    number, shared, in_two = log.collect(
        pairs if log.parts else lambda frame: repeated(pairs(frame)),
        lambda table: repeated(nw.from_native(table.lazy())).to_native().collect(),
    ).row(0)
    if number:
        same = f"{shared:,} rows share {number:,} values of {visible(key)!r}: are they the same decisions?"
        groups = f" {in_two:,} of these values are in more than one group." if in_two else ""
        yield f"{same} All are counted.{groups}"


@cache
def _versions() -> Mapping[str, str]:
    found = {}
    for name in ("elbert", "polars", "narwhals", "numpy", "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
