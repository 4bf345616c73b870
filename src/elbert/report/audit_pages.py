"""An audit as a page: the verdict in words, then the numbers behind it, then what they do not show."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from elbert.auditing.law import LawTable
from elbert.auditing.results import Audit, Comparison, Course, Estimate, Limit, SplitOf, Standardised
from elbert.auditing.rows import COUNTED, TIME_BLOCKS
from elbert.fairness.benefit_report import CAUTION_OF_DATA, CriterionBenefit
from elbert.files import write_sealed, write_whole
from elbert.report.law_page import law_page
from elbert.tables import Column, Page, Part, Table, columns, facts, interval, number, toned, visible

FOUR_FIFTHS = 0.8
ACCEPTANCE = "acceptance rate"
PERIODS_SHOWN, PLACES_SHOWN, GROUPS_SHOWN, NAMED = 12, 8, 6, 20
WHOLE = "the JSON has them all"
CAUTION = (
    f"{CAUTION_OF_DATA} Nor does a large one say why: who is in the log, and what came before it, is not in these "
    "numbers."
)
VERDICTS = {
    "confirmed": "Within the limit: a bias of at most {limit:g} is confirmed",
    "refuted": "Beyond the limit: a bias of at most {limit:g} is refuted",
    "undetermined": "Undetermined: a bias of at most {limit:g} is neither confirmed nor refuted",
}


def audit_page(audit: Audit) -> Page:
    """Everything that an audit answers."""
    parts: list[Part] = [*_answer(audit), "", *_basis(audit)]
    for comparison in audit.comparisons:
        parts += ["", *_comparison(audit, comparison)]
    notes = [f"* {note}" for note in audit.notes]
    return Page((*parts, *(["", *notes] if notes else []), "", CAUTION))


def write_audit(answer: Audit | LawTable, folder: Path) -> list[Path]:
    """Write the answer as a page, as JSON and Markdown, and its figures; returns the paths."""
    data, text, page = (folder / f"audit.{kind}" for kind in ("json", "md", "html"))
    write_sealed(data, answer.to_dict())
    write_whole(text, page_of(answer).to_markdown())
    answer.to_html(page)
    if isinstance(answer, LawTable):
        return [page, data, text]
    from elbert.report.audit_figures import write_figures

    figures = write_figures(answer, folder)
    for path in folder.glob("course-[0-9]*.[ps][nv]g"):  # of an earlier answer
        if path not in figures:
            path.unlink()
    return [page, data, text, *figures]


def page_of(answer: Audit | LawTable) -> Page:
    """What the command prints."""
    return law_page(answer) if isinstance(answer, LawTable) else audit_page(answer)


def verdict_line(verdict: str, max_bias: float | None, remark: str = "") -> str:
    """The verdict as a heading."""
    reason = f" ({remark})" if remark else ""
    return f"# {VERDICTS[verdict].format(limit=max_bias)}{reason}."


def _answer(audit: Audit) -> Iterator[Part]:
    """The verdict first, and for every comparison the difference that it is about."""
    remarks = [f"no unit was given: {plural(audit.unit)} stand in"] * _time_blocks(audit)
    remarks += ["unreliable: few units carry the demand of a group"] * _unreliable(audit)
    assumed = "; ".join(remarks)
    if audit.verdict is not None:
        yield verdict_line(audit.verdict, audit.max_bias, assumed)
    elif assumed:
        yield f"# {assumed[0].upper()}{assumed[1:]}."
    for comparison in audit.comparisons:
        by = f"By {comparison.name}: " if len(audit.comparisons) > 1 else ""
        sentence = _difference(audit, comparison)
        first = sentence if not by else sentence[0].lower() + sentence[1:]
        yield f"{by}{first}{_limit_words(comparison.limit, alone=not by)}"
        if comparison.not_compared:
            named = [
                f"{each.group} ({each.rows:,} {plural('row', each.rows)})" for each in comparison.not_compared[:NAMED]
            ]
            more = len(comparison.not_compared) - len(named)
            yield (
                f"Not compared, because their demand is below {audit.question.get('smallest', 30):g}: "
                f"{', '.join(named)}{f' and {more} more; {WHOLE}' if more else ''}."
            )


def _limit_words(limit: Limit | None, *, alone: bool) -> str:
    """The verdict of one comparison among several, and why nothing is shown where nothing is."""
    if limit is None or (alone and not limit.words):
        return ""
    reason = f" ({limit.words})" if limit.words else ""
    return f" Limit: {limit.verdict}{reason}."


def _difference(audit: Audit, comparison: Comparison) -> str:
    """The largest difference in one sentence."""
    if comparison.report is None:
        bounds = [each for each in comparison.unknown.bounds if each.used or each.assumption in ("cells", "groups")]
        if not bounds:
            return "No two groups can be compared."
        widest = max(bounds, key=lambda each: each.most)
        return (
            f"The {rate_name(audit, widest.criterion)} differs between groups by {number(widest.least)} to "
            f"{number(widest.most)}, depending on what is not known ({widest.words})."
        )
    worst = max(comparison.report.criteria, key=lambda part: part.bias.estimate or 0.0)
    bias = worst.bias
    if bias.estimate is None:
        return f"The bias of the {rate_name(audit, worst.criterion)} is not estimable."
    if bias.estimate == 0:
        return f"The {rate_name(audit, worst.criterion)} is the same for all groups: {number(worst.groups[0].rate)}."
    rates = {group.group: group.rate for group in worst.groups}
    around = "" if bias.ci is None else f" ({_percent(comparison)} % interval {interval(*bias.ci)})"
    return (
        f"The {rate_name(audit, worst.criterion)} is {number(rates[bias.highest or ''])} for {bias.highest} and "
        f"{number(rates[bias.lowest or ''])} for {bias.lowest}: a difference of {number(bias.estimate)}{around}."
    )


def _percent(comparison: Comparison) -> str:
    return "95" if comparison.report is None else f"{100 * comparison.report.confidence:g}"


def rate_name(audit: Audit, criterion: str) -> str:
    """What a rate is called: a search is not accepted."""
    return criterion if criterion != ACCEPTANCE else f"rate of {visible(audit.favourable, 60)}"


def _unreliable(audit: Audit) -> bool:
    reports = [comparison.report for comparison in audit.comparisons if comparison.report is not None]
    return any(part.bias.reliable is False for report in reports for part in report.criteria)


def _time_blocks(audit: Audit) -> bool:
    return audit.question.get("unit", TIME_BLOCKS) == TIME_BLOCKS


def _basis(audit: Audit) -> Iterator[Part]:
    """What the numbers are made of: rows, unit, periods, and what changed on the way."""
    counted = audit.reasons.get(COUNTED, 0)
    left = [
        f"{rows:,} {reason}{f' (for example {audit.examples[reason]})' if reason in audit.examples else ''}"
        for reason, rows in audit.reasons.items()
        if reason != COUNTED
    ]
    lost = f" Not counted: {'; '.join(left)}." if left else ""
    unknown = audit.comparison.unknown.groups
    within = f" ({amount(unknown)} of unknown group)" if unknown and audit.question.get("decision") else ""
    yield f"{audit.log}: {audit.rows:,} rows, {counted:,} counted{within}.{lost}"
    over = f"{len(audit.periods)} {plural(audit.period or '', len(audit.periods))}" if audit.period else ""
    when = f" from {audit.periods[0]} to {audit.periods[-1]}" if audit.period else ""
    units = f"{audit.units:,} {plural(audit.unit, audit.units)}"
    yield f"{units if _time_blocks(audit) or not over else f'{units} in {over}'}{when}. {audit.unit_words}"
    for jump in audit.jumps:
        yield f"! {jump}"


def plural(noun: str, number_of: int = 2) -> str:
    """A noun for this number of things."""
    return noun if number_of == 1 else f"{noun}s"


def _comparison(audit: Audit, comparison: Comparison) -> Iterator[Part]:
    if len(audit.comparisons) > 1:
        yield f"# By {comparison.name}"
    report = comparison.report
    for place, part in enumerate(report.criteria if report is not None else ()):
        yield _rates(audit, comparison, part, place)
        yield _range(audit, comparison, part)
        yield ""
    yield from _unknown(audit, comparison)
    if comparison.errors and report is not None:
        yield _errors(audit, comparison)
    for course in comparison.courses:
        yield _course(audit, course)
    yield from _splits(audit, comparison.splits)
    if comparison.standardised:
        yield _standardised(comparison)
    notes = [*(() if report is None else (*report.notes, *map(str, report.not_estimable))), *comparison.notes]
    if len(audit.periods) > 1 and report is not None and not comparison.courses:
        notes.append("Combinations of columns are compared in all, and neither over time nor split.")
    yield from (f"* {note.replace(ACCEPTANCE, rate_name(audit, ACCEPTANCE))}" for note in notes)


def _rates(audit: Audit, comparison: Comparison, part: CriterionBenefit, place: int) -> Table:
    """One row per group, with totals: what was given and what was due."""
    report = comparison.report
    assert report is not None
    given, due = ("affected", "people") if audit.burden else ("received", "due")
    shown = (
        Column("group", folds=True),
        *columns("rate", f"{_percent(comparison)} % interval", given, due, right=True),
    )
    rows = [
        (
            group.group,
            number(group.rate, unknown="not estimable"),
            interval(group.low, group.high),
            amount(group.supply * report.episodes),
            amount(group.demand * report.episodes),
        )
        for group in part.groups
    ]
    rows += [
        (each.group, "not compared", "", amount(each.supply[place]), amount(each.demand[place]))
        for each in comparison.not_compared
    ]
    return Table(shown, tuple(rows), title=rate_name(audit, part.criterion))


def amount(value: float) -> str:
    """A count, or an amount that need not be whole."""
    return f"{value:,.0f}" if abs(value - round(value)) < 1e-6 else f"{value:,.6g}"


def _range(audit: Audit, comparison: Comparison, part: CriterionBenefit) -> Table:
    """How far apart the groups are: bias, impact ratio with the four-fifths line, and the test of the limit."""
    percent = f"{_percent(comparison)} % interval"
    bias, ratio = part.bias, part.impact_ratio
    rows: list[tuple[str, ...]] = []
    if bias.estimate is not None:
        chance = "" if bias.noise_floor is None else f"expected from noise alone: {number(bias.noise_floor)}"
        rows.append(("observed bias", number(bias.estimate), f"{bias.highest} - {bias.lowest}", chance))
    if bias.debiased is not None:
        rows.append(("bias, debiased", number(bias.debiased), interval(bias.low, bias.high), percent))
    if ratio.estimate is not None:
        side = "below" if ratio.estimate < FOUR_FIFTHS else "above"
        line = "" if audit.burden else f"{side} four fifths, a screen and not a law"
        rows.append(("impact ratio", number(ratio.estimate), interval(ratio.low, ratio.high), line))
    limit = comparison.limit
    if limit is not None and limit.p_refute is not None and limit.p_confirm is not None:
        p = limit.p_refute if limit.verdict == "refuted" else limit.p_confirm
        rows.append((f"bias <= {limit.max_bias:g}", toned(limit.verdict), f"p = {p:.2g}", limit.words))
    if not bias.reliable and bias.estimate is not None:
        rows.append(("unreliable", "", "", f"too few {plural(audit.unit)} carry the demand of a group"))
    return facts(rows)


def _unknown(audit: Audit, comparison: Comparison) -> Iterator[Part]:
    """What is not known, and what the answer can be under each assumption."""
    unknown = comparison.unknown
    if unknown.outcomes:
        share = f"{100 * unknown.outcomes_share:.1f} %"
        yield f"The outcome of {amount(unknown.outcomes)} decisions ({share}) is not known."
    if unknown.groups:
        what = "decisions" if audit.question.get("decision") else "units of demand"
        share = f"{100 * unknown.groups_share:.1f} %"
        yield f"The group is not known for {amount(unknown.groups)} {what} ({share})."
    if not unknown.bounds:
        return
    several = len({bounds.criterion for bounds in unknown.bounds}) > 1
    shown = (Column("if", folds=True), Column("rate", detail=not several))
    shown += columns("least bias", "most bias", f"{_percent(comparison)} % interval", right=True)
    shown += (Column("limit"), Column("rates", folds=True))
    rows = tuple(
        (
            f"{'> ' if bounds.used else ''}{bounds.assumption}: {bounds.words}",
            bounds.criterion,
            number(bounds.least),
            number(bounds.most),
            interval(bounds.low, bounds.high),
            "" if bounds.verdict is None else toned(bounds.verdict),
            ", ".join(f"{each.group} {each.low:.3f} .. {each.high:.3f}" for each in bounds.rates[:GROUPS_SHOWN])
            + _left(len(bounds.rates)),
        )
        for bounds in unknown.bounds
    )
    yield Table(shown, rows, title="What is not known").brief()
    if any(bounds.used for bounds in unknown.bounds):
        yield "> marks the assumption that the verdict is built on (--assume)."
    yield from (f"* {flip}" for flip in unknown.flips)
    yield ""


def _errors(audit: Audit, comparison: Comparison) -> Table:
    """The error of the largest difference, by what rows depend on."""
    assert comparison.report is not None
    worst = max(comparison.report.criteria, key=lambda part: part.bias.estimate or 0.0)
    pair = f"{worst.bias.highest} - {worst.bias.lowest}, {rate_name(audit, worst.criterion)}"
    shown = (Column("if rows depend within"), *columns("clusters", "standard error", "design effect", right=True))
    rows = tuple(
        (
            f"{each.by}{' (used)' if each.used else ''}",
            "" if each.clusters is None else f"{each.clusters:,}",
            f"{each.error:.4f}",
            "" if each.design_effect is None else f"{each.design_effect:.2f}",
        )
        for each in comparison.errors
    )
    return Table(shown, rows, title=f"Error of the largest difference ({pair})")


def _course(audit: Audit, course: Course) -> Table:
    """Long-term rates up to the end of some periods, evenly spread."""
    number_of = len(course.periods)
    shown_places = sorted({round(i * (number_of - 1) / (PERIODS_SHOWN - 1)) for i in range(PERIODS_SHOWN)})
    groups = course.groups[:GROUPS_SHOWN]
    heads = (Column(f"up to {audit.period}"), *columns(*(group.group for group in groups), right=True, folds=True))
    heads += columns("bias so far", "noise alone", "outcomes known", right=True)
    known = [each.known_outcomes for each in audit.timeline]
    rows = tuple(
        (
            course.periods[place],
            *(number(group.cumulative[place], 3, unknown="") for group in groups),
            number(course.bias[place], unknown=""),
            number(course.noise_floor[place], unknown=""),
            "" if (share := known[place]) is None else f"{100 * share:.0f} %",
        )
        for place in shown_places
    )
    hidden = f" ({len(shown_places)} of {number_of} periods; {WHOLE})" if len(shown_places) < number_of else ""
    left = _left(len(course.groups))
    return Table(heads, rows, title=f"Over time, {rate_name(audit, course.criterion)}{hidden}{left}").brief()


def _left(groups: int) -> str:
    """What is said of groups for which there is no room."""
    return f", and {groups - GROUPS_SHOWN} more groups; {WHOLE}" if groups > GROUPS_SHOWN else ""


def _splits(audit: Audit, splits: Sequence[SplitOf]) -> Iterator[Part]:
    """Where the differences come from, in a table for each rate and what it is split over."""
    if not splits:
        return
    order = {name: place for place, name in enumerate(dict.fromkeys((split.over, split.criterion) for split in splits))}
    alike = sorted(splits, key=lambda split: order[split.over, split.criterion])
    for (over, criterion), listed in groupby(alike, key=lambda split: (split.over, split.criterion)):
        each = list(listed)
        elsewhere = "timing" if over == "periods" else "place"
        heads = (Column("difference", folds=True), *columns("in all", "treatment", elsewhere, right=True))
        rows = tuple(
            (f"{split.first} - {split.second}", *map(_with_ends, (split.difference, split.treatment, split.timing)))
            for split in each
        )
        yield Table(heads, rows, title=f"Where it comes from, {rate_name(audit, criterion)} over {visible(over)}")
        yield from (_places(split) for split in each if split.places)
        filled = next((split for split in each if split.filled), None)
        if filled is not None:
            yield (
                f"In {filled.filled} of these {visible(over)}, {filled.first} or {filled.second} has no demand and "
                "takes the other's rate."
            )
    yield (
        "Treatment: different rates in the same period or stratum. Timing or place: demand that fell where rates were "
        "higher or lower for everybody. They add up exactly (Kitagawa 1955)."
    )
    yield ""


def _places(split: SplitOf) -> Table:
    """The places where most of the difference comes about."""

    def moved(place: int) -> float:
        at = split.places[place]
        first, second = (rate if rate is not None else 0.0 for rate in (at.rate_first, at.rate_second))
        return abs(at.weight_first * first - at.weight_second * second)

    chosen = sorted(sorted(range(len(split.places)), key=moved, reverse=True)[:PLACES_SHOWN])
    names = (split.first, split.second)
    heads = (Column("where it matters most" if len(chosen) < len(split.places) else visible(split.over)),)
    heads += columns(*(f"rate, {name}" for name in names), right=True)
    heads += columns(*(f"demand, {name}" for name in names), "step-wise weight", right=True)
    rows = tuple(
        (
            visible(at.name, 30),
            *(number(rate, 3, unknown="") for rate in (at.rate_first, at.rate_second)),
            *(f"{100 * share:.1f} %" for share in (at.weight_first, at.weight_second, at.stepwise_weight)),
        )
        for at in (split.places[place] for place in chosen)
    )
    return Table(heads, rows)


def _with_ends(estimate: Estimate) -> str:
    around = "" if estimate.ci is None else f" ({interval(*estimate.ci, digits=3)})"
    return f"{estimate.value:.3f}{around}"


def _standardised(comparison: Comparison) -> Table:
    several = len({each.criterion for each in comparison.standardised}) > 1
    heads = (Column("difference", folds=True), Column("rate", detail=not several))
    heads += columns("plain", "within strata (Mantel-Haenszel)", "odds ratio", "strata compared", right=True)
    rows = tuple(_standardised_row(each) for each in comparison.standardised)
    controls = " and ".join(map(visible, comparison.standardised[0].controls))
    return Table(heads, rows, title=f"Given {controls}: another question, not a correction of the answer above").brief()


def _standardised_row(each: Standardised) -> tuple[str, ...]:
    return (
        f"{each.first} - {each.second}",
        each.criterion,
        _with_ends(each.difference),
        _with_ends(each.pooled),
        "" if each.odds_ratio is None else f"{each.odds_ratio:.3f}",
        f"{each.shared} of {each.strata}",
    )
