"""What every program of this room says about rates: rho D <= S <= (rho + max_bias) D."""

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SILENT = 1e-9
"""The part of its largest demand below which a group's least demand counts as none, as rounding leaves it."""


def as_written(values: Any) -> Array:
    """float64 from float32 as people wrote them: 0.1 rather than 0.10000000149."""
    return np.round(np.asarray(values, float), 7)


def band_rows(supply: Array, demand: Array, rho: Any, max_bias: float) -> tuple[Array, Array]:
    """rho D - S and S - (rho + max_bias) D: neither may be positive. Shapes broadcast."""
    return rho * demand - supply, supply - (rho + max_bias) * demand


def highest_lowest_rates(rates: Array, most_demand: Callable[[Array], Array]) -> Array:
    """What the lowest rate can be at most, among groups with demand.   [criteria, groups] -> [criteria]

    A group to which every policy gives demand has a rate under every policy, and the lowest is not above it. Others can
    be without a rate, and then the lowest rate is that of any group. `rates` are the highest that a policy can give
    each group, `most_demand` is that of a `Program`.
    """
    each = np.eye(rates.size).reshape(-1, *rates.shape)
    most, least = most_demand(each), -most_demand(-each)
    always = (least > SILENT * most).reshape(rates.shape)
    bounded = np.min(rates, axis=1, initial=np.inf, where=always)
    return np.where(always.any(axis=1), bounded, rates.max(axis=1))
