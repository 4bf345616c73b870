"""How far a piece of work is: the one thing that displays and callbacks are told."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


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


def tell_nobody(progress: Progress) -> None:
    """The default of everything that can tell how far it is."""
    del progress


def counting(tell: Tell, activity: str, unit: str, total: int | None = None) -> Callable[[int], None]:
    """A function of the number done that tells a `Progress`: for workers that only count."""
    return lambda done: tell(Progress(activity, done, total, unit))
