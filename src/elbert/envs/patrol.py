"""Patrol: where to send a patrol whose record shows only what it came upon, and so where it has been.

A step is a day. With w_i the share of the day that the patrol spends in region i (1 in one region, unless actions are
shares), all counts being independent:
    discovered  d_i ~ Poisson(w_i * rates_i); what goes unseen is Poisson((1 - w_i) * rates_i)
    reported    r_i ~ Poisson(reported_i), known wherever the patrol is; it attends to a share w_i of them
    record      n_i <- (1 - forgetting) * n_i + d_i + r_i
    supply      incidents attended to: the discovered ones, and the reported ones where the patrol is
    demand      incidents that happened: discovered, reported and unseen
    reward      incidents attended to in all regions
The corrected record m_i changes like n_i, but takes in a discovered incident only with probability min_j m_j / m_i.
"""

from typing import Annotated, Literal, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from elbert.envs.attention import LOGIT_LIMIT
from elbert.envs.parameters import Number, Numbers, as_count, as_probability, as_row
from elbert.envs.parts import Parts
from elbert.envs.poisson import poisson
from elbert.envs.world import Means, TimeStep, World
from elbert.errors import InvalidInputError, unknown_name
from elbert.fairness.arrays import has_values
from elbert.fairness.notions import DISCOVERY_PROBABILITY, Notion

LARGEST_COUNT = 2**24
"""Counts are float32, exact up to here."""
FEWEST = 1e-6
"""A record below this is taken for this, so that shares of an empty record are equal."""


class PatrolState(NamedTuple):
    """The two records, and the episode's account so far."""

    counts: jax.Array  # [regions] the record
    corrected: jax.Array  # [regions] the corrected record
    last: jax.Array  # [5, regions] of the last day: share of the patrol, discovered, reported, attended to, happened
    patrolled: jax.Array  # [regions] days that the patrol spent there
    attended: jax.Array  # [regions] total of this episode
    incidents: jax.Array  # [regions] total of this episode
    time: jax.Array  # []


class Patrol(World, static=("action",)):
    """The patrol world. The action names a region, or gives one number per region that `shares` turns into shares."""

    rates: jax.Array  # [regions]
    reported: jax.Array  # [regions]
    prior: jax.Array  # [regions]
    forgetting: jax.Array  # []
    horizon: jax.Array  # []
    action: Literal["region", "shares"]

    def __init__(
        self,
        *,
        rates: Annotated[Numbers, "mean incidents a day that a patrol would discover, one per region"] = (3.685, 2.816),
        reported: Annotated[Numbers, "mean incidents a day that are reported anyway, for all or one per region"] = 0.0,
        prior: Annotated[Numbers, "record at reset, for all or one per region"] = (609.0, 379.0),
        forgetting: Annotated[Number, "share of the record that is forgotten a day"] = 0.01,
        action: Annotated[
            Literal["region", "shares"], "region: the patrol goes to one region a day; shares: it divides the day"
        ] = "region",
        horizon: Annotated[Number, "days per episode"] = 1000,
    ) -> None:
        """Oakland's figures by default, as Ensign et al. (2018) give them; `elbert envs patrol` explains parameters."""
        self.rates = as_row(rates, "rates", low=0, need="one rate per region, 0 or more")
        regions = self.rates.shape[0]
        need = f"one number for all regions, or one for each of the {regions} regions in rates, 0 or more"
        self.reported = as_row(reported, "reported", length=regions, low=0, need=need)
        self.prior = as_row(prior, "prior", length=regions, low=0, need=need)
        self.forgetting = as_probability(forgetting, "forgetting")
        self.horizon = as_count(horizon, "horizon", "days")
        if action not in ("region", "shares"):
            raise unknown_name("kind of action", action, ("region", "shares"))
        self.action = action
        if has_values(self.rates, self.reported, self.prior, self.horizon):
            most = float(np.max(self.prior + (self.rates + self.reported) * float(self.horizon)))
            if most > LARGEST_COUNT:
                raise InvalidInputError(
                    f"A region could reach a count of {most:g} within the horizon of {int(self.horizon)} days. Counts "
                    f"are exact up to {LARGEST_COUNT}: lower rates, reported, prior or horizon."
                )

    @property
    def groups(self) -> int:
        """The regions."""
        return self.rates.shape[-1]

    @property
    def benefit(self) -> Notion:
        """Incidents attended to over incidents."""
        return DISCOVERY_PROBABILITY

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """Of every region: its record, discovered and reported on the last day, share of the patrol so far."""
        high = np.repeat(np.asarray([np.inf, np.inf, np.inf, 1.0], np.float32), self.groups)
        return gymnasium.spaces.Box(np.zeros_like(high), high, dtype=np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete | gymnasium.spaces.Box:
        """A region; or one number per region, where what lies outside the limits is clipped."""
        if self.action == "region":
            return gymnasium.spaces.Discrete(self.groups)
        return gymnasium.spaces.Box(-LOGIT_LIMIT, LOGIT_LIMIT, (self.groups,), np.float32)

    @property
    def parts(self) -> Parts:
        """The regions. Nothing is known of them beforehand: their rates are the truth that is not observed."""
        chosen = self.action == "region"
        return Parts(np.arange(4 * self.groups).reshape(4, -1).T, group=np.arange(self.groups), chosen=chosen)

    def reset(self, key: jax.Array) -> tuple[PatrolState, jax.Array]:
        """The prior record. Nothing here is random; the key is taken for the contract's sake."""
        del key
        prior, none = jnp.asarray(self.prior), jnp.zeros(self.groups, jnp.float32)
        last = jnp.zeros((5, self.groups), jnp.float32)
        state = PatrolState(prior, prior, last, none, none, none, jnp.zeros((), jnp.int32))
        return state, self.observe(state)

    def step(self, key: jax.Array, state: PatrolState, action: jax.Array) -> tuple[PatrolState, TimeStep]:
        """Incidents happen, the patrol attends to those where it is, and the records take in what became known."""
        share, taken = self.shares(action), self.taken_in(state.corrected)
        # parts of a Poisson count are independent Poisson counts: kept and left by the corrected record, and unseen
        seen, unseen = share * self.rates, (1.0 - share) * self.rates
        here, elsewhere = share * self.reported, (1.0 - share) * self.reported
        kept, left, missed, answered, unanswered = poisson(
            key, jnp.stack([taken * seen, (1.0 - taken) * seen, unseen, here, elsewhere])
        )
        discovered, reported = kept + left, answered + unanswered
        attended, incidents = discovered + answered, discovered + reported + missed
        remembered = 1.0 - self.forgetting
        after = PatrolState(
            counts=remembered * state.counts + discovered + reported,
            corrected=remembered * state.corrected + kept + reported,
            last=jnp.stack([share, discovered, reported, attended, incidents]),
            patrolled=state.patrolled + share,
            attended=state.attended + attended,
            incidents=state.incidents + incidents,
            time=state.time + 1,
        )
        step = TimeStep(
            observation=self.observe(after),
            reward=jnp.sum(attended),
            supply=attended[None],
            demand=incidents[None],
            terminated=jnp.zeros((), bool),
            truncated=self.is_truncated(after.time),
        )
        return after, step

    def observe(self, state: PatrolState) -> jax.Array:
        """[4 * regions]: record, discovered and reported on the last day, share of the patrol so far."""
        so_far = jnp.minimum(state.patrolled / jnp.maximum(state.time, 1), 1.0)
        return jnp.concatenate([state.counts, state.last[1], state.last[2], so_far])

    def means(self, state: PatrolState, action: jax.Array) -> Means:
        """The rates, and the patrol's share of them."""
        del state  # incidents do not depend on the past
        incidents = jnp.asarray(self.rates + self.reported, jnp.float32)
        attended = self.shares(action) * incidents
        return Means(jnp.sum(attended), attended[None], incidents[None])

    def for_critic(self, state: PatrolState) -> jax.Array:
        """What is observed, and the time. The corrected record changes nothing but itself."""
        return jnp.concatenate([self.observe(state), state.time[None].astype(jnp.float32)])

    def shares(self, action: jax.Array) -> jax.Array:
        """The share of the patrol in every region: one-hot, or softmax(clip(action)). [regions]"""
        if self.action == "region":
            return (jnp.arange(self.groups) == jnp.asarray(action)).astype(jnp.float32)
        return jax.nn.softmax(jnp.clip(jnp.asarray(action, jnp.float32), -LOGIT_LIMIT, LOGIT_LIMIT))

    def taken_in(self, corrected: jax.Array) -> jax.Array:
        """min_j m_j / m_i: the chance that the corrected record takes in an incident discovered in i. [regions]"""
        record = jnp.maximum(corrected, FEWEST)
        return jnp.min(record) / record
