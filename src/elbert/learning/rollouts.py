"""What rollouts show, and what supply and demand add up to over whole episodes and in those under way."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from elbert.fairness.rates import Totals, bias, ratio

UNROLL = 4  # steps of a recursion over time that are compiled as one: quicker to run, slower to compile


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

    @classmethod
    def of(cls, step: Any, **others: Any) -> "Rollout":
        """From what an environment's step showed and the other fields."""
        shown = ("reward", "supply", "demand", "terminated", "truncated")
        return cls(**{name: getattr(step, name) for name in shown}, **others)

    @property
    def ended(self) -> Any:
        """Whether the next row belongs to another episode. [T, N]"""
        return self.terminated | self.truncated


class Running(NamedTuple):
    """Totals of the episodes under way, which carry over from one rollout to the next."""

    supply: jax.Array  # [N, criteria, groups]
    demand: jax.Array  # [N, criteria, groups]
    weight: jax.Array  # [N] eta_discount ** (steps so far)

    @classmethod
    def none(cls, *shape: int) -> "Running":
        """At the start of episodes. N, criteria, groups"""
        return cls(jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.float32), jnp.ones(shape[0], jnp.float32))


class Window(NamedTuple):
    """Totals of the latest whole episodes."""

    supply: jax.Array  # [criteria, groups] added up over episodes
    demand: jax.Array  # [criteria, groups]
    episodes: jax.Array  # [] how many, of which older ones count in part

    @classmethod
    def none(cls, *shape: int) -> "Window":
        """Before the first episode has ended. criteria, groups"""
        return cls(jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.float32), jnp.zeros((), jnp.float32))


def episode_totals(
    rollout: Rollout, running: Running, *, discount: float, running_bias_demand: float | None = None
) -> tuple[Running, Window, jax.Array]:
    """Add supply and demand up along every copy's course.

    Returns the totals of the episodes still under way, those of the episodes that ended in this rollout, and the bias
    Delta_t of the running episode before and after every step, [2, T, N]: with this demand added to every group's, or
    zeros if that is None.
    """

    def forward(carry: tuple[Running, Window], now: Any) -> tuple[tuple[Running, Window], Any]:
        (supply, demand, weight), done = carry
        given, due, over, counted = now
        portion = jnp.where(counted, weight, 0.0)[:, None, None]
        before, after = Totals(supply, demand), Totals(supply + portion * given, demand + portion * due)
        finished = over[:, None, None]
        done = Window(
            done.supply + jnp.sum(jnp.where(finished, after.supply, 0.0), axis=0),
            done.demand + jnp.sum(jnp.where(finished, after.demand, 0.0), axis=0),
            done.episodes + jnp.sum(over),
        )
        deltas = jnp.zeros(len(over)), jnp.zeros(len(over))
        if running_bias_demand is not None:
            deltas = running_bias(before, running_bias_demand), running_bias(after, running_bias_demand)
        supply, demand = (jnp.where(finished, 0.0, total) for total in after)
        weight = jnp.where(over, 1.0, jnp.where(counted, weight * discount, weight))
        return (Running(supply, demand, weight), done), deltas

    course = (rollout.supply, rollout.demand, rollout.ended, rollout.counted)
    start = (running, Window.none(*rollout.supply.shape[2:]))
    (running, done), deltas = jax.lax.scan(forward, start, course, unroll=UNROLL)
    return running, done, jnp.stack(deltas)


def running_bias(total: Totals, extra_demand: float | jax.Array) -> jax.Array:
    """Delta = max_g z_g - min_g z_g, z_g = S_g / (D_g + extra); the largest over criteria. [..., C, M] -> [...]

    A group without any demand so far counts with the rate 0, as published.
    """
    return jnp.max(bias(ratio(total.supply, total.demand + extra_demand, otherwise=0.0)), axis=-1)


def moved_window(window: Window, done: Window, copies: int) -> Window:
    """Totals of about the latest `copies` whole episodes: new ones push older ones out in proportion.

    keep = max(0, 1 - new / copies). A rollout in which every copy finished an episode replaces all that was before;
    a shorter one adds what has ended and keeps the rest.
    """
    keep = jnp.maximum(0.0, 1.0 - done.episodes / copies)
    return Window(*(keep * old + new for old, new in zip(window, done, strict=True)))


def eta_of(window: Window, running: Running) -> Totals:
    """eta = totals per whole episode; before the first one has ended, of the episodes under way. [C, M] each"""
    under_way = Totals(jnp.mean(running.supply, axis=0), jnp.mean(running.demand, axis=0))
    totals = zip(window[:2], under_way, strict=True)
    return Totals(*(ratio(total, window.episodes, otherwise=otherwise) for total, otherwise in totals))
