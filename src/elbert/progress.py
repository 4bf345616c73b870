"""How far a piece of work is: the one thing that displays and callbacks are told."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

from elbert.errors import InvalidInputError
from elbert.shown import named


@dataclass(frozen=True)
class Progress:
    """A piece of work under way."""

    activity: str  # what is being done, for example "evaluating"
    done: int  # units that are done
    total: int | None  # units in all; None if nobody knows
    unit: str  # what is counted, for example "episodes"
    facts: str = ""  # what is known so far, in words
    left: float | None = None  # seconds, where the worker knows better than the clock


Tell: TypeAlias = Callable[[Progress], None]  # is called with every `Progress`
Watch: TypeAlias = Tell | Literal["auto"] | bool | None
"""Who is told how far work is: a function; "auto" for a display in terminals and notebooks; True for lines elsewhere
too; None or False for nobody."""


def tell_nobody(progress: Progress) -> None:
    """The default of everything that can tell how far it is."""
    del progress


def counting(tell: Tell, activity: str, unit: str, total: int | None = None) -> Callable[[int], None]:
    """A function of the number done that tells a `Progress`: for workers that only count."""
    return lambda done: tell(Progress(activity, done, total, unit))


@contextmanager
def watched(progress: Watch, title: str) -> Iterator[Tell]:
    """The function to be told how far work is, while it is done; a display shows it under the title."""
    if progress is None or progress is False:
        yield tell_nobody
    elif callable(progress):
        yield progress
    elif progress is True or progress == "auto":
        with named("elbert.report.notebooks:display")(title, always=progress is True) as tell:
            yield tell
    else:
        raise InvalidInputError(
            f"progress is {progress!r}. Give 'auto' (a display in terminals and notebooks), True (lines elsewhere "
            "too), None, or a function of an elbert.progress.Progress."
        )
