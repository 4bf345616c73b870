"""What a user registered in this process, for other processes that train: worlds, methods, notions."""

import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import cloudpickle

from elbert import envs
from elbert.fairness import notions
from elbert.learning import methods

PACKAGE = f"{__name__.partition('.')[0]}."
REGISTER: dict[str, Callable[[Any], Any]] = {
    "world": envs.register,
    "method": methods.register,
    "notion": notions.register_notion,
}
_done: set[tuple[str, str]] = set()
"""What was registered here already: a notion that travelled twice would count as another one of the same name."""


class Registered(NamedTuple):
    """A world, a method or a notion, ready to travel."""

    kind: str
    name: str
    content: bytes


def registered_here() -> tuple[Registered, ...]:
    """Everything that the package itself does not bring along."""
    built_in = [id(thing) for thing in vars(notions).values() if isinstance(thing, notions.Notion)]
    things: list[tuple[str, Any]] = [
        *(("world", each) for each in envs.ENTRIES.values() if not each.world.__module__.startswith(PACKAGE)),
        *(("method", each) for each in methods.METHODS.values() if not each.__module__.startswith(PACKAGE)),
        *(("notion", each) for each in notions.NOTIONS.values() if id(each) not in built_in),
    ]
    return tuple(Registered(kind, thing.name, cloudpickle.dumps(thing)) for kind, thing in things)


def register_all(things: tuple[Registered, ...]) -> None:
    """Register in this process what `registered_here` found in the one that started it."""
    for kind, name, content in things:
        if (kind, name) not in _done:
            _done.add((kind, name))
            REGISTER[kind](pickle.loads(content))  # noqa: S301 - from the process that started this one
