"""Rows and columns, once: for a terminal, as plain text, and as Markdown. What is shown is never taken for markup.

Nothing is cut where there is little room: headings and columns that may fold do so; a table that still does not fit is
turned, with a column for each row; and where that is too wide as well, its rows are stacked as lists.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import TYPE_CHECKING, TypeAlias, Union

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table as RichTable

TEXT_WIDTH = 100  # columns of plain text, for files and pipes
FOLDED_WIDTH = 24  # a column that folds is not made narrower where a table can be stacked instead


class Toned(str):
    """A cell that a terminal with colours shows in one; everywhere else it is the word alone."""

    __slots__ = ("colour",)

    def __new__(cls, text: str, colour: str) -> "Toned":
        """The text, and the colour's name as rich knows it."""
        cell = super().__new__(cls, text)
        cell.colour = colour
        return cell


COLOURS = {
    "confirmed": "green",
    "refuted": "bold red",
    "finished": "green",
    "failed": "bold red",
    "damaged": "bold red",
}
COLOURS |= dict.fromkeys(("not refuted", "not estimable", "undetermined"), "yellow")
COLOURS |= dict.fromkeys(("running", "stopped", "interrupted", "killed"), "yellow")


def toned(word: str) -> str:
    """A verdict or a status, in its colour where there are colours."""
    return Toned(word, COLOURS.get(word, ""))


@dataclass(frozen=True)
class Column:
    """How one column is shown."""

    heading: str
    right: bool = False  # numbers stand on the right
    folds: bool = False  # may take several lines where there is little room
    detail: bool = False  # is left out of the brief form


@dataclass(frozen=True)
class Table:
    """Rows of cells under headings."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    ruled: bool = True  # a line under the headings
    sections: tuple[int, ...] = ()  # rows after which a line is drawn

    def brief(self) -> "Table":
        """The table without details and without columns that are empty in every row."""
        empty = [not any(row[place] for row in self.rows) for place in range(len(self.columns))]
        shown = [place for place, column in enumerate(self.columns) if not column.detail and not empty[place]]
        rows = tuple(tuple(row[place] for place in shown) for row in self.rows)
        return replace(self, columns=tuple(self.columns[place] for place in shown), rows=rows)

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        """For a rich console: in columns where there is room, else with rows for columns, else stacked."""
        if not self.columns:
            return
        from rich.text import Text

        turned = self._turned()
        for table in (self, turned) if len(self.rows) > 1 else (self,):
            widths = table._fitted(console, options)
            if widths is not None:
                if self.title:
                    yield Text(self.title, style="bold")  # not in the table, where it would fold at its width
                yield table._side_by_side(widths)
                return
        yield self._stacked()

    def __str__(self) -> str:
        """As plain text."""
        return as_text(self)

    def to_markdown(self) -> str:
        """As a Markdown table, without the title."""
        heads = [column.heading for column in self.columns]
        rules = ["---:" if column.right else "---" for column in self.columns]
        lines = (heads, rules, *self.rows)
        return "".join("| " + " | ".join(_in_markdown(cell) for cell in line) + " |\n" for line in lines)

    @property
    def _headed(self) -> bool:
        return any(column.heading for column in self.columns)

    def _fitted(self, console: "Console", options: "ConsoleOptions") -> list[int] | None:
        """The width of each column, folded where there is little room; None if the table has to be stacked."""
        from rich.measure import Measurement

        cells = [[row[place] for row in self.rows] for place in range(len(self.columns))]
        places = zip(self.columns, cells, strict=True)
        widths = [_longest([column.heading, *texts], lines=True) for column, texts in places]
        whole = Measurement.get(console, options.update_width(10_000), self._side_by_side(widths))
        excess = whole.maximum - options.max_width
        for place in sorted(range(len(widths)), key=lambda place: (self.columns[place].folds, -widths[place])):
            column = self.columns[place]
            least = max(_longest(cells[place], lines=not column.folds), _longest([column.heading]))
            if column.folds and self._headed:
                least = max(least, min(widths[place], FOLDED_WIDTH))
            taken = max(0, min(excess, widths[place] - least))
            widths[place] -= taken
            excess -= taken
        return None if excess > 0 and self._headed else widths

    def _turned(self) -> "Table":
        """A column for each row, under its first cell: a few rows of many cells still stand next to each other."""
        heads = (self.columns[0], *(Column(row[0], right=True, folds=True) for row in self.rows))
        cells = ((column.heading, *each) for column, *each in zip(self.columns, *self.rows, strict=True))
        rows = tuple(row for row in list(cells)[1:] if any(row[1:]))
        return replace(self, columns=heads, rows=rows, sections=())

    def _side_by_side(self, widths: Sequence[int]) -> "RichTable":
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(
            box=box.SIMPLE_HEAD if self.ruled else None,
            header_style="bold",
            show_header=self._headed,
            pad_edge=False,
            padding=(0, 1, 0, 0) if self.ruled else (0, 2, 0, 0),
        )
        for column, width in zip(self.columns, widths, strict=True):
            side = "right" if column.right else "left"
            table.add_column(Text(column.heading), justify=side, vertical="top", overflow="fold", width=width)
        for place, row in enumerate(self.rows):
            cells = (Text(cell, style=getattr(cell, "colour", "")) for cell in row)
            table.add_row(*cells, end_section=place in self.sections)
        return table

    def _stacked(self) -> "RenderableType":
        """Each row below the other: its first cell, then a line for each heading with something below it."""
        from rich.console import Group
        from rich.padding import Padding
        from rich.text import Text

        blocks: list[RenderableType] = [Text(self.title, style="bold")] if self.title else []
        for row in self.rows:
            pairs = [(column.heading, cell) for column, cell in zip(self.columns[1:], row[1:], strict=True) if cell]
            blocks += [Text(row[0], style="bold", overflow="fold"), Padding(facts(pairs), (0, 0, 1, 2))]
        return Group(*blocks)


Part: TypeAlias = Union[str, "Table"]


@dataclass(frozen=True)
class Page:
    """Tables and paragraphs below one another; a paragraph that begins with "# " is a heading."""

    parts: tuple[Part, ...]

    def __rich__(self) -> "RenderableType":
        """For a rich console."""
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

    def to_markdown(self) -> str:
        """As Markdown: the titles of tables are headings, and text cannot be taken for markup."""
        blocks = []
        for part in self.parts:
            if isinstance(part, str):
                blocks.append(f"{_in_markdown(part)}\n" if part else "")
            else:
                blocks += [f"## {_in_markdown(part.title)}\n"] if part.title else []
                blocks.append(part.to_markdown())
        return "\n".join(block for block in blocks if block)


def columns(*headings: str, right: bool = False, folds: bool = False, detail: bool = False) -> tuple[Column, ...]:
    """Columns that are shown alike."""
    return tuple(Column(heading, right=right, folds=folds, detail=detail) for heading in headings)


def facts(rows: Sequence[Sequence[str]]) -> Table:
    """Rows without headings: a name, its value, and what else there is to say."""
    width = max((len(row) for row in rows), default=0)
    filled = tuple((*row, *[""] * (width - len(row))) for row in rows)
    shown = tuple(Column("", folds=number == width - 1) for number in range(width))
    return Table(shown, filled, ruled=False)


def as_text(part: "Table | Page", width: int = TEXT_WIDTH) -> str:
    """As a terminal of this width would show it, without colours."""
    from rich.console import Console

    file = StringIO()
    Console(file=file, width=width, color_system=None, legacy_windows=False).print(part)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def visible(text: object, longest: int = 80) -> str:
    """Text from data as one line: control characters are written out, and what is too long is cut."""
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in str(text))
    return shown if len(shown) <= longest else shown[: longest - 3] + "..."


def number(value: float | None, digits: int = 4, *, unknown: str = "?") -> str:
    """A number with this many digits after the point."""
    return unknown if value is None or math.isnan(value) else f"{value:.{digits}f}"


def interval(low: float | None, high: float | None, digits: int = 4) -> str:
    """Both ends of an interval; nothing where there is none."""
    return "" if low is None or high is None else f"{low:.{digits}f} .. {high:.{digits}f}"


def _longest(texts: Sequence[str], *, lines: bool = False) -> int:
    """The width of the longest word in these texts, or of the longest line."""
    from rich.cells import cell_len

    parts = (part for text in texts for part in (text.splitlines() if lines else text.split()))
    return max((cell_len(part) for part in parts), default=0)


def _in_markdown(text: str) -> str:
    """Text that cannot be taken for a tag, a link, or the end of a cell."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace("](", "]\\(")
    return plain.replace("|", "\\|").replace("\n", " ")


def whole_ranges(seeds: Sequence[int]) -> str:
    """Whole numbers, with those that follow one another as a range: "0-4, 7"."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and seed == parts[-1][-1] + 1:
            parts[-1][1:] = [seed]
        else:
            parts.append([seed])
    return ", ".join("-".join(map(str, part)) for part in parts)
