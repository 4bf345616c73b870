"""Arrays of either kind: one definition serves NumPy and JAX, plain, jitted and vmapped.

NumPy arrays are computed in float64, whatever they hold; JAX arrays keep their precision (float32 unless the user says
otherwise, whose sums are exact for counts up to 2**24 only).

Values can be inspected only where they are known. Inside `jax.jit` or `jax.vmap` an array has a shape but no values
yet, so there only shapes are checked and what cannot be said becomes NaN, as each function documents.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np

from elbert.errors import InvalidInputError

if TYPE_CHECKING:
    import jax

Array: TypeAlias = Union[np.ndarray[Any, Any], "jax.Array"]
ArrayLike: TypeAlias = Array | list[Any] | tuple[Any, ...] | float

SUPPLY_TOLERANCE = 1e-6
"""Relative room for rounding when supply is compared with demand."""

FEW = 64
"""Numbers that Python adds up sooner than NumPy begins to."""


def namespace(*arrays: Any) -> ModuleType:
    """`jax.numpy` if any of the arrays is JAX's, else `numpy`. Imports JAX only if the caller already has."""
    jax = sys.modules.get("jax")
    if jax is not None and any(isinstance(array, jax.Array) for array in arrays):
        return jax.numpy
    return np


def has_values(*arrays: Any) -> bool:
    """Whether the arrays can be looked into, which a traced JAX array cannot."""
    jax = sys.modules.get("jax")
    return jax is None or not any(isinstance(array, jax.core.Tracer) for array in arrays)


def as_array(values: Any, name: str) -> Any:
    """The values as a floating-point array of their own kind; refuses what holds no numbers."""
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidInputError(f"{name} is a masked array, whose mask would be lost. Fill or drop the masked entries.")
    xp = namespace(values, *values) if isinstance(values, list | tuple) else namespace(values)
    try:
        array = xp.asarray(values)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"{name} is not an array of numbers ({error}). Give numbers of one rectangular shape."
        ) from error
    if array.dtype.kind not in "biuf" and not xp.issubdtype(array.dtype, xp.floating):
        raise InvalidInputError(f"{name} has dtype {array.dtype}. Give real numbers.")
    if xp is np:
        return array.astype(float)
    return array * 1.0 if array.dtype.kind in "biu" else array


def as_pair(supply: Any, demand: Any, *, bounded: bool = False) -> tuple[Any, Any]:
    """Supply and demand as two arrays of one kind and shape [..., groups], checked.

    With `bounded`, supply may not exceed demand, as for a share of the people who were due.
    """
    if not bounded and (pair := _plain_pair(supply, demand)) is not None:
        return pair
    supply, demand = as_array(supply, "supply"), as_array(demand, "demand")
    xp = namespace(supply, demand)
    supply, demand = xp.asarray(supply), xp.asarray(demand)
    if supply.shape != demand.shape:
        raise InvalidInputError(
            f"supply has shape {supply.shape} but demand has shape {demand.shape}. "
            "Give both the same shape, with the groups along the last axis."
        )
    if supply.ndim == 0:
        raise InvalidInputError("supply and demand are single numbers. Give one number per group along the last axis.")
    if supply.shape[-1] == 0:
        raise InvalidInputError("supply and demand have no group. Give at least one column, one per group.")
    if has_values(supply, demand):
        check_amounts(np.asarray(supply), np.asarray(demand), bounded=bounded)
    return supply, demand


def _plain_pair(supply: Any, demand: Any) -> tuple[Any, Any] | None:
    """`as_pair` of what needs no message, at a fraction of its time; None where something else must look closer."""
    if not type(supply) is type(demand) is np.ndarray or supply.shape != demand.shape or not supply.ndim:
        return None
    if not supply.size or supply.dtype.kind not in "biuf" or demand.dtype.kind not in "biuf":
        return None
    both = np.array((supply, demand), float)
    numbers = both.ravel().tolist() if both.size <= FEW else (both.min(), both.max())
    if min(numbers) >= 0 and sum(numbers) < np.inf:  # false for NaN: it is in the sum
        return both[0], both[1]
    return None


def check_amounts(supply: np.ndarray[Any, Any], demand: np.ndarray[Any, Any], *, bounded: bool) -> None:
    """Refuse supply and demand that are not finite, negative, or (if bounded) more supply than demand."""
    mend = "Remove or mend the missing entries before counting."
    _refuse("supply", supply, ~np.isfinite(supply), "is not finite", mend)
    _refuse("demand", demand, ~np.isfinite(demand), "is not finite", mend)
    _refuse("demand", demand, demand < 0, "is negative", "Demand is an amount due: zero or more.")
    harm = "Supply is a benefit given: zero or more. Count a harm under a separate criterion."
    _refuse("supply", supply, supply < 0, "is negative", harm)
    if bounded:
        order = "Under this notion nobody receives more than is due; is the order of the arguments supply, demand?"
        _refuse("supply", supply, supply > demand * (1 + SUPPLY_TOLERANCE), "exceeds demand", order)


def _refuse(name: str, values: np.ndarray[Any, Any], wrong: np.ndarray[Any, Any], what: str, what_to_do: str) -> None:
    """Raise if any entry is wrong, naming the first one and how many there are."""
    if wrong.any():
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise InvalidInputError(
            f"{name} {what} in {int(wrong.sum())} of {wrong.size} entries, "
            f"first at index {first} (value {values[first]:g}). {what_to_do}"
        )
