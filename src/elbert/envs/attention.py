"""Attention allocation: where to send the inspectors, when a site that nobody watches gets worse.

A step, with units_g the attention given to site g:
    incidents   y_g ~ Poisson(rate_g)
    found       min(y_g, units_g)
    dynamics    rate_g falls by fall_g * units_g, not below 0, if units_g > 0; otherwise it grows by growth_g
    reward      reward_found * sum of found - cost_missed * sum of (y - found)
    supply      found; demand: incidents
The action is a row of real numbers, clipped to [-3, 3]; softmax turns it into shares of the units.
"""

from typing import Annotated, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from elbert.checks import as_whole
from elbert.envs.parameters import Number, Numbers, as_count, as_float, as_row
from elbert.envs.parts import Parts
from elbert.envs.poisson import expected_minimum, poisson
from elbert.envs.world import Means, TimeStep, World
from elbert.errors import InvalidInputError
from elbert.fairness.arrays import has_values
from elbert.fairness.notions import DISCOVERY_PROBABILITY, Notion

LOGIT_LIMIT = 3.0
MOST_UNITS = 2**16
"""Beyond some 100 000 units float32 shares are too coarse to be rounded to whole units."""
SORTED_SITES = 128
"""Above this number, sites are sorted; up to it, comparing all pairs ranks them quicker."""
LARGEST_RATE = 2**23
"""Counts are float32, exact up to 2**24, which a Poisson count of this rate never reaches."""


class AttentionState(NamedTuple):
    """The sites' rates, and what the last steps showed."""

    rates: jax.Array  # [sites]
    found: jax.Array  # [sites] total of this episode
    incidents: jax.Array  # [sites] total of this episode
    history: jax.Array  # [steps, 4, sites] found, incidents, units, running rate; oldest first
    time: jax.Array  # []


class Attention(World, static=("history",)):
    """The attention world. The action is one number per site; `allocate` turns it into whole units."""

    initial_rates: jax.Array  # [sites]
    fall: jax.Array  # [sites]
    growth: jax.Array  # [sites]
    units: jax.Array  # []
    reward_found: jax.Array  # []
    cost_missed: jax.Array  # []
    horizon: jax.Array  # []
    history: int

    def __init__(
        self,
        *,
        initial_rates: Annotated[Numbers, "mean incidents per step at reset, one per site"] = (8.0, 6.0, 4.0, 3.0, 1.5),
        fall: Annotated[Numbers, "what one unit takes off a site's rate, for all or one per site"] = 0.1,
        growth: Annotated[Numbers, "what a site without attention gains, for all or one per site"] = 0.1,
        units: Annotated[Number, "units of attention per step"] = 6,
        reward_found: Annotated[Number, "reward of an incident found"] = 1.0,
        cost_missed: Annotated[Number, "cost of an incident missed"] = 0.25,
        history: Annotated[int, "steps that the observation remembers"] = 8,
        horizon: Annotated[Number, "steps per episode"] = 1024,
    ) -> None:
        """The published world by default; `elbert envs attention` explains every parameter."""
        self.initial_rates = as_row(initial_rates, "initial_rates", low=0, need="one rate per site, 0 or more")
        sites = self.initial_rates.shape[0]
        need = f"one amount for all sites, or one for each of the {sites} sites, 0 or more"
        self.fall = as_row(fall, "fall", length=sites, low=0, need=need)
        self.growth = as_row(growth, "growth", length=sites, low=0, need=need)
        self.units = as_count(units, "units", "units", high=MOST_UNITS)
        self.reward_found = as_float(reward_found, "reward_found", need="a number")
        self.cost_missed = as_float(cost_missed, "cost_missed", need="a number")
        self.history = as_whole(history, "history", "a whole number of steps, at least 1", low=1)
        self.horizon = as_count(horizon, "horizon", "steps")
        if has_values(self.initial_rates, self.growth, self.horizon):
            highest = float(np.max(self.initial_rates + self.growth * float(self.horizon)))
            if highest > LARGEST_RATE:
                raise InvalidInputError(
                    f"A site could reach the rate {highest:g} within the horizon of {int(self.horizon)} steps. Counts "
                    f"are exact up to {LARGEST_RATE}: lower initial_rates, growth or horizon."
                )

    @property
    def groups(self) -> int:
        """The sites."""
        return self.initial_rates.shape[-1]

    @property
    def benefit(self) -> Notion:
        """Incidents found over incidents."""
        return DISCOVERY_PROBABILITY

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """The last steps, oldest first: found, incidents, units, running rate of every site."""
        units = float(self.units)
        step = np.repeat(np.asarray([units, np.inf, units, 1.0], np.float32), self.groups)
        high = np.tile(step, self.history)
        return gymnasium.spaces.Box(np.zeros_like(high), high, dtype=np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Box:
        """One number per site; what lies outside is clipped."""
        return gymnasium.spaces.Box(-LOGIT_LIMIT, LOGIT_LIMIT, (self.groups,), np.float32)

    @property
    def parts(self) -> Parts:
        """The sites, each with its part of every remembered step."""
        observed = np.arange(self.history * 4 * self.groups).reshape(-1, self.groups).T
        known = np.stack([np.asarray(x) for x in (self.initial_rates, self.fall, self.growth)], axis=1)
        return Parts(observed, features=known, group=np.arange(self.groups))

    def reset(self, key: jax.Array) -> tuple[AttentionState, jax.Array]:
        """Initial rates, nothing remembered. Nothing here is random; the key is taken for the contract's sake."""
        del key
        none = jnp.zeros(self.groups, jnp.float32)
        history = jnp.zeros((self.history, 4, self.groups), jnp.float32)
        state = AttentionState(jnp.asarray(self.initial_rates), none, none, history, jnp.zeros((), jnp.int32))
        return state, self.observe(state)

    def step(self, key: jax.Array, state: AttentionState, action: jax.Array) -> tuple[AttentionState, TimeStep]:
        """Incidents happen, those within reach are found, and the rates answer to the attention given."""
        units = self.allocate(action)
        incidents = poisson(key, state.rates)
        found = jnp.minimum(incidents, units)
        rates = jnp.where(units > 0, jnp.maximum(state.rates - self.fall * units, 0.0), state.rates + self.growth)
        total_found, total = state.found + found, state.incidents + incidents
        shown = jnp.stack([found, incidents, units, total_found / (total + 1.0)])
        history = jnp.concatenate([state.history[1:], shown[None]])
        after = AttentionState(rates, total_found, total, history, state.time + 1)
        reward = self.reward_found * jnp.sum(found) - self.cost_missed * jnp.sum(incidents - found)
        truncated = self.is_truncated(after.time)
        step = TimeStep(self.observe(after), reward, found[None], incidents[None], jnp.zeros((), bool), truncated)
        return after, step

    def observe(self, state: AttentionState) -> jax.Array:
        """[history * 4 * sites], oldest step first. Missed incidents are visible in it, as published."""
        return state.history.reshape(-1)

    def means(self, state: AttentionState, action: jax.Array) -> Means:
        """E[min(Y, u)] of every site for Y ~ Poisson(rate), and the rates themselves."""
        found, incidents = expected_minimum(state.rates, self.allocate(action)), state.rates
        reward = self.reward_found * jnp.sum(found) - self.cost_missed * jnp.sum(incidents - found)
        return Means(reward, found[None], incidents[None])

    def for_critic(self, state: AttentionState) -> jax.Array:
        """True rates, running rates and the time: what the next steps depend on, without the noise of counts."""
        found = state.found / (state.incidents + 1.0)
        return jnp.concatenate([state.rates, found, state.time[None].astype(jnp.float32)])

    def allocate(self, action: jax.Array) -> jax.Array:
        """Whole units from softmax(clip(action)) * units by largest remainders, ties to the lower index. [sites]"""
        logits = jnp.clip(jnp.asarray(action, jnp.float32), -LOGIT_LIMIT, LOGIT_LIMIT)
        share = jax.nn.softmax(logits) * self.units.astype(jnp.float32)
        whole = jnp.floor(share)
        return whole + (_rank(share - whole) < self.units - jnp.sum(whole)).astype(jnp.float32)


def _rank(part: jax.Array) -> jax.Array:
    """[n] -> [n]: how many entries come before each, from the largest down, ties in order."""
    place = jnp.arange(part.shape[0])
    if part.shape[0] > SORTED_SITES:
        return jnp.zeros_like(place).at[jnp.argsort(part, descending=True, stable=True)].set(place)
    earlier = (part[None, :] > part[:, None]) | ((part[None, :] == part[:, None]) & (place[None, :] < place[:, None]))
    return jnp.sum(earlier, axis=1)
