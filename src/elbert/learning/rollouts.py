"""What rollouts show, and what supply and demand add up to over whole episodes and in those under way."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from elbert.fairness.rates import Totals, bias, ratio

UNROLL = 4
"""Steps of a recursion over time that are compiled as one: quicker to run, slower to compile."""


class Rollout(NamedTuple):
    """What N copies showed in T steps."""

    observation: Any  # [T, N, observation] before each step
    next_observation: Any  # [T, N, observation] after it, before any reset
    action: Any  # [T, N, ...] as sampled
    log_prob: Any  # [T, N] of the action when it was taken
    reward: Any  # [T, N]
    supply: Any  # [T, N, criteria, groups]
    demand: Any  # [T, N, criteria, groups]
    terminated: Any  # [T, N] bool
    truncated: Any  # [T, N] bool
    counted: Any  # [T, N] bool: False where a copy was only reset, so that nothing happened


class Running(NamedTuple):
    """Totals of the episodes under way, which carry over from one rollout to the next."""

    supply: jax.Array  # [N, criteria, groups]
    demand: jax.Array  # [N, criteria, groups]
    weight: jax.Array  # [N] eta_discount ** (steps so far)


class Window(NamedTuple):
    """Totals of the latest whole episodes."""

    supply: jax.Array  # [criteria, groups] added up over episodes
    demand: jax.Array  # [criteria, groups]
    episodes: jax.Array  # [] how many, of which older ones count in part


def episode_totals(
    rollout: Rollout,
    running: Running,
    *,
    discount: float,
    running_bias_demand: float | None = None,
) -> tuple[Running, Window, jax.Array]:
    """Add supply and demand up along every copy's course.

    Returns the totals of the episodes still under way, those of the episodes that ended in this rollout, and the bias
    Delta_t of the running episode before and after every step, [2, T, N]: with this demand added to every group's, or
    zeros if that is None.
    """
    ended = rollout.terminated | rollout.truncated

    def forward(carry: tuple[Running, Window], now: Any) -> tuple[tuple[Running, Window], Any]:
        (supply, demand, weight), done = carry
        given, due, over, counted = now
        portion = jnp.where(counted, weight, 0.0)[:, None, None]
        after = Totals(supply + portion * given, demand + portion * due)
        finished = over[:, None, None]
        done = Window(
            done.supply + jnp.sum(jnp.where(finished, after.supply, 0.0), axis=0),
            done.demand + jnp.sum(jnp.where(finished, after.demand, 0.0), axis=0),
            done.episodes + jnp.sum(over),
        )
        nothing = jnp.zeros(len(over))
        deltas = nothing, nothing
        if running_bias_demand is not None:
            before = Totals(supply, demand)
            deltas = running_bias(before, running_bias_demand), running_bias(after, running_bias_demand)
        supply, demand = (jnp.where(finished, 0.0, part) for part in after)
        weight = jnp.where(over, 1.0, jnp.where(counted, weight * discount, weight))
        return (Running(supply, demand, weight), done), deltas

    none = jnp.zeros(rollout.supply.shape[2:])
    start = (running, Window(none, none, jnp.zeros(())))
    course = (rollout.supply, rollout.demand, ended, rollout.counted)
    (running, done), deltas = jax.lax.scan(forward, start, course, unroll=UNROLL)
    return running, done, jnp.stack(deltas)


def running_bias(total: Totals, extra_demand: float | jax.Array) -> jax.Array:
    """Delta = max_g z_g - min_g z_g, z_g = S_g / (D_g + extra); the largest over criteria. [..., C, M] -> [...]

    A group without any demand so far counts with the rate 0, as published.
    """
    return jnp.max(bias(ratio(total.supply, total.demand + extra_demand, otherwise=0.0)), axis=-1)


def restarted(running: Running) -> Running:
    """Totals as at the start of episodes, for rollouts that begin with new ones."""
    return Running(jnp.zeros_like(running.supply), jnp.zeros_like(running.demand), jnp.ones_like(running.weight))


def moved_window(window: Window, done: Window, copies: int) -> Window:
    """Totals of about the latest `copies` whole episodes: new ones push older ones out in proportion.

    keep = max(0, 1 - new / copies). A rollout in which every copy finished an episode replaces all that was before;
    one that is shorter than an episode adds what has ended and keeps the rest, and with no new episode the old
    totals stay.
    """
    keep = jnp.maximum(0.0, 1.0 - done.episodes / copies)
    return Window(*(keep * old + new for old, new in zip(window, done, strict=True)))


def eta_of(window: Window, running: Running) -> Totals:
    """eta = totals per whole episode; before the first one has ended, of the episodes under way. [C, M] each"""
    return Totals(
        ratio(window.supply, window.episodes, otherwise=jnp.mean(running.supply, axis=0)),
        ratio(window.demand, window.episodes, otherwise=jnp.mean(running.demand, axis=0)),
    )
