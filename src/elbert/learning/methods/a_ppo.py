"""A-PPO: PPO whose advantage is lowered by the bias of the running episode and its growth (Yu et al. 2022)."""

from functools import partial
from typing import Annotated, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from elbert.learning.estimates import Estimates
from elbert.learning.methods.base import Method
from elbert.learning.methods.weighing import RunningBiasDemand
from elbert.learning.settings import Setting


class APPO(Method):
    """The reward's advantage, plus terms for a bias above omega and for its growth."""

    name: ClassVar[str] = "a-ppo"
    standardises_sum: ClassVar[bool] = True  # the published code scales the terms and then standardises their sum

    omega: Annotated[float, Setting("bias of the running episode that goes unpunished", low=0)] = 0.05
    beta_1: Annotated[float, Setting("weight of the bias above omega", low=0)] = 0.1
    beta_2: Annotated[float, Setting("weight of an increase of the bias", low=0)] = 0.1
    term_scaling: Annotated[
        str, Setting("whether its three terms are scaled to [0, 1] before they are added", choices=("min-max", "none"))
    ] = eqx.field(static=True, default="min-max")
    extra_demand: RunningBiasDemand = eqx.field(static=True, default=1.0)

    def advantage(self, estimates: Estimates, state: Any) -> jax.Array:
        """A + beta_1 min(0, omega - Delta_t) + beta_2 min(0, Delta_t - Delta_t+1) where Delta_t > omega.   -> [...]

        Delta_t is the bias of the running episode before the step. With the scaling "min-max" each of the three terms
        is first brought to [0, 1], as published.
        """
        del state
        before, after = estimates.bias_before, estimates.bias_after
        level = jnp.minimum(0.0, self.omega - before)
        growth = jnp.where(before > self.omega, jnp.minimum(0.0, before - after), 0.0)
        scaled = partial(_min_max, counted=estimates.counted) if self.term_scaling == "min-max" else lambda term: term
        return scaled(estimates.reward) + self.beta_1 * scaled(level) + self.beta_2 * scaled(growth)


def _min_max(term: jax.Array, counted: jax.Array) -> jax.Array:
    """(term - min) / (max - min) over the samples that count; 0 where all are equal."""
    low = jnp.min(jnp.where(counted > 0, term, jnp.inf))
    high = jnp.max(jnp.where(counted > 0, term, -jnp.inf))
    return jnp.where(high > low, (term - low) / jnp.where(high > low, high - low, 1.0), 0.0)
