"""What goes wrong, said so that a person can mend it.

Every exception that `elbert` raises on purpose is an `ElbertError`, so one `except` catches them all. Its message says
what was given, what is needed and what to do.
"""


class ElbertError(Exception):
    """Base of all exceptions that `elbert` raises on purpose."""


class InvalidInputError(ElbertError, ValueError):
    """The input makes no sense as it is: wrong shape, wrong range, unknown name."""


class NotEstimableError(InvalidInputError):
    """The data do not determine the number asked for, for example the rate of a group without demand."""
