"""The table of New York City's Local Law 144 as a page."""

from elbert.auditing.law import SMALL_SHARE, LawTable
from elbert.tables import Column, Page, Part, Table, columns, number


def law_page(table: LawTable) -> Page:
    """The table of Local Law 144."""
    above = "" if table.median is None else f" (share with a score above the median of {table.median:g})"
    parts: list[Part] = [f"# Local Law 144: {table.rate}s and impact ratios{above}"]
    given = "selected" if table.median is None else "above median"
    for section in table.sections:
        shown = (Column(section.by, folds=True), *columns("people", given, table.rate, "impact ratio", right=True))
        rows = tuple(
            (
                each.category,
                f"{each.people:,}",
                f"{each.selected:,}",
                number(each.rate, 3),
                number(each.impact_ratio, 3, unknown="under 2 %" if each.share < SMALL_SHARE else ""),
            )
            for each in section.categories
        )
        parts += [Table(shown, rows), f"{section.unknown:,} people of unknown category are not in this table.", ""]
    left = "; ".join(f"{rows:,} {reason}" for reason, rows in table.reasons.items())
    parts.append(f"{table.log}: {table.rows:,} rows." + (f" Not counted: {left}." if left else ""))
    parts.append(
        "A category with less than 2 % of the people has no impact ratio; its number and rate are shown. Categories "
        "must be what people said of themselves: the law allows no guess. The table has no uncertainty and no limit."
    )
    return Page(tuple(parts))
