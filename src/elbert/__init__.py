"""`elbert`: long-term fairness in sequential decisions.

Decisions change the people they are made about, so fairness is judged over time: a group's long-term benefit rate is
the total benefit it was given over the total benefit it was due, added up before dividing.

    import elbert
    report = elbert.benefit_report(supply, demand)  # [episodes, groups] each
    print(report)

Names are imported when first used, so that `import elbert` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from elbert import fairness
    from elbert.errors import ElbertError, InvalidInputError, NotEstimableError
    from elbert.fairness import BenefitReport, benefit_report

_HOMES = {
    "BenefitReport": "elbert.fairness",
    "benefit_report": "elbert.fairness",
    "ElbertError": "elbert.errors",
    "InvalidInputError": "elbert.errors",
    "NotEstimableError": "elbert.errors",
}

__all__ = [
    "BenefitReport",
    "ElbertError",
    "InvalidInputError",
    "NotEstimableError",
    "__version__",
    "benefit_report",
    "fairness",
]


def __getattr__(name: str) -> Any:
    if name == "fairness":
        return import_module("elbert.fairness")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
