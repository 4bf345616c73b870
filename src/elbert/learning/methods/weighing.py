"""What methods share: the linearised rates, deviations over the samples that count, and settings that several have."""

from typing import Annotated, Any, TypeAlias

import jax
import jax.numpy as jnp

from elbert.fairness.rates import Totals, ratio
from elbert.learning.estimates import Estimates
from elbert.learning.settings import Setting

DemandWeight: TypeAlias = Annotated[
    tuple[float, ...],
    Setting("reward for each unit of demand, one number per group (demand regularisation); empty for none"),
]
RunningBiasDemand: TypeAlias = Annotated[
    float, Setting("demand added to every group's in the bias of the running episode", low=0)
]


def standardised(x: jax.Array, counted: jax.Array) -> jax.Array:
    """(x - mean) / deviation over the samples that count. [..., signals of any shape], [...] -> as x"""
    mean, deviation = _moments(x, counted)
    return (x - mean) / deviation


def deviation_of(x: jax.Array, counted: jax.Array) -> jax.Array:
    """The deviation over the samples that count. [..., signals of any shape], [...] -> signals"""
    return _moments(x, counted)[1].reshape(x.shape[counted.ndim :])


def _moments(x: jax.Array, counted: jax.Array) -> tuple[jax.Array, jax.Array]:
    axes = tuple(range(counted.ndim))
    weight = (counted / jnp.maximum(jnp.sum(counted), 1.0)).reshape(*counted.shape, *(1,) * (x.ndim - counted.ndim))
    mean = jnp.sum(weight * x, axis=axes, keepdims=True)
    variance = jnp.sum(weight * (x - mean) ** 2, axis=axes, keepdims=True)
    return mean, jnp.sqrt(variance) + 1e-8


def linearised(eta: Totals, slope: jax.Array) -> Totals:
    """slope_g / eta_D,g and slope_g eta_S,g / eta_D,g**2; 0 for a group without demand, which has no rate.

    A unit of supply's advantage weighs the one, a unit of demand's takes off the other: dz_g = dS_g / eta_D,g -
    eta_S,g dD_g / eta_D,g**2.
    """
    has_demand = eta.demand > 0
    demand = jnp.where(has_demand, eta.demand, 1.0)
    return Totals(
        jnp.where(has_demand, slope / demand, 0.0),
        jnp.where(has_demand, slope * eta.supply / demand**2, 0.0),
    )


def bias_advantage(estimates: Estimates, slope: jax.Array) -> jax.Array:
    """A_b,c = sum_g slope_g (A_S,g / eta_D,g - eta_S,g A_D,g / eta_D,g**2).   -> [..., criteria]"""
    weights = linearised(estimates.eta, slope)
    return jnp.einsum("...cg,cg->...c", estimates.supply, weights.supply) - jnp.einsum(
        "...cg,cg->...c", estimates.demand, weights.demand
    )


def filled_rates(supply: Any, demand: Any) -> jax.Array:
    """z = S / D; a group without demand takes the mean of the others, so that it moves no bias. [C, M] each"""
    has_demand = demand > 0
    rates = ratio(supply, demand, otherwise=0.0)
    mean = jnp.sum(rates, axis=-1, keepdims=True) / jnp.maximum(jnp.sum(has_demand, axis=-1, keepdims=True), 1)
    return jnp.where(has_demand, rates, mean)


def demand_advantage(estimates: Estimates, weight: Any) -> jax.Array:
    """sum_g w_g A_D,g: demand regularisation.   [criteria, groups] -> [...]"""
    return jnp.tensordot(estimates.demand, weight, ((-2, -1), (0, 1)))
