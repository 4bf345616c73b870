"""Results and progress as notebooks show them. Text is escaped; there are no scripts."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from io import StringIO
from typing import Self

from elbert.progress import Progress, Tell, tell_nobody
from elbert.report.live import ProgressDisplay
from elbert.shown import named
from elbert.tables import TEXT_WIDTH, Page, Table

SECONDS_BETWEEN_UPDATES = 0.25


@contextmanager
def display(title: str, *, always: bool) -> Iterator[Tell]:
    """What `progress="auto"` means: a display in notebooks and terminals; elsewhere nothing, or lines if `always`."""
    if in_notebook():
        with NotebookDisplay(title) as shown:
            yield shown
    elif always or (sys.stderr is not None and sys.stderr.isatty()):
        with ProgressDisplay(title) as shown:
            yield shown
    else:
        yield tell_nobody


def in_notebook() -> bool:
    """Whether the process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


class NotebookDisplay(ProgressDisplay):
    """The same display in the output of a notebook's cell, where it replaces itself."""

    def __enter__(self) -> Self:
        self._updated = time.monotonic()
        self._live = named("IPython.display:display")(self._content(), raw=True, display_id=True)
        return self

    def __exit__(self, *ending: object) -> None:
        self._live.update(self._content(), raw=True)

    def __call__(self, progress: Progress) -> None:
        """Show how far the work is."""
        super().__call__(progress)
        if (now := time.monotonic()) - self._updated >= SECONDS_BETWEEN_UPDATES:
            self._updated = now
            self._live.update(self._content(), raw=True)

    def _content(self) -> dict[str, str]:
        from rich.console import Console

        file = StringIO()
        Console(file=file, width=TEXT_WIDTH, color_system=None, force_jupyter=False).print(self._shown())
        return {"text/plain": file.getvalue(), "text/html": f"<pre>{escape(file.getvalue())}</pre>"}


def html(page: Page) -> str:
    """A page of tables and paragraphs for a notebook."""
    shown = (_paragraph(part) if isinstance(part, str) else _table(part) for part in page.parts)
    return f"<div>{''.join(shown)}</div>"


def _paragraph(text: str) -> str:
    if text.startswith("# "):
        return f"<p><strong>{escape(text[2:].strip())}</strong></p>"
    return "".join(f"<p>{escape(line)}</p>" for line in text.splitlines() if line)


def _table(table: Table) -> str:
    """A table with its title as caption. Colours are the notebook's: it may be dark."""
    title = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    sides = [f' style="text-align: {"right" if column.right else "left"}"' for column in table.columns]

    def line(tag: str, cells: tuple[str, ...]) -> str:
        joined = (f"<{tag}{side}>{escape(cell)}</{tag}>" for side, cell in zip(sides, cells, strict=True))
        return f"<tr>{''.join(joined)}</tr>"

    headings = tuple(column.heading for column in table.columns)
    head = f"<thead>{line('th', headings)}</thead>" if any(headings) else ""
    return f"<table>{title}{head}<tbody>{''.join(line('td', row) for row in table.rows)}</tbody></table>"
