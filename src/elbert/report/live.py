"""What a person sees while something is computed: a bar in a terminal, plain lines elsewhere."""

import sys
import time
from typing import TYPE_CHECKING, Any, Self, TextIO

from elbert.progress import Progress

if TYPE_CHECKING:
    from rich.console import RenderableType


SECONDS_BETWEEN_LINES = 5.0
PART_BETWEEN_LINES = 1 / 20
"""Where there is no terminal, a line comes after this many seconds, or this part of the time so far if that is more."""


class ProgressDisplay:
    """A context that shows, under a title on stderr, each `Progress` that it is called with.

    Before the first one it shows what is going on until then, `at_first`.
    """

    def __init__(self, title: str, stream: TextIO | None = None, *, at_first: str = "starting") -> None:
        self.title, self.stream, self.at_first = title, stream or sys.stderr, at_first
        self._live: Any = None
        self._latest: Progress | None = None
        self._begun = time.monotonic()
        self._first = 0.0, 0  # when the activity under way was first told of, and how much was done then
        self._line = self._begun

    def __enter__(self) -> Self:
        from rich.console import Console

        console = Console(file=self.stream)
        if console.is_terminal:
            from rich.live import Live

            self._live = Live(console=console, get_renderable=self._shown, refresh_per_second=4)
            self._live.start()
        else:
            self._write(f"{self.at_first} ...")
        return self

    def __exit__(self, *ending: object) -> None:
        if self._live is not None:
            self._live.transient = self._latest is None  # nothing was done: an error says why
            self._live.stop()

    def __call__(self, progress: Progress) -> None:
        """Show how far the work is."""
        now = time.monotonic()
        before, self._latest = self._latest, progress
        begins = before is None or before.activity != progress.activity
        if begins:  # the first event may hold a compilation: the time left is judged by the others
            self._first = now, progress.done
        if self._live is not None:
            return
        patience = max(SECONDS_BETWEEN_LINES, PART_BETWEEN_LINES * (now - self._begun))
        ends = progress.done == progress.total and (before is None or before.done != progress.done)
        if begins or ends or now - self._line >= patience:
            self._line = now
            parts = (self._count(progress), f"{now - self._begun:.0f} s", self._left(progress), progress.facts)
            self._write(f"{progress.activity}, {', '.join(part for part in parts if part)}")

    def _write(self, text: str) -> None:
        print(f"{self.title}: {text}", file=self.stream, flush=True)

    def _shown(self) -> "RenderableType":
        """What is done, the bar, and what is known so far, which takes as many lines as it needs."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        progress, seconds = self._latest, time.monotonic() - self._begun
        total, done, activity = None, 0, self.at_first
        after, facts = [_duration(seconds)], ""
        if progress is not None:
            total, done, activity, facts = progress.total, progress.done, progress.activity, progress.facts
            after = [self._count(progress), *after, self._left(progress)]
        line = Table.grid(padding=(0, 2, 0, 0))
        bar = ProgressBar(total=total, completed=done, width=20, pulse=total is None)
        line.add_row(bar, *(Text(part) for part in after))
        title = Text.assemble((self.title, "bold"), f": {activity}")  # a line of its own: names may be long
        return Group(title, line, *([Text(facts)] if facts else []))

    def _count(self, progress: Progress) -> str:
        return f"{progress.done}{'' if progress.total is None else f'/{progress.total}'} {progress.unit}"

    def _left(self, progress: Progress) -> str:
        """The time left, as the worker says or by the time that it took so far."""
        seconds = progress.left
        since, before = self._first
        if seconds is None and progress.total is not None and progress.done > before:
            seconds = (time.monotonic() - since) / (progress.done - before) * (progress.total - progress.done)
        return "" if not seconds else f"{_duration(seconds)} left"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
