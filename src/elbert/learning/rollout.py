"""Acting in a compiled world: many copies, many steps, one scan."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from elbert.envs.world import World
from elbert.learning.estimates import Rollout, Running
from elbert.learning.networks import Model, Moments, Weights


class Copies(NamedTuple):
    """Where the copies of a world stand."""

    states: Any  # [N, ...] each leaf
    observations: jax.Array  # [N, ...] of the observation space


def start(world: World, key: jax.Array, copies: int) -> Copies:
    """So many copies at the start of their episodes."""
    return Copies(*jax.vmap(world.reset)(jax.random.split(key, copies)))


def collect(
    world: World, model: Model, weights: Weights, moments: Moments, copies: Copies, key: jax.Array, steps: int
) -> tuple[Copies, Rollout]:
    """Let every copy make so many steps under the policy; an ended episode is followed by a new one.

    The randomness of all steps is drawn ahead: in one piece it costs a fraction of what it costs step by step.
    """
    count = copies.observations.shape[0]
    key_actions, key_steps, key_resets = jax.random.split(key, 3)
    noise = model.distribution.noise(key_actions, (steps, count))
    keys = jax.random.split(key_steps, (steps, count))
    resets = jax.random.split(key_resets, steps)

    def one_step(copies: Copies, now: Any) -> tuple[Copies, Rollout]:
        noise_now, key_now, key_reset = now
        flat = copies.observations.reshape(count, -1)
        numbers = model.policy(weights, model.normalised(moments, flat))
        action = model.distribution.sample(numbers, noise_now)
        states, step = jax.vmap(world.step)(key_now, copies.states, model.distribution.to_env(action))
        ended = step.terminated | step.truncated

        def with_resets() -> Copies:
            fresh = start(world, key_reset, count)
            return jax.tree.map(
                lambda new, old: jnp.where(ended.reshape(-1, *(1,) * (new.ndim - 1)), new, old),
                fresh,
                Copies(states, step.observation),
            )

        after = jax.lax.cond(_any_at_all(ended), with_resets, lambda: Copies(states, step.observation))
        shown = Rollout(
            flat,
            step.observation.reshape(count, -1),
            action,
            model.distribution.log_prob(numbers, action),
            step.reward,
            step.supply,
            step.demand,
            step.terminated,
            step.truncated,
            jnp.ones(count, bool),
        )
        return after, shown

    return jax.lax.scan(one_step, copies, (noise, keys, resets))


@jax.custom_batching.custom_vmap
def _any_at_all(flags: jax.Array) -> jax.Array:
    """Whether any flag is set, in any of the runs that are mapped over.

    Under vmap a plain `any` would differ from run to run, `cond` would become a choice between two results, and every
    step would pay for resets that hardly ever happen. Which copies are reset is decided by their own flags.
    """
    return flags.any()


@_any_at_all.def_vmap
def _any_in_all_runs(axis_size: int, in_batched: Any, flags: jax.Array) -> tuple[jax.Array, bool]:
    del axis_size, in_batched
    return _any_at_all(flags), False


def restarted(running: Running) -> Running:
    """Totals as at the start of episodes, for rollouts that begin with new ones."""
    return Running(jnp.zeros_like(running.supply), jnp.zeros_like(running.demand), jnp.ones_like(running.weight))
