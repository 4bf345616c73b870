"""`elbert`: long-term fairness in sequential decisions.

Decisions change the people they are made about, so fairness is judged over time: a group's long-term benefit rate is
the total benefit it was given over the total benefit it was due, added up before dividing.

    import elbert
    report = elbert.benefit_report(supply, demand)  # [episodes, groups] each
    print(report)

    import gymnasium
    env = gymnasium.make("elbert/Lending-v0")       # a world that reports supply and demand
    print(elbert.check_env(my_own_env))             # is this one ready?

Names are imported when first used, so that `import elbert` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elbert.gymnasium_ids import register_when_imported

__version__ = "0.1.0"

if TYPE_CHECKING:
    from elbert import envs, fairness
    from elbert.envs import (
        NotionVectorWrapper,
        NotionWrapper,
        SupplyDemandVectorWrapper,
        SupplyDemandWrapper,
        check_env,
        make_world,
    )
    from elbert.errors import ElbertError, InvalidInputError, NotEstimableError
    from elbert.fairness import BenefitReport, benefit_report

_HOMES = {
    "BenefitReport": "elbert.fairness",
    "benefit_report": "elbert.fairness",
    "ElbertError": "elbert.errors",
    "InvalidInputError": "elbert.errors",
    "NotEstimableError": "elbert.errors",
    "NotionVectorWrapper": "elbert.envs",
    "NotionWrapper": "elbert.envs",
    "SupplyDemandVectorWrapper": "elbert.envs",
    "SupplyDemandWrapper": "elbert.envs",
    "check_env": "elbert.envs",
    "make_world": "elbert.envs",
}
_ROOMS = ("envs", "fairness")

__all__ = [
    "BenefitReport",
    "ElbertError",
    "InvalidInputError",
    "NotEstimableError",
    "NotionVectorWrapper",
    "NotionWrapper",
    "SupplyDemandVectorWrapper",
    "SupplyDemandWrapper",
    "__version__",
    "benefit_report",
    "check_env",
    "envs",
    "fairness",
    "make_world",
]

register_when_imported()


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"elbert.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
