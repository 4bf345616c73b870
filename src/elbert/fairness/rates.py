"""Totals, long-term benefit rates and what their differences amount to.

Supply and demand have shape [..., groups]: the last axis is always the groups. With several criteria (equalized odds
has two) the axis before it holds them: [..., criteria, groups]. Everything here acts along the last axis and leaves
the others alone. NumPy arrays give NumPy arrays, JAX arrays give JAX arrays; all functions can be jitted, vmapped and
differentiated.

Unknown is not zero. A group without demand has no rate: with known values that is an error unless the caller chooses
otherwise; inside `jax.jit`, where nothing can be raised, the entry is NaN and `where=` leaves it out of a comparison.
"""

from typing import Any, Literal, NamedTuple

import numpy as np

from elbert.checks import as_number, as_whole
from elbert.errors import InvalidInputError, NotEstimableError
from elbert.fairness.arrays import Array, ArrayLike, as_array, as_pair, has_values, namespace

DEFAULT_BETA = 20.0
"""Temperature of the soft bias in the paper's experiments."""


class Totals(NamedTuple):
    """Supply and demand, added up."""

    supply: Array  # [..., groups]
    demand: Array  # [..., groups]


def ratio(supply: Any, demand: Any, *, otherwise: Any) -> Any:
    """S / D where D > 0, and `otherwise` elsewhere.   [...] -> [...]

    This is the one division of this package: nothing is ever divided by a demand of 0, not even in a branch that is
    thrown away, so derivatives stay finite too. Arguments are arrays (NumPy or JAX) or numbers that broadcast.
    """
    xp = namespace(supply, demand)
    mask = demand > 0
    return xp.where(mask, supply / xp.where(mask, demand, 1.0), otherwise)


def totals(supply: ArrayLike, demand: ArrayLike, *, axis: int = 0, discount: float | Array = 1.0) -> Totals:
    """eta_S,g = sum_t discount**t * S_g,t and eta_D,g likewise: add up over time, before anything is divided.

    Args:
        supply: benefit given, [..., steps, ..., groups].
        demand: benefit due, same shape.
        axis: the axis of time. The last axis is the groups and cannot be it.
        discount: weight of a step relative to the one before it; 1 adds up plainly.
    """
    supplies, demands = as_pair(supply, demand)
    dimensions = supplies.ndim
    axis = as_whole(axis, "axis", "the number of the axis of time", low=-dimensions)
    if axis >= dimensions or axis % dimensions == dimensions - 1:
        raise InvalidInputError(
            f"axis is {axis} for arrays of shape {supplies.shape}. Name the axis of time; the last axis is the groups."
        )
    as_number(discount, "discount", "a number above 0 and at most 1", low=np.nextafter(0, 1), high=1.0)
    xp = namespace(supplies, discount)
    steps = supplies.shape[axis]
    shape = [1] * dimensions
    shape[axis] = steps
    weight = xp.reshape(xp.asarray(discount ** xp.arange(steps), dtype=supplies.dtype), tuple(shape))
    return Totals(xp.sum(weight * supplies, axis=axis), xp.sum(weight * demands, axis=axis))


def benefit_rate(supply: ArrayLike, demand: ArrayLike, *, without_demand: Literal["raise", "nan"] = "raise") -> Array:
    """z_g = S_g / D_g from totals.   [..., groups] -> [..., groups]

    Args:
        supply: total benefit given.
        demand: total benefit due.
        without_demand: what a group with no demand gets. "raise" refuses it by name; "nan" marks it. Inside `jax.jit`
            nothing can be raised and the entry is NaN in either case.
    """
    if without_demand not in ("raise", "nan"):
        raise InvalidInputError(f'without_demand is {without_demand!r}. Give "raise" or "nan".')
    supplies, demands = as_pair(supply, demand)
    if without_demand == "raise" and has_values(demands):
        missing = np.argwhere(np.asarray(demands) <= 0)
        if len(missing):
            first = tuple(int(i) for i in missing[0])
            raise NotEstimableError(
                f"Group {first[-1]} has no demand (index {first}; entries without demand: {len(missing)}), so it has "
                "no benefit rate. Add up over more steps or episodes, leave the group out, or pass "
                'without_demand="nan" and compare the others with where=.'
            )
    return ratio(supplies, demands, otherwise=np.nan)


def long_term_benefit_rate(
    supply: ArrayLike,
    demand: ArrayLike,
    *,
    axis: int = 0,
    discount: float | Array = 1.0,
    without_demand: Literal["raise", "nan"] = "raise",
) -> Array:
    """z_g = sum_t S_g,t / sum_t D_g,t: total supply over total demand.   [steps, groups] -> [groups]

    Arguments as in `totals` and `benefit_rate`, of which this is the composition.
    """
    total = totals(supply, demand, axis=axis, discount=discount)
    return benefit_rate(total.supply, total.demand, without_demand=without_demand)


def bias(rates: ArrayLike, *, where: ArrayLike | None = None) -> Array:
    """b = max_g z_g - min_g z_g, the largest difference of rates.   [..., groups] -> [...]

    Args:
        rates: benefit rates.
        where: which groups to compare, of a shape that broadcasts to the rates; all by default.
    """
    z, mask = _rates_and_mask(rates, where)
    return _highest(z, mask) - _lowest(z, mask)


def impact_ratio(rates: ArrayLike, *, where: ArrayLike | None = None) -> Array:
    """min_g z_g / max_g z_g: 1 where all groups fare alike, 0 where one gets nothing.   [..., groups] -> [...]

    Where nobody receives anything the ratio is 0/0: an error, or NaN inside `jax.jit`.
    """
    z, mask = _rates_and_mask(rates, where)
    xp = namespace(z)
    high, low = _highest(z, mask), _lowest(z, mask)
    if has_values(z, mask):
        if bool(xp.any(low < 0)):
            raise InvalidInputError("A rate is negative, and a ratio of rates means nothing then. Compare with bias().")
        if bool(xp.any(high == 0)):
            raise NotEstimableError("All rates are 0: nobody received anything, so there is no ratio to compare.")
    return ratio(low, high, otherwise=np.nan)


def soft_bias(rates: ArrayLike, *, beta: float | Array = DEFAULT_BETA, where: ArrayLike | None = None) -> Array:
    """b_soft = (log sum_g exp(beta z_g) + log sum_g exp(-beta z_g)) / beta.   [..., groups] -> [...]

    A smooth upper bound: b <= b_soft <= b + 2 ln(M) / beta for M groups. It is 2 ln(M) / beta, not 0, where all rates
    are equal; `centred_soft_bias` is 0 there. Safe for any rates and any positive beta that their precision can hold:
    the largest and smallest rates are taken out before exponentiating, so nothing overflows.
    """
    return _softened(rates, beta, where, centred=False)


def centred_soft_bias(rates: ArrayLike, *, beta: float | Array = DEFAULT_BETA, where: ArrayLike | None = None) -> Array:
    """b_soft - 2 ln(M) / beta, which is 0 where all rates are equal.   [..., groups] -> [...]

    A lower bound of the bias: b - 2 ln(M) / beta <= it <= b, with the same slope as `soft_bias`. It is found as a
    difference from b, so its absolute error is that of rounding b.
    """
    return _softened(rates, beta, where, centred=True)


def _rates_and_mask(rates: Any, where: Any) -> tuple[Any, Any]:
    """Rates and the mask of groups to compare, checked as far as their values are known."""
    rates = as_array(rates, "rates")
    if rates.ndim == 0 or rates.shape[-1] == 0:
        raise InvalidInputError(f"rates have shape {rates.shape}. Give one rate per group along the last axis.")
    if where is not None:
        xp = namespace(rates, where)
        rates, where = xp.asarray(rates), xp.asarray(where)
        if where.dtype != bool:
            raise InvalidInputError(f"where has dtype {where.dtype}. Give True for the groups to compare, else False.")
        try:
            where = xp.broadcast_to(where, rates.shape)
        except ValueError as error:
            raise InvalidInputError(f"where has shape {where.shape}, rates have {rates.shape}.") from error
    if has_values(rates, where):
        compared = np.ones(rates.shape, bool) if where is None else np.asarray(where)
        if not compared.any(axis=-1).all():
            raise NotEstimableError("where leaves no group to compare. Keep at least one.")
        unknown = ~np.isfinite(np.asarray(rates)) & compared
        if unknown.any():
            groups = sorted({int(index[-1]) for index in np.argwhere(unknown)})
            raise NotEstimableError(
                f"No finite rate is given for group(s) {groups}. Leave them out with where=, and say so."
            )
    return rates, where


def _highest(rates: Any, where: Any) -> Any:
    xp = namespace(rates)
    if where is None:
        return xp.max(rates, axis=-1)
    return xp.where(xp.any(where, axis=-1), xp.max(rates, axis=-1, initial=-xp.inf, where=where), xp.nan)


def _lowest(rates: Any, where: Any) -> Any:
    return -_highest(-rates, where)


def _softened(rates: Any, beta: Any, where: Any, *, centred: bool) -> Any:
    """b + (log sum_g exp(beta (z_g - max)) + log sum_g exp(beta (min - z_g))) / beta; means for sums if centred.

    The exponents are never positive, so that exp cannot overflow.
    """
    z, mask = _rates_and_mask(rates, where)
    limits = namespace(z).finfo(z.dtype)
    need = "a positive, finite temperature (one; map over several with vmap). bias() is its limit at infinity"
    as_number(beta, "beta", need, low=1e3 * float(limits.tiny), high=float(limits.max))
    xp, high, low = namespace(z, beta), _highest(z, mask), _lowest(z, mask)
    count = z.shape[-1] if mask is None else xp.sum(mask, axis=-1)
    mask = xp.ones(z.shape, bool) if mask is None else mask

    def log_sum(exponents: Any) -> Any:
        terms = xp.expm1(exponents) if centred else xp.exp(exponents)
        total = xp.sum(xp.where(mask, terms, 0.0), axis=-1)
        return xp.log1p(total / count) if centred else xp.log(total)

    with np.errstate(over="ignore"):  # -inf is a right answer here: its exponential is 0
        above = beta * (xp.where(mask, z, high[..., None]) - high[..., None])
        below = beta * (low[..., None] - xp.where(mask, z, low[..., None]))
    return (high - low) + (log_sum(above) + log_sum(below)) / beta
