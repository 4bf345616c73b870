"""ELBERT-PO: PPO with the fairness-aware advantage (Xu et al. 2024)."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from elbert.errors import InvalidInputError
from elbert.fairness.penalties import Penalty, penalty_slope, squared_bias
from elbert.fairness.rates import DEFAULT_BETA, Totals
from elbert.learning.estimates import Estimates
from elbert.learning.methods.base import Method
from elbert.learning.methods.bias_limit import BiasLimit
from elbert.learning.methods.weighing import DemandWeight, demand_advantage, filled_rates, linearised
from elbert.learning.settings import Setting, Settings


class ElbertPO(Method):
    """J = eta_R - alpha h(z) + sum_g w_g eta_D,g, with h a penalty of the rates z = eta_S / eta_D.

    With `max_bias` in place of `alpha`, the weight is found during training: `BiasLimit`.
    """

    name: ClassVar[str] = "elbert-po"
    uses: ClassVar[tuple[str, ...]] = ("eta_discount",)
    variants: ClassVar[tuple[type[Method], ...]] = (BiasLimit,)

    alpha: Annotated[float, Setting("weight of the penalty against the reward of an episode", low=0)] = 0.0
    beta: Annotated[float, Setting("temperature of the soft bias", low=0, open_low=True)] = DEFAULT_BETA
    demand_weight: DemandWeight = ()
    bias_kind: Annotated[
        str,
        Setting(
            "which bias is squared; auto takes hard for 2 groups and soft for more",
            choices=("auto", "hard", "soft", "centred"),
        ),
    ] = eqx.field(static=True, default="auto")
    penalty: Annotated[
        Penalty | None, Setting("function of the rates, written with jax.numpy, in place of the squared bias")
    ] = eqx.field(static=True, default=None)

    @classmethod
    def check_given(cls, given: Mapping[str, Any], preset: Mapping[str, Any]) -> None:
        """A penalty of the user's own replaces the squared bias; and somebody must say what bias weighs."""
        for name in ("bias_kind", "beta"):
            if "penalty" in given and name in given:
                raise InvalidInputError(f"{name} has no effect beside a penalty of your own. Leave one of them out.")
        if "alpha" not in given and "alpha" not in preset:
            raise InvalidInputError(
                "elbert-po needs max_bias here, the largest bias to be allowed; or alpha, the reward of an episode "
                "that one unit of squared bias is worth: 100 times the reward of an episode makes a bias of 0.1 weigh "
                "as much as all reward."
            )

    def check_fit(self, settings: Settings, given: Mapping[str, Any], *, groups: int, horizon: int | None) -> None:
        """Only the soft bias has a temperature."""
        del settings, horizon
        soft = self.bias_kind in ("soft", "centred") or (self.bias_kind == "auto" and groups > 2)
        if not soft and "beta" in given:
            raise InvalidInputError(
                f"beta has no effect on the hard bias, which {groups} groups have unless bias_kind is soft. Leave it "
                "out, or set bias_kind."
            )

    def advantage(self, estimates: Estimates, state: Any) -> jax.Array:
        """A - alpha * sum_g dh/dz_g (A_S,g / eta_D,g - eta_S,g / eta_D,g**2 A_D,g) + sum_g w_g A_D,g.   -> [...]

        With advantages of undiscounted returns (gamma = 1) this is the advantage of the gradient of J
        (Xu et al. 2024, proposition 3.2 and appendix E).
        """
        del state
        kind: Any = self.bias_kind
        penalty = partial(squared_bias, beta=self.beta, kind=kind) if self.penalty is None else self.penalty
        slope: Any = penalty_slope(filled_rates(estimates.eta.supply, estimates.eta.demand), penalty)
        fair = fair_advantage(
            estimates.reward, estimates.supply, estimates.demand, estimates.eta, slope, alpha=self.alpha
        )
        return fair + demand_advantage(estimates, self.demand_weight)


def fair_advantage(
    reward: jax.Array, supply: jax.Array, demand: jax.Array, eta: Totals, slope: jax.Array, *, alpha: Any
) -> jax.Array:
    """A - alpha * sum_g slope_g * (A_S,g / eta_D,g - eta_S,g * A_D,g / eta_D,g**2).   -> [...]

    The advantages are [...] of the reward, [..., criteria, groups] of supplies and demands. The totals eta per episode
    and the slopes dh/dz_g at their rates are [criteria, groups] each. A group without demand has no part in the sum.
    """
    weights, axes = linearised(eta, slope), ((-2, -1), (0, 1))
    return reward - alpha * (jnp.tensordot(supply, weights.supply, axes) - jnp.tensordot(demand, weights.demand, axes))
