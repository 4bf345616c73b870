"""Rows and columns, once: for a terminal, as plain text, and as Markdown. What is shown is never taken for markup."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, TypeAlias, Union

if TYPE_CHECKING:
    from rich.console import RenderableType

TEXT_WIDTH = 100
"""Columns of plain text, for files and pipes."""


@dataclass(frozen=True)
class Column:
    """How one column is shown."""

    heading: str
    right: bool = False  # numbers stand on the right
    folds: bool = False  # may take several lines where there is little room


@dataclass(frozen=True)
class Table:
    """Rows of cells under headings."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    ruled: bool = True  # a line under the headings
    sections: tuple[int, ...] = ()  # rows after which a line is drawn

    def __rich__(self) -> "RenderableType":
        """For a rich console."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(
            box=box.SIMPLE_HEAD if self.ruled else None,
            title=Text(self.title) if self.title else None,
            title_justify="left",
            title_style="bold",
            header_style="bold",
            show_header=any(column.heading for column in self.columns),
            pad_edge=self.ruled,
        )
        for column in self.columns:
            side = "right" if column.right else "left"
            table.add_column(column.heading, justify=side, overflow="fold", no_wrap=not column.folds)
        for number, row in enumerate(self.rows):
            table.add_row(*(Text(cell) for cell in row), end_section=number in self.sections)
        return table

    def __str__(self) -> str:
        """As plain text."""
        return as_text(self)

    def to_markdown(self) -> str:
        """As a Markdown table, without the title."""
        heads = [column.heading for column in self.columns]
        rules = ["---:" if column.right else "---" for column in self.columns]
        lines = (heads, rules, *self.rows)
        return "".join("| " + " | ".join(_in_markdown(cell) for cell in line) + " |\n" for line in lines)


Part: TypeAlias = Union[str, "Table"]


@dataclass(frozen=True)
class Page:
    """Tables and paragraphs below one another."""

    parts: tuple[Part, ...]

    def __rich__(self) -> "RenderableType":
        """For a rich console; a paragraph that begins with "# " is a heading."""
        from rich.console import Group
        from rich.text import Text

        def shown(part: Part) -> "RenderableType":
            if not isinstance(part, str):
                return part
            return Text(part[2:], style="bold") if part.startswith("# ") else Text(part)

        return Group(*(shown(part) for part in self.parts))

    def __str__(self) -> str:
        """As plain text."""
        return as_text(self)


def facts(rows: Sequence[Sequence[str]]) -> Table:
    """Rows without headings: a name, its value, and what else there is to say."""
    width = max((len(row) for row in rows), default=0)
    filled = tuple((*row, *[""] * (width - len(row))) for row in rows)
    columns = tuple(Column("", folds=number == width - 1) for number in range(width))
    return Table(columns, filled, ruled=False)


def as_text(part: "Table | Page", width: int = TEXT_WIDTH) -> str:
    """As a terminal of this width would show it, without colours."""
    from rich.console import Console

    file = StringIO()
    Console(file=file, width=width, color_system=None, legacy_windows=False).print(part)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def number(value: float | None, digits: int = 4, *, unknown: str = "?") -> str:
    """A number with this many digits after the point."""
    return unknown if value is None else f"{value:.{digits}f}"


def interval(low: float | None, high: float | None, digits: int = 4) -> str:
    """Both ends of an interval; nothing where there is none."""
    return "" if low is None or high is None else f"{low:.{digits}f} .. {high:.{digits}f}"


def _in_markdown(cell: str) -> str:
    """A cell whose text cannot be taken for markup or for the end of the cell."""
    escaped = cell.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
    return escaped.replace("\n", " ")
