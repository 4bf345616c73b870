"""The answer for one comparison: report, bounds where something is not known, and the verdict after all of them."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from elbert.auditing.comparing import Comparing, row_squares
from elbert.auditing.counting import Tally
from elbert.auditing.ends import Ends, People
from elbert.auditing.question import Assumption, Question
from elbert.auditing.results import Bounds, Comparison, ErrorBy, Limit, Unknown
from elbert.auditing.rows import Rows
from elbert.auditing.sweeping import SMALLEST, Sweep
from elbert.auditing.unknown import (
    WORDS,
    ends_given_controls,
    outcome_ends,
    point_ends,
    suppressed_ends,
    unknown_people,
)
from elbert.errors import InvalidInputError, NotEstimableError
from elbert.fairness.benefit_report import BenefitReport, benefit_report
from elbert.fairness.episode_totals import Floats
from elbert.fairness.rates import ratio

NEARLY_ALL = 0.05
"""Up to this share of unknown outcomes, among the refused and among the accepted, rates of the known ones are shown."""
_MOST_GAMMA = 1000.0


class _Judged(NamedTuple):
    """The ends of all rates under one criterion."""

    known: Ends  # of people whose group is known
    whole: Ends  # wherever the others belong


class Answer:
    """One comparison of groups, from the sweep over units to the answer."""

    def __init__(
        self, sweep: Sweep, rows: Rows, tally: Tally, question: Question, unit: str, *, comparisons: int
    ) -> None:
        """The sweep must be complete; the number of comparisons is what refuting one of them is corrected for."""
        self.comparisons = comparisons
        self.rows, self.tally, self.question, self.side = rows, tally, question, sweep.side
        self.confidence = question.level
        self.found = Comparing(sweep, tally, notion=rows.notion, unit=unit, confidence=self.confidence)
        self.notes: list[str] = []

    def comparison(self) -> Comparison:
        """Everything about these groups."""
        found, side, tally, question = self.found, self.side, self.tally, self.question
        members = np.einsum("j,jg->g", tally.rows_by_group, side.member)
        rows = {name: int(number) for name, number in zip(side.groups, members[:-1], strict=True)}
        shown = found.totals is not None and self._unseen() <= NEARLY_ALL
        if found.totals is None:
            smallest = SMALLEST if question.smallest is None else question.smallest
            self.notes.append(f"Fewer than two groups have a demand of {smallest:g}: nothing can be compared.")
        elif not shown:
            self.notes.append("Too few outcomes are known: rates are shown as bounds, and neither over time nor split.")
        report = self._report() if shown else None
        unknown, limit = self._judged(report)
        splits, standardised = found.splits() if shown else (), ()
        if shown and question.control:
            within, standardised = found.within(tally, question.control)
            splits = (*splits, *within)
        return Comparison(
            name=side.name,
            report=report,
            rows=rows,
            not_compared=found.not_compared(rows),
            limit=limit,
            errors=self._errors() if shown else (),
            courses=found.courses() if shown else (),
            splits=splits,
            standardised=standardised,
            unknown=unknown,
            notes=tuple(self.notes),
        )

    def _report(self) -> BenefitReport:
        totals = self.found.totals
        assert totals is not None
        return benefit_report(
            totals.supply,
            totals.demand,
            groups=totals.groups,
            criteria=totals.criteria,
            notion=totals.notion,
            unit=totals.unit,
            confidence=self.confidence,
            seed=self.question.seed or 0,
        )

    def _errors(self) -> tuple[ErrorBy, ...]:
        """Of the difference under the criterion with the largest bias."""
        found = self.found
        apart = [0.0 if pair is None else rates[pair[0]] - rates[pair[1]] for rates, pair in self._compared()]
        c = int(np.argmax(apart))
        squares = row_squares(self.side, found.by_unit.sum(axis=0), found.sweep.rates)[c]
        return found.errors(c, squares, by_period=self.rows.times.period if self.rows.times else "")

    def _compared(self) -> list[tuple[Any, tuple[int, int] | None]]:
        return list(zip(self.found.sweep.rates, self.found.sweep.pairs, strict=True))

    def _unseen(self) -> float:
        """The largest share of unknown outcomes among the refused or accepted of a group; 1 for "<10" cells."""
        measures = self.side.measures
        if measures.suppressed:
            return 1.0
        sums = self.found.by_unit[:, : self.side.compared].sum(axis=0)  # [groups, measures]
        largest = 0.0
        for decision in {d for d, _ in measures.pairs}:
            places = [k for k, (d, _) in enumerate(measures.pairs) if d == decision]
            unknown = [k for k in places if measures.pairs[k][1] is None]
            if len(places) > 1:
                share = ratio(sums[:, unknown].sum(axis=1), sums[:, places].sum(axis=1), otherwise=0.0)
                largest = max(largest, float(share.max(initial=0.0)))
        return largest

    def _judged(self, report: BenefitReport | None) -> tuple[Unknown, Limit | None]:
        """Bounds where something is not known, and the verdict after all of them."""
        question, side, found = self.question, self.side, self.found
        sums = found.by_unit.sum(axis=0)  # [groups + 1, measures]
        counted = sums if side.measures.pairs else side.measures.totals(sums)[1]
        open_places = [k for k, (_, q) in enumerate(side.measures.pairs) if q is None and len(side.measures.pairs) > 2]
        outcomes, groups = float(sums[:, open_places].sum()), float(counted[-1].sum())
        everybody = max(float(counted.sum()), 1e-300)
        judged: list[_Judged] = []  # by criterion
        listed: list[Bounds] = []
        flips: list[str] = []
        bounded = self._unseen() > 0
        for c, criterion in enumerate(side.measures.criteria if found.totals is not None else ()):
            known = self._outcome_ends(c, criterion, listed, flips) if bounded else point_ends(side, found.by_unit, c)
            whole = known
            if groups > 0 and question.unknown_groups != "leave-out":
                people = unknown_people(side, found.by_unit, c)
                base = self._joined(c) if bounded else known
                whole = base.with_unknown(people)
                flips += self._flip_by_groups(base, people, criterion)
                words = "people of unknown group may belong to any of the groups"
                listed.append(self._bounds(whole, criterion, "groups", words))
            judged.append(_Judged(known, whole))
        unknown = Unknown(outcomes, outcomes / everybody, groups, groups / everybody, tuple(listed), tuple(flips))
        return unknown, None if question.max_bias is None else self._limit(report, judged, bounded=bounded)

    def _limit(self, report: BenefitReport | None, judged: list["_Judged"], *, bounded: bool) -> Limit:
        """Refuted or confirmed only if that holds wherever the unknown lies."""
        limit, level = self.question.max_bias, 1 - self.confidence
        assert limit is not None
        if not judged:
            return Limit(limit, "not estimable", None, None, "nothing can be compared")
        if not all(each.whole.estimable for each in judged):
            return Limit(limit, "not estimable", None, None, "a group has demand in one unit only")
        p_refute, p_confirm = self._p_values(judged, [each.known for each in judged])
        if report is not None:
            try:
                test = report.test(limit, seed=self.question.seed or 0)
            except NotEstimableError as error:
                return Limit(limit, "not estimable", None, None, str(error))
            assert test.p_refute is not None
            assert test.p_confirm is not None
            p_refute, p_confirm = (
                (p_refute, max(p_confirm, test.p_confirm)) if bounded else (test.p_refute, test.p_confirm)
            )
        among_known = Limit(limit, "refuted" if p_refute <= level else "not refuted", p_refute, p_confirm, "")
        if any(each.whole is not each.known for each in judged):
            refute, confirm = self._p_values(judged, [each.whole for each in judged])
            p_refute, p_confirm = max(p_refute, refute), max(p_confirm, confirm)
        p_refute = min(1.0, p_refute * self.comparisons)
        if p_refute <= level:
            return Limit(limit, "refuted", p_refute, p_confirm, "")
        lost = self._lost()
        worst = p_confirm
        if lost.any():
            ends = [each.whole.with_lost(lost) for each in judged]
            worst = max(p_confirm, self._p_values(judged, ends)[1])
        reasons = {
            self._open_words(among_known, bounded=bounded): p_confirm > level,
            "rows that could not be read might change it": worst > level,
            "too few units carry the demand of a group to rely on the numbers": not all(
                each.whole.reliable for each in judged
            ),
            f"not compared, because too small: {self._too_small()}; --smallest 30 asks about the other groups alone": (
                bool(self._too_small()) and self.question.smallest is None
            ),
        }
        words = next((reason for reason, applies in reasons.items() if applies), None)
        if words is not None:
            return Limit(limit, "not refuted", p_refute, worst, words)
        left = f"without {self._too_small()}, which are too small" if self._too_small() else ""
        return Limit(limit, "confirmed", p_refute, worst, left)

    def _p_values(self, judged: list["_Judged"], ends: list[Ends]) -> tuple[float, float]:
        """To refute, corrected for the number of criteria, and to confirm."""
        limit = self.question.max_bias
        assert limit is not None
        found = [each.verdict(limit, self.confidence) for each in ends]
        return min(1.0, min(refute for _, refute, _ in found) * len(judged)), max(confirm for _, _, confirm in found)

    def _lost(self) -> Floats:
        """The demand that rows of each compared group would have which could not be read.   [groups]"""
        rows = np.einsum("j,jg->g", self.tally.lost_by_group, self.side.member)[: self.side.compared]
        if self.side.measures.pairs:
            return rows
        members = np.einsum("j,jg->g", self.tally.rows_by_group, self.side.member)[: self.side.compared]
        demand = self.side.measures.totals(self.found.by_unit.sum(axis=0))[1][: self.side.compared].max(axis=1)
        return rows * ratio(demand, members, otherwise=0.0)

    def _too_small(self) -> str:
        """The names of groups that are shown and not compared."""
        return ", ".join(self.side.groups[self.side.compared :])

    def _open_words(self, among_known: Limit, *, bounded: bool) -> str:
        """Why neither is shown: too few data, or too much that is not known."""
        if among_known.verdict == "refuted":
            return "it is refuted among people whose group is known, but not wherever the others belong"
        if among_known.p_confirm is not None and among_known.p_confirm <= 1 - self.confidence:
            return "it would be confirmed if everybody's group were known"
        return "too little is known about outcomes, or there are too few data" if bounded else "there are too few data"

    def _bounds(self, ends: Ends, criterion: str, name: str, words: str) -> Bounds:
        groups = self.side.groups[: self.side.compared]
        return ends.bounds(criterion, name, words, groups, max_bias=self.question.max_bias, confidence=self.confidence)

    def _outcome_ends(self, c: int, criterion: str, listed: list[Bounds], flips: list[str]) -> Ends:
        """The ends under the assumption that was made, and bounds under the others as well."""
        side, question = self.side, self.question
        if side.measures.suppressed:
            ends = suppressed_ends(side, self.found.by_unit)
            listed.append(self._bounds(ends, criterion, "cells", "cells such as <10 hold anything from 0 to 9"))
            return ends
        made = question.assumption()
        if made.name == "random" and not question.control:
            raise InvalidInputError(
                "assume is random, without a control. Within a group, that gives back the acceptance rate: demographic "
                "parity under another name. Name what the decision was based on (--control), or assume odds:2."
            )
        gamma = made.gamma if made.name == "odds" else 2.0
        levels = [Assumption("none"), Assumption("no-better"), Assumption("odds", gamma)]
        found = {level.name: outcome_ends(side, self.found.by_unit, c, level) for level in levels}
        texts = {level.name: str(level) for level in levels} | {"random": "random"}
        if question.control:
            found["random"], apart = ends_given_controls(side, self.tally.by_stratum, self.tally.stratum_cells, c)
            if apart > 0:
                self.notes.append(
                    f"{criterion}: {100 * apart:.1f} % of the unknown outcomes are in strata of the controls where no "
                    "outcome of the accepted is known. Nothing can be learned about them: their bounds stay wide."
                )
        for name, ends in found.items():
            bounds = self._bounds(ends, criterion, texts[name], WORDS[name].format(gamma=gamma))
            listed.append(replace(bounds, used=name == made.name))
        if question.max_bias is not None:
            flips += self._flip_by_gamma(c, criterion, question.max_bias)
        return found[made.name]

    def _joined(self, c: int) -> Ends:
        """The ends under the assumption that was made, if people of unknown group may be among the accepted."""
        made, side = self.question.assumption(), self.side
        if side.measures.suppressed:
            return suppressed_ends(side, self.found.by_unit)
        if made.name == "random":
            strata, cells = self.tally.by_stratum, self.tally.stratum_cells
            return ends_given_controls(side, strata, cells, c, joined=True)[0]
        return outcome_ends(side, self.found.by_unit, c, made, joined=True)

    def _of(self, criterion: str) -> str:
        """A criterion in front of a sentence, where there are several."""
        return f"{criterion}: " if len(self.side.measures.criteria) > 1 else ""

    def _flip_by_gamma(self, c: int, criterion: str, limit: float) -> list[str]:
        """How far the odds of the refused may be below those of the accepted before the verdict changes."""

        def verdict(log_gamma: float) -> str:
            ends = outcome_ends(self.side, self.found.by_unit, c, Assumption("odds", float(np.exp(log_gamma))))
            return ends.verdict(limit, self.confidence)[0]

        at_one, most = verdict(0.0), float(np.log(_MOST_GAMMA))
        changes = _first_change(verdict, at_one, most)
        alike = f"{self._of(criterion)}if the refused were as good as the accepted, the limit would be {at_one}"
        if changes is None:
            return [f"{alike}, and so it is at any lower odds."]
        return [f"{alike}; from odds:{np.exp(changes):.3g} on it is {verdict(changes)}."]

    def _flip_by_groups(self, ends: Ends, people: People, criterion: str) -> list[str]:
        """Which part of the people of unknown group would have to belong where it matters most."""
        limit = self.question.max_bias
        if limit is None:
            return []

        def verdict(part: float) -> str:
            return ends.with_unknown(people, part).verdict(limit, self.confidence)[0]

        known = verdict(0.0)
        changes = _first_change(verdict, known, 1.0)
        if changes is None:
            return [f"{self._of(criterion)}wherever the people of unknown group belong, the limit is {known}."]
        return [
            f"{self._of(criterion)}the limit is {known} among known groups; if {100 * changes:.1f} % of the people of "
            f"unknown group belong where it matters most, it is {verdict(changes)}."
        ]


def _first_change(verdict: Any, at_first: str, last: float) -> float | None:
    """Where a verdict that only loses ground first differs from what it was; None if it never does."""
    if verdict(last) == at_first:
        return None
    low, high = 0.0, last
    while high - low > 1e-3 * last:
        middle = (low + high) / 2
        low, high = (middle, high) if verdict(middle) == at_first else (low, middle)
    return high
