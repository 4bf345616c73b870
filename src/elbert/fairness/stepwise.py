"""Step-wise notions of the earlier literature, to compare with: divide at every step, then add up.

They treat a decision as the more important the fewer people were decided on at the same step, so the same decision
counts differently at different times (temporal discrimination). `decision_weights` shows it.

    Wen, Bastani, Topcu: Algorithms for Fairness in Sequential Decision Making, AISTATS 2021.
    Chi, Shen, Dai, Zhang, Tian, Zhao: Towards Return Parity in Markov Decision Processes, AISTATS 2022.
    Yin, Raab, Liu, Liu: Long-Term Fairness with Unknown Dynamics, NeurIPS 2023.
"""

from typing import Any, Literal

import numpy as np

from elbert.errors import InvalidInputError, NotEstimableError
from elbert.fairness.arrays import Array, ArrayLike, as_pair, has_values, namespace
from elbert.fairness.rates import ratio


def stepwise_difference(
    supply: ArrayLike, demand: ArrayLike, *, without_demand: Literal["raise", "skip"] = "raise"
) -> Array:
    """max_g sum_t S_g,t / D_g,t - min_g sum_t S_g,t / D_g,t (Wen 2021, Chi 2022).   [steps, groups] -> []

    For two groups it is |sum_t (S_0,t / D_0,t - S_1,t / D_1,t)|: step-wise differences of opposite sign cancel.

    Args:
        supply: benefit given at each step, [..., steps, groups].
        demand: benefit due at each step, same shape.
        without_demand: a step at which some group has no demand has no step-wise rate. "raise" refuses it by name,
            "skip" leaves the whole step out, and what is left must be something. Inside `jax.jit`, where nothing can
            be raised, the result is NaN in both cases.
    """
    rates, counted = _stepwise_rates(supply, demand, without_demand)
    xp = namespace(rates)
    summed = xp.sum(xp.where(counted, rates, 0.0), axis=-2)
    return xp.where(_any_step(counted), xp.max(summed, axis=-1) - xp.min(summed, axis=-1), xp.nan)


def stepwise_squared_difference(
    supply: ArrayLike, demand: ArrayLike, *, without_demand: Literal["raise", "skip"] = "raise"
) -> Array:
    """sum_t (max_g S_g,t / D_g,t - min_g S_g,t / D_g,t)**2 (Yin 2023).   [steps, groups] -> []

    Arguments as in `stepwise_difference`.
    """
    rates, counted = _stepwise_rates(supply, demand, without_demand)
    xp = namespace(rates)
    difference = xp.max(rates, axis=-1) - xp.min(rates, axis=-1)
    return xp.where(_any_step(counted), xp.sum(xp.where(counted[..., 0], difference, 0.0) ** 2, axis=-1), xp.nan)


def decision_weights(demand: ArrayLike, *, aggregation: Literal["step-wise", "long-term"]) -> Array:
    """How much one unit of supply adds to its group's figure, at every step.   [steps, groups] -> [steps, groups]

    Step-wise, sum_t S_g,t / D_g,t: a decision at step t weighs 1 / D_g,t, more when fewer people ask.
    Long-term, sum_t S_g,t / sum_t D_g,t: it weighs 1 / sum_t D_g,t at every step.
    A step without demand has no decision to weigh and is NaN, which the step-wise reading cannot avoid.
    """
    demands, _ = as_pair(demand, demand)
    _check_steps(demands)
    xp = namespace(demands)
    if aggregation == "step-wise":
        divisor = demands
    elif aggregation == "long-term":
        divisor = xp.sum(demands, axis=-2, keepdims=True)
    else:
        raise InvalidInputError(f'aggregation is {aggregation!r}. Give "step-wise" or "long-term".')
    return xp.where(demands > 0, ratio(1.0, divisor, otherwise=np.nan), np.nan)


def _stepwise_rates(supply: Any, demand: Any, without_demand: str) -> tuple[Any, Any]:
    """S_g,t / D_g,t and which steps count, both [..., steps, groups]."""
    if without_demand not in ("raise", "skip"):
        raise InvalidInputError(f'without_demand is {without_demand!r}. Give "raise" or "skip".')
    supply, demand = as_pair(supply, demand)
    _check_steps(supply)
    xp = namespace(supply, demand)
    rates, mask = ratio(supply, demand, otherwise=np.nan), demand > 0
    whole = xp.broadcast_to(xp.all(mask, axis=-1, keepdims=True), mask.shape)
    if without_demand == "skip":
        if has_values(whole) and not bool(xp.all(_any_step(whole))):
            raise NotEstimableError("At no step do all groups have demand, so no step-wise rate can be compared.")
        return xp.where(whole, rates, 0.0), whole
    if has_values(mask) and not bool(xp.all(mask)):
        first = tuple(int(i) for i in np.argwhere(~np.asarray(mask))[0])
        raise NotEstimableError(
            f"Group {first[-1]} has no demand at step {first[-2]}, so a step-wise rate does not exist there. "
            'Pass without_demand="skip" to leave these steps out, or use the long-term benefit rate, which needs '
            "demand only in total."
        )
    return rates, xp.ones_like(mask)


def _any_step(counted: Any) -> Any:
    """Whether there is a step to speak of: [..., steps, groups] -> [...]"""
    return namespace(counted).any(counted[..., 0], axis=-1)


def _check_steps(values: Any) -> None:
    if values.ndim < 2 or values.shape[-2] == 0:
        raise InvalidInputError(f"The arrays have shape {values.shape}. Give [..., steps, groups], at least one step.")
