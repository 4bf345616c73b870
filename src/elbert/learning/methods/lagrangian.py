"""The textbook's answer to a limit: PPO on the Lagrangian, its multiplier by dual ascent (Ray et al. 2019)."""

from typing import ClassVar

import jax

from elbert.fairness.rates import Totals
from elbert.learning.estimates import Estimates
from elbert.learning.methods.duals import DualAscent, DualRate, hard_bias
from elbert.learning.methods.limited import Limited
from elbert.learning.methods.weighing import bias_advantage


class Lagrangian(DualAscent, Limited):
    """max over policies, min over nu >= 0, of eta_R - sum_c nu_c (b_c - max_bias).

    b_c is the hard bias of the latest episodes as they are; nothing is smoothed, foreseen or taken off.
    """

    name: ClassVar[str] = "lagrangian"

    dual_rate: DualRate = 0.03

    def excess(self, eta: Totals) -> jax.Array:
        """b - max_bias.   -> [criteria]"""
        return hard_bias(eta)[0] - self.max_bias

    def cost(self, estimates: Estimates) -> jax.Array:
        """The advantage of the linearised bias.   -> [..., criteria]"""
        return bias_advantage(estimates, hard_bias(estimates.eta)[1])
