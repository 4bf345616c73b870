"""Admission: a college publishes a threshold, and applicants pay to reach it if admission is worth the cost.

A round, for an applicant of group g with true score s who would show the score b (at first b = s):
    threshold   tau_g, published before anybody applies; one for all groups, or one for each
    cost        k = costs_g * (1 - subsidy_g) * max(tau_g - b, 0)
    admitted    if k <= 1, what admission is worth: the applicant raises the shown score to tau_g, or has it already
    eligible    if s >= eligible_from, whatever is shown
    reward      (eligible admitted - cost_ineligible * others admitted) / applicants
    supply      eligible admitted; and the burden, the sum of k over the eligible, admitted or not
    demand      eligible, for both
    next round  a refused applicant applies again with probability `reapply` and b <- min(b + effort / (costs_g * (1 -
                subsidy_g)), 1); all other places go to new applicants, g ~ group_shares, s ~ Normal clipped to [0, 1]
"""

from typing import Annotated, Literal, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from elbert.checks import as_whole
from elbert.envs.parameters import Number, Numbers, as_count, as_distributions, as_float, as_probability, as_row
from elbert.envs.world import Means, TimeStep, World
from elbert.errors import unknown_name
from elbert.fairness.notions import EQUAL_OPPORTUNITY, Criterion, Notion

ADMISSION_AND_BURDEN = Notion(
    "admission-and-burden",
    *EQUAL_OPPORTUNITY.criteria,
    Criterion("social burden", supply=lambda cost, q: cost * q, demand=lambda _, q: q, bounded=False),
    needs_qualified=True,
)
"""P[admitted | eligible, g], and what an eligible applicant has to pay on average. Less burden is better; what is
measured is whether it is equal. `decision` is the admission for the first criterion, and the cost for the second."""

WORTH = 1.0
"""What admission is worth to everyone: costs are in this unit."""
LOWEST_COST = 1e-6


class AdmissionState(NamedTuple):
    """Who applies in the next round, what the last one showed, and the episode's account so far."""

    group: jax.Array  # [applicants]
    score: jax.Array  # [applicants] the true one
    shown: jax.Array  # [applicants] what would be shown without paying
    eligible: jax.Array  # [applicants] bool
    again: jax.Array  # [applicants] bool: was refused in the last round
    thresholds: jax.Array  # [groups] of the last round
    last: jax.Array  # [4, groups] of the last round: applicants, admitted, eligible admitted, refused who apply again
    supply: jax.Array  # [criteria, groups] running totals of this episode
    demand: jax.Array  # [criteria, groups]
    time: jax.Array  # []


class Admission(World, static=("applicants", "thresholds", "labels")):
    """The admission world. The action is the threshold, or one for each group."""

    group_shares: jax.Array  # [groups]
    mean: jax.Array  # [groups]
    deviation: jax.Array  # [groups]
    costs: jax.Array  # [groups]
    subsidy: jax.Array  # [groups]
    eligible_from: jax.Array  # []
    cost_ineligible: jax.Array  # []
    reapply: jax.Array  # []
    effort: jax.Array  # []
    horizon: jax.Array  # []
    applicants: int
    thresholds: Literal["one", "by-group"]
    labels: Literal["all", "selective"]

    def __init__(
        self,
        *,
        applicants: Annotated[int, "applicants per round"] = 20,
        group_shares: Annotated[Numbers, "probability that a new applicant is of each group"] = (0.5, 0.5),
        mean: Annotated[Numbers, "mean true score, for all groups or one per group"] = 0.5,
        deviation: Annotated[Numbers, "deviation of the true scores, for all groups or one per group"] = 0.1,
        costs: Annotated[Numbers, "what a shown score higher by 1 costs, for all groups or one per group"] = (5, 10),
        subsidy: Annotated[Numbers, "part of the cost that is paid for a group (source: 0, 0.2)"] = 0.0,
        eligible_from: Annotated[Number, "true score from which on an applicant is eligible"] = 0.55,
        cost_ineligible: Annotated[Number, "cost of admitting somebody who is not eligible"] = 1.0,
        reapply: Annotated[Number, "probability that a refused applicant applies again (source: 0)"] = 0.5,
        effort: Annotated[Number, "what these have spent on a higher shown score until then"] = 0.5,
        thresholds: Annotated[Literal["one", "by-group"], "one threshold for all groups, or one for each"] = "one",
        labels: Annotated[
            Literal["all", "selective"], "all: running rates are observed; selective: nothing about the refused"
        ] = "all",
        horizon: Annotated[Number, "rounds per episode"] = 100,
    ) -> None:
        """The source's figures by default, where it has any; `elbert envs admission` explains every parameter."""
        need = "one probability from 0 to 1 per group, summing to 1"
        self.group_shares = as_distributions(group_shares, "group_shares", ndim=1, need=need)
        groups = self.group_shares.shape[0]
        each = f"for all groups, or one for each of the {groups} groups in group_shares"
        self.mean = as_row(mean, "mean", length=groups, low=0, high=1, need=f"one mean from 0 to 1 {each}")
        need = f"one deviation {each}, 0 or more"
        self.deviation = as_row(deviation, "deviation", length=groups, low=0, need=need)
        self.costs = as_row(costs, "costs", length=groups, low=LOWEST_COST, need=f"one cost {each}, more than 0")
        self.subsidy = as_row(subsidy, "subsidy", length=groups, low=0, high=1, need=f"one part from 0 to 1 {each}")
        self.eligible_from = as_float(eligible_from, "eligible_from", low=0, high=1, need="a score, from 0 to 1")
        self.cost_ineligible = as_float(cost_ineligible, "cost_ineligible", need="a number")
        self.reapply = as_probability(reapply, "reapply")
        self.effort = as_float(effort, "effort", low=0, need="an amount, 0 or more")
        self.horizon = as_count(horizon, "horizon", "rounds")
        need = "a whole number of applicants, from 1 to 1000000"
        self.applicants = as_whole(applicants, "applicants", need, low=1, high=1_000_000)
        if thresholds not in ("one", "by-group"):
            raise unknown_name("way to publish thresholds", thresholds, ("one", "by-group"))
        if labels not in ("all", "selective"):
            raise unknown_name("way to observe labels", labels, ("all", "selective"))
        self.thresholds, self.labels = thresholds, labels

    @property
    def groups(self) -> int:
        """Entries of `group_shares`."""
        return self.group_shares.shape[-1]

    @property
    def benefit(self) -> Notion:
        """The true positive rate, and the burden of the eligible."""
        return ADMISSION_AND_BURDEN

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """Thresholds and shares of the last round, and the running rates if the labels of all are observed."""
        rates = [1.0, np.inf] if self.labels == "all" else []
        high = np.repeat(np.asarray([1.0] * 5 + rates, np.float32), self.groups)
        return gymnasium.spaces.Box(np.zeros_like(high), high, dtype=np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        """One threshold from 0 to 1, or one for each group; what lies outside is clipped."""
        return gymnasium.spaces.Box(0.0, 1.0, (1 if self.thresholds == "one" else self.groups,), np.float32)

    def reset(self, key: jax.Array) -> tuple[AdmissionState, jax.Array]:
        """New applicants only."""
        group, score = self._arrivals(key)
        nothing = jnp.zeros((2, self.groups), jnp.float32)
        state = AdmissionState(
            group=group,
            score=score,
            shown=score,
            eligible=score >= self.eligible_from,
            again=jnp.zeros(self.applicants, bool),
            thresholds=nothing[0],
            last=jnp.zeros((4, self.groups), jnp.float32),
            supply=nothing,
            demand=nothing,
            time=jnp.zeros((), jnp.int32),
        )
        return state, self.observe(state)

    def step(self, key: jax.Array, state: AdmissionState, action: jax.Array) -> tuple[AdmissionState, TimeStep]:
        """Publish, let applicants pay or not, admit, and let places be taken by the refused and by new applicants."""
        for_arrivals, for_return = jax.random.split(key)
        thresholds, member = self._published(action), self._members(state)
        price = member @ self._prices()
        cost = price * jnp.maximum(member @ thresholds - state.shown, 0.0)
        admitted = (cost <= WORTH).astype(jnp.float32)
        eligible = state.eligible.astype(jnp.float32)
        due, rightly = eligible @ member, (admitted * eligible) @ member
        supply, demand = jnp.stack([rightly, (cost * eligible) @ member]), jnp.stack([due, due])
        draws = jax.random.uniform(for_return, (self.applicants,), jnp.float32)
        again = (admitted == 0) & (draws < self.reapply)
        group, score = self._arrivals(for_arrivals)
        score = jnp.where(again, state.score, score)
        built_up = jnp.minimum(state.shown + self.effort / jnp.maximum(price, LOWEST_COST), 1.0)
        last = jnp.stack([jnp.sum(member, axis=0), admitted @ member, rightly, again.astype(jnp.float32) @ member])
        after = AdmissionState(
            group=jnp.where(again, state.group, group),
            score=score,
            shown=jnp.where(again, built_up, score),
            eligible=jnp.where(again, state.eligible, score >= self.eligible_from),
            again=again,
            thresholds=thresholds,
            last=last,
            supply=state.supply + supply,
            demand=state.demand + demand,
            time=state.time + 1,
        )
        step = TimeStep(
            observation=self.observe(after),
            reward=jnp.mean(admitted * (eligible - self.cost_ineligible * (1.0 - eligible))),
            supply=supply,
            demand=demand,
            terminated=jnp.zeros((), bool),
            truncated=self.is_truncated(after.time),
        )
        return after, step

    def means(self, state: AdmissionState, action: jax.Array) -> Means:
        """Over who the new applicants are, which shows only after the threshold; who applies again is known."""
        thresholds, prices, member = self._published(action), self._prices(), self._members(state)
        returns, new = state.again.astype(jnp.float32), jnp.sum(~state.again) * jnp.asarray(self.group_shares)
        cost = member @ prices * jnp.maximum(member @ thresholds - state.shown, 0.0)
        admitted, eligible = returns * (cost <= WORTH), returns * state.eligible
        lowest = thresholds - WORTH / jnp.maximum(prices, LOWEST_COST)  # the true score that can afford admission
        due = eligible @ member + new * self._at_least(self.eligible_from)
        all_admitted = admitted @ member + new * self._at_least(lowest)
        rightly = (admitted * eligible) @ member + new * self._at_least(jnp.maximum(lowest, self.eligible_from))
        burden = (cost * eligible) @ member + new * prices * self._shortfall(thresholds)
        earned = jnp.sum(rightly - self.cost_ineligible * (all_admitted - rightly)) / self.applicants
        return Means(earned, jnp.stack([rightly, burden]), jnp.stack([due, due]))

    def _published(self, action: jax.Array) -> jax.Array:
        """The threshold of every group.   [groups]"""
        return jnp.broadcast_to(jnp.clip(jnp.asarray(action, jnp.float32), 0.0, 1.0), (self.groups,))

    def _prices(self) -> jax.Array:
        """What a shown score higher by 1 costs.   [groups]"""
        return jnp.asarray(self.costs * (1.0 - self.subsidy), jnp.float32)

    def _members(self, state: AdmissionState) -> jax.Array:
        """[applicants, groups]: 1 for the group of each."""
        return (state.group[:, None] == jnp.arange(self.groups)[None, :]).astype(jnp.float32)

    def _below(self, score: jax.Array) -> jax.Array:
        """P[unclipped score < x] of every group.   [] or [groups] -> [groups]"""
        deviation = jnp.where(self.deviation > 0, self.deviation, 1.0)
        normal = jax.scipy.special.ndtr((score - self.mean) / deviation)
        return jnp.where(self.deviation > 0, normal, (self.mean < score).astype(jnp.float32))

    def _at_least(self, score: jax.Array) -> jax.Array:
        """P[s >= x] for a new applicant of every group: all are at 0 or above, nobody above 1.   -> [groups]"""
        return jnp.where(score > 1, 0.0, jnp.where(score <= 0, 1.0, 1.0 - self._below(score)))

    def _shortfall(self, thresholds: jax.Array) -> jax.Array:
        """E[max(tau - s, 0), s >= eligible_from] for a new applicant of every group.   [groups] -> [groups]

        The integral of tau - s over the normal density, and those who are clipped to 0 if they are eligible.
        """
        low, deviation = self.eligible_from, jnp.where(self.deviation > 0, self.deviation, 1.0)
        below, above = ((score - self.mean) / deviation for score in (low, thresholds))
        density = self.deviation * (jax.scipy.stats.norm.pdf(above) - jax.scipy.stats.norm.pdf(below))
        inside = (thresholds - self.mean) * (self._below(thresholds) - self._below(low)) + density
        at_zero = jnp.where(low > 0, 0.0, thresholds * self._below(jnp.zeros(())))
        return jnp.where(thresholds > low, inside + at_zero, 0.0)

    def observe(self, state: AdmissionState) -> jax.Array:
        """[5 groups], or [7 groups] with the running rates, which need the labels of the refused.

        Thresholds, applicants, admitted, eligible admitted and returning ones of the last round, as shares of all
        applicants. A group without demand so far shows the rates 0.
        """
        seen = jnp.concatenate([state.thresholds, (state.last / self.applicants).reshape(-1)])
        if self.labels == "selective":
            return seen
        rates = jnp.where(state.demand > 0, state.supply / jnp.maximum(state.demand, 1.0), 0.0)
        return jnp.concatenate([seen, rates.reshape(-1)])

    def _arrivals(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """g ~ group_shares and s ~ Normal(mean_g, deviation_g), clipped to [0, 1]. [applicants] each"""
        for_group, for_score = jax.random.split(key)
        draws = jax.random.uniform(for_group, (self.applicants, 1), jnp.float32)
        upto = jnp.cumsum(self.group_shares)
        group = jnp.sum(upto[None, :-1] <= draws * upto[-1], axis=1, dtype=jnp.int32)
        noise = jax.random.normal(for_score, (self.applicants,), jnp.float32)
        mean, deviation = jnp.asarray(self.mean)[group], jnp.asarray(self.deviation)[group]
        return group, jnp.clip(mean + deviation * noise, 0.0, 1.0)
