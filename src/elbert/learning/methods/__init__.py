"""The methods by name. A method is one file: its settings, its state, its reward, its advantage (see `base`)."""

from collections.abc import Callable
from typing import Any, TypeAlias

from elbert.errors import InvalidInputError, unknown_name
from elbert.learning.methods.a_ppo import APPO
from elbert.learning.methods.band import Band as Band
from elbert.learning.methods.base import FunctionMethod as FunctionMethod
from elbert.learning.methods.base import Method
from elbert.learning.methods.bias_limit import BiasLimit as BiasLimit
from elbert.learning.methods.bias_limit import Controller as Controller
from elbert.learning.methods.cpo import CPO as CPO
from elbert.learning.methods.elbert_po import ElbertPO
from elbert.learning.methods.elbert_po import fair_advantage as fair_advantage
from elbert.learning.methods.focops import FOCOPS as FOCOPS
from elbert.learning.methods.g_ppo import GPPO
from elbert.learning.methods.lagrangian import Lagrangian as Lagrangian
from elbert.learning.methods.r_ppo import RPPO
from elbert.learning.methods.return_gap import ReturnGap as ReturnGap

MethodLike: TypeAlias = str | type[Method] | Method | Callable[..., Any]
"""A method's name, its class, the method with its settings, or a function from estimates to an advantage."""

METHODS: dict[str, type[Method]] = {}
"""The registered methods, by name."""


def register(method: type[Method]) -> None:
    """Make a method known by its name, to Python and the command line alike.

    A class that was defined again, as when a notebook's cell is run twice, takes the place of the one before.
    """
    if not method.name:
        raise InvalidInputError(f'{method.__name__} has no name. Give it one: name: ClassVar[str] = "my-method".')
    present = METHODS.get(method.name, method)
    if (present.__module__, present.__qualname__) != (method.__module__, method.__qualname__):
        raise InvalidInputError(f"A method is called {method.name!r} already. Give another name.")
    METHODS[method.name] = method


for _method in (ElbertPO, GPPO, RPPO, APPO, Lagrangian, Band, FOCOPS, CPO, ReturnGap):
    register(_method)


ALIASES = {"ppo": GPPO.name}
"""Other names of methods -> theirs."""


def get_method(name: str) -> type[Method]:
    """The class of the method of this name or alias; an unknown one is refused with the nearest known."""
    known = name if name in METHODS else ALIASES.get(str(name).lower(), name)
    if known not in METHODS:
        raise unknown_name("method", name, METHODS)
    return METHODS[known]
