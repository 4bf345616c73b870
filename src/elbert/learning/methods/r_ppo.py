"""R-PPO: PPO on a reward from which the bias of the running episode is taken off."""

from typing import Annotated, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from elbert.learning.estimates import Estimates
from elbert.learning.methods.base import Method
from elbert.learning.methods.weighing import RunningBiasDemand
from elbert.learning.settings import Setting


class RPPO(Method):
    """r - zeta Delta, with Delta the bias of the running episode after the step."""

    name: ClassVar[str] = "r-ppo"

    zeta: Annotated[float, Setting("weight of the bias in the reward", low=0)] = 1.0
    omega: Annotated[float, Setting("bias of the running episode that goes unpunished", low=0)] = 0.05
    penalty_form: Annotated[
        str,
        Setting(
            "whether zeta * Delta is taken off from omega on (threshold) or zeta * (Delta - omega) above it (excess); "
            "as-printed is the paper's formula, which adds zeta * Delta",
            choices=("threshold", "excess", "as-printed"),
        ),
    ] = eqx.field(static=True, default="threshold")
    extra_demand: RunningBiasDemand = eqx.field(static=True, default=1.0)

    def reward(self, reward: jax.Array, bias_after: jax.Array) -> jax.Array:
        """r - zeta * Delta where Delta >= omega ("threshold"), or r + zeta * min(0, omega - Delta) ("excess").   [...]

        "as-printed" is the formula of the paper's appendix, r + zeta * Delta, which rewards bias.
        """
        excess = self.omega - bias_after
        terms = {
            "threshold": jnp.where(excess <= 0, -bias_after, 0.0),
            "excess": jnp.minimum(0.0, excess),
            "as-printed": bias_after,
        }
        return reward + self.zeta * terms[self.penalty_form]

    def advantage(self, estimates: Estimates, state: Any) -> jax.Array:
        """The advantage of that reward.   -> [...]"""
        del state
        return estimates.reward
