"""Whole episodes of a world under a fixed policy, compiled, as totals per episode."""

import os
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial


class Totals(NamedTuple):
    """Sums over each episode, in float64."""

    reward: np.ndarray  # [episodes]
    supply: np.ndarray  # [episodes, criteria, groups]
    demand: np.ndarray  # [episodes, criteria, groups]
    steps: int
    states: Any  # [episodes, ...] at the end


LONG: dict[str, int | bool] = {"xla_backend_optimization_level": 1}
"""Millions of steps: here code that runs fast is worth its compilation, unlike in the other tests."""
if "xla_cpu_use_fusion_emitters" in os.environ.get("XLA_FLAGS", ""):
    LONG["xla_cpu_use_fusion_emitters"] = True


@partial(jax.jit, static_argnames=("episodes", "steps"), compiler_options=LONG)
def _chunk(world, policy, key, episodes, steps):
    key_reset, key_course = jax.random.split(key)

    def one_step(carry, key_now):
        states, observations, sums = carry
        key_act, key_step = jax.random.split(key_now)
        actions = jax.vmap(policy)(jax.random.split(key_act, episodes), observations)
        states, step = jax.vmap(world.step)(jax.random.split(key_step, episodes), states, actions)
        sums = jax.tree.map(jnp.add, sums, (step.reward, step.supply, step.demand))
        return (states, step.observation, sums), step.terminated.any()

    states, observations = jax.vmap(world.reset)(jax.random.split(key_reset, episodes))
    shape = (episodes, len(world.benefit.criteria), world.groups)
    sums = (jnp.zeros(episodes), jnp.zeros(shape), jnp.zeros(shape))
    (states, _, sums), ended = jax.lax.scan(one_step, (states, observations, sums), jax.random.split(key_course, steps))
    return sums, states, ended.any()


def simulate(world, policy, *, episodes, seed=0):
    """Totals of so many episodes of `world.horizon` steps. policy: (key, observation) -> action.

    Policies that differ only in the numbers of a `jax.tree_util.Partial` are compiled once.
    """
    steps, act = int(world.horizon), policy if isinstance(policy, Partial) else Partial(policy)
    (reward, supply, demand), states, ended = _chunk(world, act, jax.random.key(seed), episodes, steps)
    assert not ended, "an episode terminated early: these totals would not be of whole episodes"
    return Totals(np.asarray(reward, float), np.asarray(supply, float), np.asarray(demand, float), steps, states)


def mean_and_error(values):
    """Mean over episodes and its standard error. [episodes, ...] -> [...], [...]"""
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def pooled(totals):
    """Sum of supply over sum of demand, with a delta-method standard error; a rate of 0/0 is nan. [criteria, groups]"""
    supply, demand = totals.supply.sum(axis=0), totals.demand.sum(axis=0)
    rate = supply / demand
    residual = (totals.supply - rate * totals.demand) / totals.demand.mean(axis=0)
    return rate, mean_and_error(residual)[1]


def pooled_bias(totals):
    """Largest difference of the pooled rates, with the standard error of that difference."""
    rate = pooled(totals)[0][0]
    high, low = int(rate.argmax()), int(rate.argmin())
    residual = (totals.supply - rate * totals.demand)[:, 0] / totals.demand.mean(axis=0)[0]
    return rate[high] - rate[low], mean_and_error(residual[:, high] - residual[:, low])[1]
