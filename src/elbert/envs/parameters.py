"""Parameters of a world: read from what a user gives, refused with a reason where they make no sense.

Values are checked in float64 and stored as read-only NumPy arrays of 32 bits, the leaves of a pytree that can be mapped
over. NumPy, because making a JAX array starts JAX's threads, and a process with these threads must not be forked: an
asynchronous vector environment makes a world before it forks. A traced value, as inside
`jax.vmap(lambda tau: Infectious(infection=tau))`, has no value to check yet and passes.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from elbert.checks import as_number
from elbert.envs.graphs import as_network, is_graph
from elbert.errors import InvalidInputError
from elbert.fairness.arrays import ArrayLike, has_values
from elbert.fairness.notions import NOTIONS, Notion

Number: TypeAlias = ArrayLike
"""One number, or what stands for one while JAX traces."""

Numbers: TypeAlias = ArrayLike
"""A row (or table) of numbers."""

SUM_TOLERANCE = 1e-6
LARGEST_FLOAT = float(np.finfo(np.float32).max)


def as_numbers(value: Any, name: str, *, low: float = -np.inf, high: float = np.inf, need: str) -> Any:
    """The value as an array of float64 (as it is, if traced), every entry from low to high. `need`: what to give."""
    if not has_values(*jax.tree.leaves(value)):
        return jnp.asarray(value)
    try:
        raw = np.asarray(value)
    except (TypeError, ValueError):
        raw = np.asarray(None)
    if raw.dtype.kind not in "iuf":
        raise InvalidInputError(f"{name} is {value!r:.60}. Give {need}.")
    array = raw.astype(float)
    wrong = ~((array >= low) & (array <= high) & (np.abs(array) <= LARGEST_FLOAT))
    if wrong.any():
        where = "" if array.ndim == 0 else f" at index {tuple(int(i) for i in np.argwhere(wrong)[0])}"
        raise InvalidInputError(f"{name} is {array[wrong][0]:g}{where}. Give {need}.")
    return array


def as_float(value: Any, name: str, *, low: float = -LARGEST_FLOAT, high: float = LARGEST_FLOAT, need: str) -> Any:
    """One number from low to high. []"""
    return stored(as_number(value, name, need, low=low, high=high), np.float32)


def as_probability(value: Any, name: str) -> Any:
    """One number from 0 to 1. []"""
    return as_float(value, name, low=0, high=1, need="a probability, from 0 to 1")


def as_count(value: Any, name: str, what: str, *, high: int = 2**31 - 1) -> Any:
    """How many: one whole number from 1 to high. []"""
    need = f"a whole number of {what}, from 1 to {high}"
    number = as_number(value, name, need, low=1, high=high)
    if has_values(number) and number != int(number):
        raise InvalidInputError(f"{name} is {value!r}. Give {need}.")
    return stored(number, np.int32)


def as_row(value: Any, name: str, *, length: int | None = None, low: float, high: float = np.inf, need: str) -> Any:
    """Numbers along one axis; a single number stands for all if the length is known. [length]"""
    array = as_numbers(value, name, low=low, high=high, need=need)
    if array.ndim == 0 and length is not None:
        array = (jnp if isinstance(array, jax.Array) else np).broadcast_to(array, (length,))
    if array.ndim != 1 or array.shape[0] == 0 or (length is not None and array.shape[0] != length):
        raise InvalidInputError(f"{name} has shape {array.shape}. Give {need}.")
    return stored(array, np.float32)


def as_distributions(value: Any, name: str, *, ndim: int, need: str) -> Any:
    """Probabilities that sum to 1 along the last axis. [..., outcomes]"""
    array = as_numbers(value, name, low=0, high=1, need=need)
    if array.ndim != ndim or 0 in array.shape:
        raise InvalidInputError(f"{name} has shape {array.shape}. Give {need}.")
    if has_values(array):
        sums = np.asarray(array).sum(axis=-1)
        wrong = np.abs(sums - 1) > SUM_TOLERANCE
        if wrong.any():
            row = "" if ndim == 1 else f" row {int(np.argwhere(wrong)[0][0])}"
            raise InvalidInputError(f"{name}{row} sums to {float(sums[wrong][0]):.6g}, not to 1. Give {need}.")
    return stored(array, np.float32)


def plain_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A world's parameters as JSON can hold them, so that `make_world(name, **plain)` makes the same world.

    Arrays become lists, and a notion its name. A networkx graph becomes pairs of people, and its groups a list. What a
    file cannot hold is refused.
    """
    graph, groups = parameters.get("graph"), parameters.get("groups")
    if is_graph(graph) or (groups is not None and isinstance(groups, Mapping | str)):
        network = as_network(graph, groups)
        parameters = {**parameters, "graph": network.edges.tolist(), "groups": network.group.tolist()}
    return {name: _plain(value, name) for name, value in parameters.items()}


def _plain(value: Any, name: str) -> Any:
    if isinstance(value, Notion):
        if NOTIONS.get(value.name) != value:
            known = "is another one" if value.name in NOTIONS else "is not known"
            raise InvalidInputError(
                f"{name} is a notion of your own, {value.name!r}, and files store notions by name; the notion of that "
                f"name {known}. Register it under a name of its own: elbert.register(notion)."
            )
        return value.name
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return np.asarray(value).tolist()
    if isinstance(value, list | tuple):
        return [_plain(entry, name) for entry in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(entry, name) for key, entry in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InvalidInputError(
        f"{name} is {value!r:.60}, which a file cannot hold. Give numbers, text, or lists of them; or train in the "
        "world itself, elbert.train(world), instead of its name."
    )


def stored(array: Any, dtype: Any) -> Any:
    """A copy that nobody can write to; what JAX traces stays its own."""
    if not has_values(array):
        return jnp.asarray(array, dtype)
    own = np.array(array, dtype)
    own.setflags(write=False)
    return own
