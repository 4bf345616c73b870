"""What every program of this room says about rates, written once: S / D, and rho D <= S <= (rho + max_bias) D."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def ratio(supply: Array, demand: Array, *, otherwise: Any) -> Array:
    """S / D where there is demand, and `otherwise` where there is none."""
    due = demand > 0
    return np.where(due, supply / np.where(due, demand, 1.0), otherwise)


def band_rows(supply: Array, demand: Array, rho: Any, max_bias: float) -> tuple[Array, Array]:
    """rho D - S and S - (rho + max_bias) D: neither may be positive. Shapes broadcast."""
    return rho * demand - supply, supply - (rho + max_bias) * demand
