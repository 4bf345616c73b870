"""The answer for one comparison: report, bounds where something is not known, and the verdict after all of them."""

from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from elbert.auditing.comparing import Comparing, row_squares
from elbert.auditing.counting import Tally
from elbert.auditing.ends import Ends, People
from elbert.auditing.question import Assumption, Question
from elbert.auditing.results import Bounds, Comparison, ErrorBy, Limit, SplitOf, Standardised, Unknown
from elbert.auditing.rows import UNKNOWN_COUNT, Rows
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
ONE_UNIT = "a group has demand in one unit only"
_MOST_GAMMA = 1000.0
_Pair = TypeVar("_Pair", SplitOf, Standardised)


class _PValues(NamedTuple):
    """Of a refutation and of a confirmation, corrected for the number of tests."""

    refute: float
    confirm: float

    def worst(self, other: "_PValues") -> "_PValues":
        """The larger of both, for each."""
        return _PValues(max(self.refute, other.refute), max(self.confirm, other.confirm))


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
            hidden = "Cells such as <10 hide too much" if side.measures.suppressed else "Too few outcomes are known"
            self.notes.append(f"{hidden}: rates are shown as bounds, and neither over time nor split.")
        report = self._report() if shown else None
        unknown, limit = self._judged(report)
        splits, standardised = found.splits() if shown else (), ()
        if shown and question.control:
            within, standardised = found.within(tally, question.control)
            splits = (*splits, *within)
        if report is not None:
            splits = tuple(_as_reported(each, report) for each in splits)
            standardised = tuple(_as_reported(each, report) for each in standardised)
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
        """The largest share of unknown outcomes among the refused or accepted of a group, or of what "<10" hides."""
        measures = self.side.measures
        if measures.suppressed:
            least, most, demand_least, demand_most = (
                self.found.by_unit[:, : self.side.compared, k].sum(axis=0) for k in range(4)
            )
            return float(ratio(most - least + demand_most - demand_least, demand_most, otherwise=1.0).max(initial=0.0))
        if not measures.needs_outcome:
            return 0.0
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
        if outcomes and not side.measures.needs_outcome:
            self.notes.append("Some outcomes are not known. These rates do not depend on them.")
            outcomes = 0.0
        everybody = max(float(counted.sum()), 1e-300)
        judged: list[_Judged] = []  # by criterion
        listed: list[Bounds] = []
        flips: list[str] = []
        bounded = self._unseen() > 0
        for c, criterion in enumerate(side.measures.criteria if found.totals is not None else ()):
            known = self._tested(point_ends(side, found.by_unit, c))
            if bounded:
                known = self._outcome_ends(c, criterion, listed, flips)
            whole = known
            if groups > 0 and question.unknown_groups != "leave-out":
                people = unknown_people(side, found.by_unit, c)
                base = self._joined(c) if bounded else known
                whole = base.with_unknown(people)
                flips += self._flip_by_groups(known, base, people, criterion)
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
        if all(each.whole.of_estimable() is None for each in judged):
            return Limit(limit, "not estimable", None, None, ONE_UNIT)
        known = self._p_values([each.known for each in judged])
        if report is not None:
            try:
                test = report.test(limit, seed=self.question.seed or 0)
            except NotEstimableError as error:
                return Limit(limit, "not estimable", None, None, str(error))
            assert test.p_refute is not None
            assert test.p_confirm is not None
            tested = _PValues(min(1.0, test.p_refute * self.comparisons), 1.0 if test.left_out else test.p_confirm)
            known = _PValues(known.refute, max(known.confirm, tested.confirm)) if bounded else tested
        whole = read = known
        if any(each.whole is not each.known for each in judged):
            whole = read = known.worst(self._p_values([each.whole for each in judged]))
        lost = self._lost()
        if lost.any():
            whole = read.worst(self._p_values([each.whole.with_lost(lost) for each in judged]))
        unknown_count = self.tally.reasons.get(UNKNOWN_COUNT, 0) > 0
        if whole.refute <= level and not unknown_count:
            return Limit(limit, "refuted", *whole, "")
        few = "there are too few data"
        reasons = {
            "a count is not known: its row may stand for any number of decisions": unknown_count,
            "it is refuted among people whose group is known, but not wherever the others belong": (
                known.refute <= level < read.refute
            ),
            "it is refuted by the rows that could be read, but not whatever the others hold": (
                read.refute <= level < whole.refute
            ),
            ONE_UNIT: not all(each.whole.estimable for each in judged),
            "it would be confirmed if everybody's group were known": known.confirm <= level < read.confirm,
            f"too little is known about outcomes, or {few}" if bounded else few: read.confirm > level,
            "rows that could not be read might change it": whole.confirm > level,
            "too few units carry the demand of a group to rely on the numbers": not all(
                each.whole.reliable for each in judged
            ),
            f"not compared, because too small: {self._too_small()}; --smallest 30 asks about the other groups alone": (
                bool(self._too_small()) and self.question.smallest is None
            ),
        }
        words = next((reason for reason, applies in reasons.items() if applies), None)
        if words is not None:
            return Limit(limit, "not refuted", *whole, words)
        left = f"without {self._too_small()}, which are too small" if self._too_small() else ""
        return Limit(limit, "confirmed", *whole, left)

    def _p_values(self, ends: list[Ends]) -> "_PValues":
        """Over all criteria. A group with demand in one unit cannot refute, and keeps a limit from being confirmed."""
        limit = self.question.max_bias
        assert limit is not None
        refute, confirm = [1.0], [0.0]
        for each in ends:
            comparable = each.of_estimable()
            found = (1.0, 1.0) if comparable is None else comparable.verdict(limit, self.confidence)[1:]
            refute.append(found[0])
            confirm.append(found[1] if each.estimable else 1.0)
        return _PValues(min(refute), max(confirm))

    def _lost(self) -> Floats:
        """The demand that decisions of each compared group would have which could not be read.   [groups]

        Those of unknown group may belong to any.
        """
        lost = np.einsum("j,jg->g", self.tally.lost_by_group, self.side.member)
        anybody = 0.0 if self.question.unknown_groups == "leave-out" else lost[-1]
        own = lost[: self.side.compared] + anybody
        if self.side.measures.pairs:
            return own
        members = np.einsum("j,jg->g", self.tally.rows_by_group, self.side.member)[: self.side.compared]
        demand = self.side.measures.totals(self.found.by_unit.sum(axis=0))[1][: self.side.compared].max(axis=1)
        return own * ratio(demand, members, otherwise=0.0)

    def _too_small(self) -> str:
        """The names of groups that are shown and not compared."""
        return ", ".join(self.side.groups[self.side.compared :])

    def _tested(self, ends: Ends) -> Ends:
        """Ends whose refutations are corrected for all criteria and comparisons."""
        return replace(ends, tests=len(self.side.measures.criteria) * self.comparisons)

    def _bounds(self, ends: Ends, criterion: str, name: str, words: str) -> Bounds:
        groups = self.side.groups[: self.side.compared]
        return ends.bounds(criterion, name, words, groups, max_bias=self.question.max_bias, confidence=self.confidence)

    def _outcome_ends(self, c: int, criterion: str, listed: list[Bounds], flips: list[str]) -> Ends:
        """The ends under the assumption that was made, and bounds under the others as well."""
        side, question = self.side, self.question
        if side.measures.suppressed:
            ends = self._tested(suppressed_ends(side, self.found.by_unit))
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
        found = {level.name: self._under(c, level) for level in levels}
        texts = {level.name: str(level) for level in levels} | {"random": "random"}
        if question.control:
            strata, cells = self.tally.by_stratum, self.tally.stratum_cells
            ends, apart = ends_given_controls(side, strata, cells, c, self.confidence)
            found["random"] = self._tested(ends)
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

    def _under(self, c: int, assumption: Assumption, *, joined: bool = False) -> Ends:
        """The ends under an assumption about single groups."""
        return self._tested(outcome_ends(self.side, self.found.by_unit, c, assumption, self.confidence, joined=joined))

    def _joined(self, c: int) -> Ends:
        """The ends under the assumption that was made, if people of unknown group may be among the accepted."""
        made, side = self.question.assumption(), self.side
        if side.measures.suppressed:
            return self._tested(suppressed_ends(side, self.found.by_unit))
        if made.name == "random":
            strata, cells = self.tally.by_stratum, self.tally.stratum_cells
            return self._tested(ends_given_controls(side, strata, cells, c, self.confidence, joined=True)[0])
        return self._under(c, made, joined=True)

    def _of(self, criterion: str) -> str:
        """A criterion in front of a sentence, where there are several."""
        return f"{criterion}: " if len(self.side.measures.criteria) > 1 else ""

    def _flip_by_gamma(self, c: int, criterion: str, limit: float) -> list[str]:
        """How far the odds of the refused may be below those of the accepted before the verdict changes."""

        def verdict(log_gamma: float) -> str:
            ends = self._under(c, Assumption("odds", float(np.exp(log_gamma))))
            return _in_words(ends.verdict(limit, self.confidence)[0])

        at_one, most = verdict(0.0), float(np.log(_MOST_GAMMA))
        changes = _first_change(verdict, at_one, most)
        alike = f"{self._of(criterion)}if the refused were as good as the accepted, the limit would be {at_one}"
        if changes is None:
            return [f"{alike}, and so it is at any lower odds."]
        return [f"{alike}; from odds:{np.exp(changes):.3g} on it is {verdict(changes)}."]

    def _flip_by_groups(self, known_ends: Ends, joined: Ends, people: People, criterion: str) -> list[str]:
        """Which part of the people of unknown group would have to belong where it matters most."""
        limit = self.question.max_bias
        if limit is None:
            return []

        def verdict(part: float) -> str:
            ends = joined.with_unknown(people, part) if part > 0 else known_ends
            return _in_words(ends.verdict(limit, self.confidence)[0])

        known = verdict(0.0)
        changes = _first_change(verdict, known, 1.0)
        if changes is None:
            return [f"{self._of(criterion)}wherever the people of unknown group belong, the limit is {known}."]
        return [
            f"{self._of(criterion)}the limit is {known} among known groups; if {100 * changes:.1f} % of the people of "
            f"unknown group belong where it matters most, it is {verdict(changes)}."
        ]


def _as_reported(each: _Pair, report: BenefitReport) -> _Pair:
    """The pair that makes the bias, with the bias's own interval around the whole difference."""
    bias = next(part.bias for part in report.criteria if part.criterion == each.criterion)
    if bias.ci is None or (each.first, each.second) != (bias.highest, bias.lowest):
        return each
    return replace(each, difference=replace(each.difference, low=bias.ci[0], high=bias.ci[1]))


def _in_words(verdict: str) -> str:
    """What an audit calls a verdict."""
    return "undetermined" if verdict == "not refuted" else verdict


def _first_change(verdict: Any, at_first: str, last: float) -> float | None:
    """Where a verdict that only loses ground first differs from what it was; None if it never does."""
    if verdict(last) == at_first:
        return None
    low, high = 0.0, last
    while high - low > 1e-3 * last:
        middle = (low + high) / 2
        low, high = (middle, high) if verdict(middle) == at_first else (low, middle)
    return high
