"""`elbert`: long-term fairness in sequential decisions.

Decisions change the people they are made about, so fairness is judged over time: a group's long-term benefit rate is
the total benefit it was given over the total benefit it was due, added up before dividing.

    print(elbert.benefit_report(supply, demand))  # [episodes, groups] each
    print(elbert.check_env(my_own_env))           # does it report supply and demand?
    agent = elbert.train("lending", method="elbert-po", seed=0)
    print(agent.evaluate(episodes=100))
    print(elbert.evaluate(model, env="lending"))  # a policy from elsewhere: anything with predict, or a function
    print(elbert.compare({"ours": agent, "theirs": model, "a rule": "lending/thresholds-2-1"}))

Names are imported when first used, so that `import elbert` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elbert.gym_ids import register_now_or_later

__version__ = "0.2.0"

if TYPE_CHECKING:
    from elbert import auditing, callbacks, envs, exact, fairness, learning
    from elbert.auditing.audit import audit
    from elbert.auditing.law import law_table
    from elbert.auditing.monitor import monitor
    from elbert.auditing.question import Question
    from elbert.auditing.results import Audit
    from elbert.envs import (
        NotionVectorWrapper,
        NotionWrapper,
        SupplyDemandVectorWrapper,
        SupplyDemandWrapper,
        check_env,
        make_world,
    )
    from elbert.errors import ElbertError, InvalidInputError, NotEstimableError
    from elbert.exact.frontier import frontier
    from elbert.experiments.compare import compare
    from elbert.experiments.evaluate import evaluate
    from elbert.experiments.run_folder import runs
    from elbert.experiments.sweep import Sweep, sweep
    from elbert.experiments.tradeoff import Tradeoff, tradeoff
    from elbert.experiments.train import load, train, train_many
    from elbert.fairness import BenefitReport, benefit_report
    from elbert.learning import Agent

_ROOMS = ("auditing", "callbacks", "envs", "exact", "fairness", "learning")
_HOMES = (
    *("errors", "fairness", *(f"auditing.{module}" for module in ("results", "question", "audit", "law", "monitor"))),
    *("envs", "learning", "exact.frontier"),
    *(f"experiments.{module}" for module in ("run_folder", "evaluate", "compare", "train", "sweep", "tradeoff")),
)
"""Modules that the other names come from, in the order in which they import each other."""

__all__ = [
    "Agent",
    "Audit",
    "BenefitReport",
    "ElbertError",
    "InvalidInputError",
    "NotEstimableError",
    "NotionVectorWrapper",
    "NotionWrapper",
    "Question",
    "SupplyDemandVectorWrapper",
    "SupplyDemandWrapper",
    "Sweep",
    "Tradeoff",
    "__version__",
    "audit",
    "auditing",
    "benefit_report",
    "callbacks",
    "check_env",
    "compare",
    "envs",
    "evaluate",
    "exact",
    "fairness",
    "frontier",
    "law_table",
    "learning",
    "load",
    "make_world",
    "monitor",
    "register",
    "runs",
    "sweep",
    "tradeoff",
    "train",
    "train_many",
]


def register(thing: Any) -> Any:
    """Make a world (an `elbert.envs.Entry`), a notion or a method of training known by its name, and return it."""
    envs, notions = import_module("elbert.envs"), import_module("elbert.fairness.notions")
    if isinstance(thing, envs.Entry):
        return envs.register(thing)
    if isinstance(thing, notions.Notion):
        return notions.register_notion(thing)
    return import_module("elbert.learning.methods").register(thing)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"elbert.{name}")
    for home in _HOMES if name in __all__ else ():
        if hasattr(module := import_module(f"elbert.{home}"), name):
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


register_now_or_later()
