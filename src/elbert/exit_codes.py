"""What several verdicts come to, and what a command says of them to a pipeline; 2 is wrong use or data."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

Overall: TypeAlias = Literal["confirmed", "refuted", "undetermined"]
CONFIRMED, REFUTED, UNDETERMINED = 0, 1, 3


def overall(verdicts: Iterable[str | None]) -> Overall:
    """Refuted if one is, confirmed if all are; everything else is undetermined."""
    found = set(verdicts)
    return "refuted" if "refuted" in found else "confirmed" if found == {"confirmed"} else "undetermined"


def code_of(verdict: str | None) -> int:
    """0 confirmed, or no limit asked for; 1 refuted; 3 anything else: undetermined never passes."""
    return {None: CONFIRMED, "confirmed": CONFIRMED, "refuted": REFUTED}.get(verdict, UNDETERMINED)
