"""Lending: a bank decides on one applicant at a time, and every loan moves the scores of the applicant's group.

A step, with applicant (g, c) who would repay or not (y, drawn on arrival):
    reward      +loan * interest if accepted and y, -loan if accepted and not y, 0 if rejected
    dynamics    if accepted: min(shift, mass[g, c]) of group g moves from score c to c + 1 if y, to c - 1 if not
    supply      what the notion counts as given; equal opportunity: 1[accepted and y] for group g
    demand      what the notion counts as due; equal opportunity: 1[y] for group g
    next        g ~ group_shares, c ~ mass[g], y ~ Bernoulli(repayment[c])
"""

from typing import Annotated, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from elbert.envs.applicants import Applicants, ApplicantState, Population, one_hot
from elbert.envs.parameters import Number, Numbers, as_distributions, as_float, as_row
from elbert.errors import InvalidInputError
from elbert.fairness.arrays import has_values
from elbert.fairness.notions import Notion

LARGEST_CASH = 2**24
LendingState: TypeAlias = ApplicantState


class Lending(Applicants):
    """The lending world. Action 1 accepts the applicant, 0 rejects."""

    group_shares: jax.Array  # [groups]
    initial_scores: jax.Array  # [groups, scores]
    repayment: jax.Array  # [scores]
    shift: jax.Array  # []
    loan: jax.Array  # []
    interest: jax.Array  # []
    initial_cash: jax.Array  # []

    def __init__(
        self,
        *,
        group_shares: Annotated[Numbers, "probability that an applicant is of each group"] = (0.5, 0.5),
        initial_scores: Annotated[Numbers, "score distribution of each group at reset, one row per group"] = (
            (0.0, 0.1, 0.1, 0.2, 0.3, 0.3, 0.0),
            (0.1, 0.1, 0.2, 0.3, 0.3, 0.0, 0.0),
        ),
        repayment: Annotated[Numbers, "probability to repay, by score"] = (0.1, 0.2, 0.45, 0.6, 0.65, 0.7, 0.7),
        shift: Annotated[Number, "share of a group that changes its score after a loan"] = 0.01,
        loan: Annotated[Number, "what the bank lends"] = 1.0,
        interest: Annotated[Number, "what it earns on a repaid loan, per unit lent"] = 1.0,
        initial_cash: Annotated[Number, "the bank's cash at reset; below one loan the episode terminates"] = 10_000.0,
        horizon: Annotated[Number, "applicants per episode (the paper evaluates over 10 000)"] = 2048,
        notion: Annotated[str | Notion, "what counts as a benefit given and due"] = "equal-opportunity",
        counted: Annotated[
            str | Notion | None, "notion that results are counted by, if it is not the one whose rates are observed"
        ] = None,
        observe_rates: Annotated[
            bool, "observe the groups' running benefit rates (needs labels of the rejected)"
        ] = True,
        labels: Annotated[
            str, "whose outcomes show in the observed rates: all, or selective (only those of the accepted)"
        ] = "all",
    ) -> None:
        """The published world by default; `elbert envs lending` explains every parameter."""
        need = "one row of probabilities from 0 to 1 per group, each summing to 1"
        self.initial_scores = as_distributions(initial_scores, "initial_scores", ndim=2, need=need)
        groups, scores = self.initial_scores.shape[-2:]
        need = "one probability from 0 to 1 per group, summing to 1"
        self.group_shares = as_distributions(group_shares, "group_shares", ndim=1, need=need)
        if self.group_shares.shape[0] != groups:
            raise InvalidInputError(
                f"group_shares is for {self.group_shares.shape[0]} groups, initial_scores for {groups}. "
                "Give both for the same groups."
            )
        need = f"one probability from 0 to 1 per score, {scores} here as in initial_scores"
        self.repayment = as_row(repayment, "repayment", length=scores, low=0, high=1, need=need)
        self.shift = as_float(shift, "shift", low=0, high=1, need="a share, from 0 to 1")
        self.loan = as_float(loan, "loan", low=0, need="an amount, more than 0")
        self.interest = as_float(interest, "interest", low=0, need="an amount per unit lent, 0 or more")
        self.initial_cash = as_float(initial_cash, "initial_cash", low=0, need="an amount of at least one loan")
        given = has_values(self.loan, self.initial_cash)
        if given and not 1 <= self.initial_cash / max(self.loan, 1e-9) <= LARGEST_CASH:
            raise InvalidInputError(
                f"initial_cash is {float(self.initial_cash):g} and a loan {float(self.loan):g}. Give cash for 1 to "
                f"{LARGEST_CASH} loans, within which float32 counts them one by one."
            )
        super().__init__(horizon=horizon, notion=notion, counted=counted, labels=labels, observe_rates=observe_rates)

    @property
    def groups(self) -> int:
        """Rows of `initial_scores`."""
        return self.initial_scores.shape[-2]

    @property
    def scores(self) -> int:
        """Columns of `initial_scores`."""
        return self.initial_scores.shape[-1]

    def population(self) -> Population:
        """A loan moves `shift` of a group by one score.

        So it is in the simulated world if min(shift, mass) is always the shift or 0, and if the bank's cash lasts for
        the horizon.
        """
        shift, mass = float(self.shift), np.asarray(self.initial_scores, float)
        whole = shift == 0 or np.allclose(mass / shift, np.round(mass / shift), atol=1e-4)
        scores = np.arange(self.scores)
        ends = (np.clip(scores + step, 0, self.scores - 1) for step in (-1, 1))
        return Population(
            points=scores,
            gain=float(self.loan) * float(self.interest),
            loss=float(self.loan),
            start=mass,
            repayment=np.broadcast_to(self.repayment, mass.shape),
            moved=np.stack([np.eye(self.scores)[end] for end in ends]),
            shift=np.full(self.groups, shift),
            exact=bool(whole) and float(self.initial_cash) >= float(self.loan) * int(self.horizon),
        )

    def _start(self, uniform: jax.Array) -> jax.Array:
        del uniform  # every episode starts alike
        return jnp.asarray(self.initial_scores)

    def _cash(self) -> jax.Array:
        return jnp.asarray(self.initial_cash)

    def _is_ruined(self, cash: jax.Array) -> jax.Array:
        return cash < self.loan

    def _applicant(self, state: ApplicantState) -> jax.Array:
        """One-hot score and one-hot group."""
        return jnp.concatenate([one_hot(state.score, self.scores), one_hot(state.group, self.groups)])

    @property
    def _features(self) -> int:
        return self.scores + self.groups

    def _target(self, uniform: jax.Array, state: ApplicantState) -> tuple[jax.Array, jax.Array]:
        """Part of the group moves one up or down, or stays at the ends."""
        del uniform  # the outcome alone decides
        target = jnp.clip(state.score + jnp.where(state.repays, 1, -1), 0, self.scores - 1)
        return target, jnp.minimum(self.shift, state.mass[state.group, state.score])

    def _earned(self, repays: jax.Array) -> jax.Array:
        return self.loan * jnp.where(repays, self.interest, -1.0)

    def _chance(self, group: jax.Array, score: jax.Array) -> jax.Array:
        del group  # a score means the same for all
        return jnp.sum(self.repayment * one_hot(score, self.scores))
