"""What a monitor sees as a page: the verdict, and bounds that hold at every look."""

from elbert.auditing.monitor_look import Monitored
from elbert.fairness.benefit_report import CAUTION_OF_DATA
from elbert.report.audit_pages import amount, plural, verdict_line
from elbert.tables import Column, Page, Part, Table, columns, facts, interval, number


def monitor_page(seen: Monitored) -> Page:
    """What a monitor shows: the verdict, and bounds that hold at every look."""
    parts: list[Part] = []
    if seen.verdict is not None:
        parts.append(verdict_line(seen.verdict, seen.max_bias, seen.words))
    kind = "by betting, exact" if seen.exact else "asymptotic"
    percent = f"{100 * seen.confidence:g} % bounds"
    left = "; ".join(f"{rows:,} {reason}" for reason, rows in seen.reasons.items())
    parts.append(
        f"{seen.units:,} {plural(seen.unit, seen.units)} so far, until {seen.until}, which counts once it is over. "
        f"{seen.added:,} rows were read now; all rows: {left}."
    )
    for part in seen.criteria:
        shown = (Column("group", folds=True), *columns("rate", percent, "supply", "demand", right=True))
        rows = tuple(
            (each.group, number(each.rate), interval(each.low, each.high), amount(each.supply), amount(each.demand))
            for each in part.groups
        )
        parts += ["", Table(shown, rows, title=part.criterion)]
        bias = [("bias", number(part.bias), interval(part.low, part.high), percent)] if part.bias is not None else []
        parts.append(facts(bias))
        if part.left_out:
            parts.append(f"Too few units so far: {', '.join(part.left_out)}.")
    parts += ["", f"The bounds hold at all looks together ({kind}). {CAUTION_OF_DATA}"]
    return Page(tuple(parts))
