"""How learning rate and entropy weight change over a training: a factor on each, from the part that is done."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from elbert.checks import as_number
from elbert.errors import InvalidInputError

Schedule: TypeAlias = str | Callable[[float], float]
"""A name, or a function from the part of the training that is done, from 0 to below 1, to a factor of 0 or more."""

SCHEDULES: dict[str, Callable[[float], float]] = {
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: (1.0 + math.cos(math.pi * done)) / 2.0,
    "none": lambda done: 1.0,
}


def factors(schedule: Schedule, iterations: int) -> np.ndarray[Any, Any]:
    """The factor of every iteration. The function is called here, outside of compiled code. [iterations]"""
    function = SCHEDULES[schedule] if isinstance(schedule, str) else schedule
    need = "a function from the part of the training that is done, from 0 to 1, to a factor of 0 or more"

    def factor(done: float) -> float:
        try:
            value = function(done)
        except InvalidInputError:
            raise
        except Exception as error:
            raise InvalidInputError(
                f"anneal({done:g}) fails ({type(error).__name__}: {error}). Give {need}."
            ) from error
        return float(as_number(value, f"anneal({done:g})", need, low=0.0, high=1e6))

    return np.asarray([factor(i / iterations) for i in range(iterations)], np.float32)


class ForgottenSchedule:
    """A user's schedule of which a file holds the name only: enough for an agent that acts, not for training."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, done: float) -> float:
        """Refuse to be used."""
        del done
        raise InvalidInputError(f"anneal is {self.__name__!r}, a function that is not stored in files. Give it again.")


def as_stored(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings from a file, in which a user's schedule stands as a name."""
    name = settings.get("anneal", "none")
    return dict(settings) | ({} if name in SCHEDULES else {"anneal": ForgottenSchedule(str(name))})
