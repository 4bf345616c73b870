"""What goes wrong. The message of every error says what was given, what is needed and what to do."""

import difflib
from collections.abc import Iterable


class ElbertError(Exception):
    """Base of all exceptions that `elbert` raises on purpose: one `except` catches them all."""


class InvalidInputError(ElbertError, ValueError):
    """The input makes no sense as it is: wrong shape, wrong range, unknown name."""


class NotEstimableError(InvalidInputError):
    """The data do not determine the number asked for, for example the rate of a group without demand."""


def did_you_mean(name: object, among: Iterable[str]) -> str:
    """A question with the nearest known name, " Did you mean 'lending'?", or nothing if none is near."""
    known = {each.lower(): each for each in among}
    near = difflib.get_close_matches(str(name).lower(), known, n=1, cutoff=0.5)
    return f" Did you mean {known[near[0]]!r}?" if near else ""


def unknown_name(kind: str, name: object, among: Iterable[str]) -> InvalidInputError:
    """The refusal of a name that is not known, with the nearest one and all that are."""
    known = list(among)
    return InvalidInputError(f"No {kind} is called {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}.")
