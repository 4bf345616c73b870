"""Checks of single values that users give: a number, a whole number, a seed. Each refusal says what makes sense."""

import math
import numbers
import sys
from typing import Any

import numpy as np

from elbert.errors import InvalidInputError

LARGEST_SEED = 2**31 - 1


def as_number(value: Any, name: str, need: str, *, low: float = -math.inf, high: float = math.inf) -> Any:
    """A single number from low to high; a JAX tracer passes as it is. A refusal says "`name` is ... Give `need`."."""
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(value, jax.core.Tracer):
        return value
    real = isinstance(value, numbers.Real | np.ndarray) or (jax is not None and isinstance(value, jax.Array))
    single = real and not isinstance(value, bool) and np.asarray(value).ndim == 0
    if not single or not low <= float(value) <= high:
        raise InvalidInputError(f"{name} is {value!r}. Give {need}.")
    return value


def as_whole(value: Any, name: str, need: str, *, low: int, high: int | None = None) -> int:
    """A whole number from low to high; arguments as `as_number`."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        whole = int(value)
        if whole >= low and (high is None or whole <= high):
            return whole
    raise InvalidInputError(f"{name} is {value!r}. Give {need}.")


def as_seed(value: Any, name: str = "seed") -> int:
    """A seed of random numbers."""
    return as_whole(value, name, "a whole number from 0 to 2**31 - 1", low=0, high=LARGEST_SEED)
