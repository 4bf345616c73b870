"""The table that New York City's Local Law 144 of 2021 asks for (Rules of the City of New York, title 6, 5-300 f.).

Selection rate: those selected over all in a category. Scoring rate: those with a score above the median of the sample.
Impact ratio: a category's rate over that of the category with the highest. Both by sex, by race and ethnicity, and by
both together. A category with less than 2 % of the people may be left out of the ratio; its number and rate are shown.
People of unknown category are counted. Race and sex must be what people said, never a guess.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from elbert.auditing.columns import TEXTS, as_numeric
from elbert.auditing.conditions import condition_met
from elbert.auditing.counting import count_rows
from elbert.auditing.log_files import Log, open_log
from elbert.auditing.question import Question, asked_of
from elbert.auditing.rows import COUNTED, read_rows
from elbert.auditing.sweeping import sides_of
from elbert.errors import InvalidInputError
from elbert.fairness.notions import DEMOGRAPHIC_PARITY
from elbert.fairness.rates import ratio
from elbert.progress import Tell, Watch, watched
from elbert.shown import Shown
from elbert.tables import visible

SMALL_SHARE = 0.02


@dataclass(frozen=True)
class LawCategory:
    """One category of people."""

    category: str
    people: int
    selected: int  # or with a score above the median
    rate: float | None  # None where nobody is in it
    impact_ratio: float | None  # None for a category with less than 2 % of the people
    share: float  # of all people whose category is known


@dataclass(frozen=True)
class LawSection:
    """The categories of one column, or of several together."""

    by: str
    categories: tuple[LawCategory, ...]
    unknown: int  # people whose category is not known


@dataclass(frozen=True)
class LawTable(Shown):
    """The table of Local Law 144."""

    page_by: ClassVar[str] = "elbert.report.law_page:law_page"

    log: str
    rate: str  # selection rate, or scoring rate
    median: float | None  # of the scores
    rows: int
    reasons: dict[str, int]
    sections: tuple[LawSection, ...]

    @property
    def code(self) -> int:
        """The law sets no limit: 0."""
        return 0

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def __str__(self) -> str:
        return str(self._page())


TAKEN = ("law", "group", "decision", "favourable", "threshold", "burden", "count", "where", "missing", "key")
"""Fields of a question that the table is made from; `key` and `burden` change nothing and do no harm."""


def law_table(log: Any, question: Question | None = None, *, progress: Watch = "auto", **asked: Any) -> LawTable:
    """The table, from a column that says who was selected, or from scores.

        elbert.law_table("applicants.csv", group=["sex", "race"], decision="selected")

    Args:
        log: As in `elbert.audit`.
        question: What is asked; or give its fields by name: group, decision, favourable, threshold, where, missing.
        progress: As in `elbert.audit`.
        **asked: Fields of the question.
    """
    question = replace(asked_of(asked, question, source="law_table"), law="ll144")
    question.check()
    refused = [name for name in question.to_dict() if name not in TAKEN]
    if refused:
        raise InvalidInputError(
            f"law is given next to {', '.join(refused)}, which the law's table knows nothing of. Leave that out, or "
            "ask without law: an audit tests a limit, and the law sets none."
        )
    with watched(progress, "law") as tell:
        return _conduct(log, question, tell)


def _conduct(source: Any, question: Question, tell: Tell) -> LawTable:
    if question.decision is None:
        raise InvalidInputError(
            "law needs to know who was selected, or the scores. Name the column: --decision selected."
        )
    log = open_log(source)
    log.require(question.columns)
    median = None
    if question.threshold is None and not question.favourable:
        median = _median(log, question)
    asked = question if median is None else replace(question, threshold=f"> {median!r}")
    rows = read_rows(log, replace(asked, time=None, period=None, unit=None), DEMOGRAPHIC_PARITY)
    tally = count_rows(rows, tell)
    sections = []
    for side in sides_of(question.group, tally, rows.measures, 0.0):
        sums = side.sums(tally.by_period.sum(axis=0))
        selected, people = (each[:, 0] for each in rows.measures.totals(sums))
        sections.append(_section(side.name, side.groups, selected, people))
    return LawTable(
        log=log.name,
        rate="selection rate" if median is None else "scoring rate",
        median=median,
        rows=tally.rows,
        reasons={reason: number for reason, number in tally.reasons.items() if reason != COUNTED},
        sections=tuple(sections),
    )


def _section(by: str, names: Sequence[str], selected: Any, people: Any) -> LawSection:
    rates = ratio(selected, people, otherwise=np.nan)[:-1]
    share = ratio(people[:-1], people[:-1].sum(), otherwise=0.0)
    counted = share >= SMALL_SHARE
    highest = rates[counted].max(initial=0.0)
    return LawSection(
        by=by,
        categories=tuple(
            LawCategory(
                category=name,
                people=int(people[g]),
                selected=int(selected[g]),
                rate=float(rates[g]) if people[g] > 0 else None,
                impact_ratio=float(rates[g] / highest) if counted[g] and highest > 0 else None,
                share=float(share[g]),
            )
            for g, name in enumerate(names)
        ),
        unknown=int(people[-1]),
    )


def _median(log: Log, question: Question) -> float | None:
    """The median of the chosen rows, if the column holds scores and not just 0 and 1; None if it holds words."""
    assert question.decision is not None
    kind = log.frame.collect_schema()[question.decision]
    if not (kind.is_numeric() or (kind in TEXTS and log.is_polars)):
        return None
    log = log.narrowed(question.columns)
    for condition in question.conditions():
        log, met = condition_met(log, condition)
        log = log.changed(lambda frame, met=met: frame.filter(met))
    log, score = as_numeric(log, question.decision, question.missing)
    value = score.value
    numbers = (value.median(), value.min(), value.max(), value.n_unique(), value.count(), score.unreadable.sum())
    median, least, most, kinds, read, unread = log.collect(
        lambda frame: frame.select(*(number.alias(str(place)) for place, number in enumerate(numbers)))
    ).row(0)
    if median is None or unread > read:
        return None
    blank = value.is_null().any().alias("blank")
    kinds -= int(log.collect(lambda frame: frame.select(blank)).item())  # which counts as one
    if kinds <= 2 and {least, most} <= {0.0, 1.0}:
        return None
    if kinds == 2:
        raise InvalidInputError(
            f"{log.name}: column {visible(question.decision)!r} holds {least:g} and {most:g} only. Say which of them "
            f"means selected: --favourable {most:g}; or, if they are scores, from where on: --threshold {most:g}."
        )
    if question.count is not None:
        raise InvalidInputError(
            "The median of the scores is needed, and rows stand for several people each (count). Give a row per person."
        )
    return float(median)
