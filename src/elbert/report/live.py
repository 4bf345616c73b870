"""What a person sees while a training runs: a bar in a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TextIO

from rich.markup import escape
from rich.text import Text

from elbert.experiments.jobs import Standing
from elbert.progress import Progress

SECONDS_BETWEEN_LINES = 5.0
SECONDS_BETWEEN_STANDINGS = 20.0


@contextmanager
def waiting(
    title: str, stream: TextIO | None = None, *, unit: str = "episodes", total: int | None = None
) -> Iterator[Callable[[int], None]]:
    """Says on stderr what is being waited for; the function it gives is told how many units are done."""
    from rich.console import Console

    def counted(done: int) -> str:
        return f"{done} {unit} done" if total is None else f"{done} of {total} {unit} done"

    console = Console(file=stream or sys.stderr)
    if not console.is_terminal:
        last = time.monotonic()

        def line(done: int) -> None:
            nonlocal last
            if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                console.print(f"{title} ... {counted(done)}", highlight=False, markup=False)

        console.print(f"{title} ...", highlight=False, markup=False)
        yield line
        return
    with console.status(Text(f"{title} ...")) as status:
        yield lambda done: status.update(Text(f"{title} ... {counted(done)}"))


class LiveDisplay:
    """For `elbert.train(progress=...)`: shows progress, time left, reward, bias and the groups' rates on stderr."""

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        """The title stands in front of the bar."""
        self.title, self.stream = title, stream or sys.stderr
        self._bar: Any = None
        self._task: Any = None
        self._last = 0.0
        self._begun = time.monotonic()
        self._first: tuple[float, int] | None = None
        self._told = False

    def __enter__(self) -> Self:
        from rich.console import Console

        console = Console(file=self.stream)
        if console.is_terminal:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.completed}/{task.total}"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}  {task.fields[facts]}"),
                console=console,
            )
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=None, left="compiling ...", facts="")
        else:
            print(f"{self.title}: compiling ...", file=self.stream, flush=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        """Show where the training stands."""
        now = time.monotonic()
        if progress.activity != "training":
            self._tell(f"{progress.activity}, {progress.done} of {progress.total} {progress.unit}")
            return
        if self._first is None:  # the first iteration holds the compilation: the rest is judged by the others
            self._first = now, progress.done
        left = _left(now, self._first, progress)
        if self._bar is not None:
            self._bar.update(
                self._task,
                completed=progress.done,
                total=progress.total,
                left=f"{left} left" if left else "",
                facts=progress.facts,
            )
        elif now - self._last >= SECONDS_BETWEEN_LINES or progress.done == progress.total:
            self._last = now
            done = f"{progress.done}/{progress.total}"
            rest = f", {left} left" if left else ""
            seconds = f"{now - self._begun:.0f} s"
            print(f"{self.title}: {done}, {seconds}{rest}, {progress.facts}", file=self.stream, flush=True)

    def _tell(self, text: str) -> None:
        """Show what happens after the last iteration."""
        if self._bar is not None:
            self._bar.update(self._task, left="", facts=escape(text))
            return
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_LINES or not self._told:
            self._last, self._told = now, True
            print(f"{self.title}: {text}, {now - self._begun:.0f} s", file=self.stream, flush=True)


class StandingDisplay:
    """Shows how far many trainings are: a bar in a terminal, a line from time to time elsewhere."""

    def __init__(self, title: str, stream: TextIO | None = None) -> None:
        """The title stands in front."""
        self.title, self.stream = title, stream or sys.stderr
        self._bar: Any = None
        self._task: Any = None
        self._last: tuple[float, int] = (-SECONDS_BETWEEN_STANDINGS, -1)

    def __enter__(self) -> Self:
        return self

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(file=self.stream)
        if console.is_terminal and self._bar is None:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[done]}"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[rest]}"),
                console=console,
            )
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=None, done="", rest="")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, standing: Standing) -> None:
        """Show the standing."""
        self._start()
        done = f"{standing.done}/{standing.total} trainings"
        running = ", ".join(f"{name} {100 * part:.0f} %" for name, part in standing.running)
        left = "" if standing.left is None else f"{_duration(standing.left)} left"
        if self._bar is not None:
            part = standing.done + sum(fraction for _, fraction in standing.running)
            self._bar.update(
                self._task, total=standing.total, completed=part, done=done, rest=escape(f"{left}  {running}")
            )
            return
        now = time.monotonic()
        if now - self._last[0] >= SECONDS_BETWEEN_STANDINGS or standing.done != self._last[1]:
            self._last = now, standing.done
            parts = [f"{self.title}: {done}", f"{standing.seconds:.0f} s", left, running]
            print(", ".join(part for part in parts if part), file=self.stream, flush=True)


def _left(now: float, first: tuple[float, int], progress: Progress) -> str:
    done = progress.done - first[1]
    if not done or progress.total is None:
        return ""
    seconds = (now - first[0]) / done * (progress.total - progress.done)
    return _duration(seconds)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
