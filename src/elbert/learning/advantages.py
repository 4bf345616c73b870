"""How reward is weighed against fairness: a method is one function from estimates to one advantage.

`r_ppo_reward` is the exception: that method changes the reward before anything is estimated. A method of one's own is a
function (estimates, coefficients) -> advantage of the shape of `estimates.reward`, written with `jax.numpy`.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from elbert.errors import InvalidInputError
from elbert.fairness.penalties import Penalty, penalty_slope, squared_bias
from elbert.fairness.rates import Totals
from elbert.learning.estimates import Estimates
from elbert.learning.settings import Settings


class Coefficients(NamedTuple):
    """The numbers that weigh reward against fairness: arrays, so that many can be trained side by side."""

    alpha: Any  # [] weight of the penalty
    beta: Any  # [] temperature of the soft bias
    demand_weight: Any  # [criteria, groups] reward per unit of demand
    zeta: Any  # []
    omega: Any  # []
    beta_1: Any  # []
    beta_2: Any  # []
    max_bias: Any  # [] limit on the bias, where the settings have one


AdvantageFunction: TypeAlias = Callable[[Estimates, Coefficients, Penalty], jax.Array]
RewardFunction: TypeAlias = Callable[[jax.Array, jax.Array, Coefficients], jax.Array]


@dataclass(frozen=True)
class Method:
    """How a method trains: what it makes of the reward and of the estimates."""

    name: str
    advantage: AdvantageFunction
    reward: RewardFunction | None = None  # (reward, bias of the running episode after the step, coefficients)
    needs_running_bias: bool = False
    uses: tuple[str, ...] = ()  # settings that have an effect with this method only


def fair_advantage(
    reward: jax.Array, supply: jax.Array, demand: jax.Array, eta: Totals, slope: jax.Array, *, alpha: Any
) -> jax.Array:
    """A - alpha * sum_g slope_g * (A_S,g / eta_D,g - eta_S,g * A_D,g / eta_D,g**2).   -> [...]

    Args:
        reward: [...] advantage of the reward.
        supply: [..., criteria, groups] advantages of the supplies.
        demand: [..., criteria, groups] advantages of the demands.
        eta: [criteria, groups] each, totals per episode. A group without demand has no rate and no part in the sum.
        slope: [criteria, groups] dh/dz_g at the rates eta_S / eta_D.
        alpha: weight of the penalty h.
    """
    known = eta.demand > 0
    due = jnp.where(known, eta.demand, 1.0)
    for_supply = jnp.where(known, slope / due, 0.0)
    for_demand = jnp.where(known, slope * eta.supply / due**2, 0.0)
    axes = (-2, -1)
    change = jnp.tensordot(supply, for_supply, (axes, (0, 1))) - jnp.tensordot(demand, for_demand, (axes, (0, 1)))
    return reward - alpha * change


def known_rates(eta: Totals) -> jax.Array:
    """z = eta_S / eta_D; a group without demand takes the mean of the others, so that it moves no bias. [C, M]"""
    known = eta.demand > 0
    rates = jnp.where(known, eta.supply / jnp.where(known, eta.demand, 1.0), 0.0)
    mean = jnp.sum(rates, axis=-1, keepdims=True) / jnp.maximum(jnp.sum(known, axis=-1, keepdims=True), 1)
    return jnp.where(known, rates, mean)


def elbert_po(estimates: Estimates, coefficients: Coefficients, penalty: Penalty) -> jax.Array:
    """A - alpha * sum_g dh/dz_g (A_S,g / eta_D,g - eta_S,g / eta_D,g**2 A_D,g) + sum_g w_g A_D,g.   -> [...]

    The gradient of J = eta_R - alpha h(z) + sum_g w_g eta_D,g, with h a penalty of the rates z = eta_S / eta_D and
    w the demand regularisation (Xu et al. 2024, proposition 3.2 and appendix E).
    """
    slope: Any = penalty_slope(known_rates(estimates.eta), penalty)
    fair = fair_advantage(*estimates[:4], slope, alpha=coefficients.alpha)
    return fair + jnp.tensordot(estimates.demand, coefficients.demand_weight, ((-2, -1), (0, 1)))


def g_ppo(estimates: Estimates, coefficients: Coefficients, penalty: Penalty) -> jax.Array:
    """A: the reward alone.   -> [...]

    Computed as ELBERT-PO without weight, so that the two compile alike and are the same to the bit.
    """
    nothing = coefficients._replace(alpha=0 * coefficients.alpha, demand_weight=0 * coefficients.demand_weight)
    return elbert_po(estimates, nothing, penalty)


def r_ppo_reward(reward: jax.Array, bias_after: jax.Array, coefficients: Coefficients, *, form: str) -> jax.Array:
    """r - zeta * Delta where Delta >= omega ("threshold"), or r + zeta * min(0, omega - Delta) ("excess").   [...]

    Delta is the bias of the running episode after the step. "as-printed" is the formula of the paper's appendix,
    r + zeta * Delta, which rewards bias.
    """
    excess = coefficients.omega - bias_after
    terms = {
        "threshold": jnp.where(excess <= 0, -bias_after, 0.0),
        "excess": jnp.minimum(0.0, excess),
        "as-printed": bias_after,
    }
    return reward + coefficients.zeta * terms[form]


def a_ppo(estimates: Estimates, coefficients: Coefficients, penalty: Penalty, *, scaling: str) -> jax.Array:
    """A + beta_1 min(0, omega - Delta_t) + beta_2 min(0, Delta_t - Delta_t+1) where Delta_t > omega.   -> [...]

    Delta_t is the bias of the running episode before the step (Yu et al. 2022). With the scaling "min-max" each of the
    three terms is first brought to [0, 1], as published.
    """
    del penalty
    before, after = estimates.bias_before, estimates.bias_after
    level = jnp.minimum(0.0, coefficients.omega - before)
    growth = jnp.where(before > coefficients.omega, jnp.minimum(0.0, before - after), 0.0)
    scaled = partial(_min_max, counted=estimates.counted) if scaling == "min-max" else lambda term: term
    return scaled(estimates.reward) + coefficients.beta_1 * scaled(level) + coefficients.beta_2 * scaled(growth)


def _min_max(term: jax.Array, counted: jax.Array) -> jax.Array:
    low = jnp.min(jnp.where(counted > 0, term, jnp.inf))
    high = jnp.max(jnp.where(counted > 0, term, -jnp.inf))
    return jnp.where(high > low, (term - low) / jnp.where(high > low, high - low, 1.0), 0.0)


METHODS = ("elbert-po", "g-ppo", "r-ppo", "a-ppo")


def get_method(method: "str | Method | Callable[..., Any]", settings: Settings) -> Method:
    """The method of this name, with the form that the settings choose; or one's own function as a method."""
    if isinstance(method, Method):
        return method
    if callable(method):
        own: Callable[..., Any] = method
        name = getattr(method, "__name__", "own")
        return Method(
            name, lambda estimates, coefficients, penalty: own(estimates, coefficients), needs_running_bias=True
        )
    named = {
        "elbert-po": Method(
            "elbert-po", elbert_po, uses=("alpha", "max_bias", "bias_kind", "beta", "demand_weight", "eta_discount")
        ),
        "g-ppo": Method("g-ppo", g_ppo),
        "r-ppo": Method(
            "r-ppo",
            g_ppo,
            partial(r_ppo_reward, form=settings.penalty_form),
            needs_running_bias=True,
            uses=("zeta", "omega", "penalty_form", "extra_demand"),
        ),
        "a-ppo": Method(
            "a-ppo",
            partial(a_ppo, scaling=settings.term_scaling),
            needs_running_bias=True,
            uses=("omega", "beta_1", "beta_2", "term_scaling", "extra_demand"),
        ),
    }
    if method not in named:
        near = difflib.get_close_matches(str(method).lower(), named, n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InvalidInputError(f"No method is called {method!r}.{hint} Known: {', '.join(named)}.")
    return named[method]


def penalty_of(settings: Settings, beta: Any) -> Penalty:
    """The squared bias of the kind that the settings name, at this temperature."""
    kind: Any = settings.bias_kind
    return partial(squared_bias, beta=beta, kind=kind)
