"""The compiled functions behind the Gymnasium environments, and the way of a step out of JAX.

A world comes as the structure and the leaves of its pytree, so that two worlds which differ in their numbers only share
one compiled function. All copies draw their randomness in one way: at every reset and every step,

    key, key_now = split(key)
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from elbert.envs.gym_returns import as_rows
from elbert.envs.world import TimeStep, World
from elbert.errors import InvalidInputError


class Seen(NamedTuple):
    """A step as NumPy arrays that the caller may change, with the copies in front if there are many."""

    observation: np.ndarray[Any, Any]
    reward: np.ndarray[Any, Any]  # [...]
    supply: np.ndarray[Any, Any]  # [..., criteria, groups]
    demand: np.ndarray[Any, Any]  # [..., criteria, groups]
    terminated: np.ndarray[Any, Any]  # [...] bool
    truncated: np.ndarray[Any, Any]  # [...] bool


def key_words(seed: int | None) -> np.ndarray[Any, Any]:
    """A key's two words from a seed of any size. [2] uint32"""
    return np.random.SeedSequence(seed).generate_state(2)


@partial(jax.jit, static_argnums=0)
def reset_one(structure: Any, parameters: list[jax.Array], key: jax.Array) -> Any:
    """(key, state, observation) of one copy at the start of an episode."""
    world = jax.tree.unflatten(structure, parameters)
    key_next, key_now = jax.random.split(key)
    return key_next, *world.reset(key_now)


@partial(jax.jit, static_argnums=0)
def _step(structure: Any, parameters: list[jax.Array], key: jax.Array, state: Any, action: Any) -> Any:
    world = jax.tree.unflatten(structure, parameters)
    key_next, key_now = jax.random.split(key)
    return key_next, *world.step(key_now, state, action)


@partial(jax.jit, static_argnums=0)
def step_one(structure: Any, parameters: list[jax.Array], key: jax.Array, state: Any, action: Any) -> Any:
    """(key, state, observation, the rest of the step packed) of one copy after an action."""
    key, state, step = _step(structure, parameters, key, state, action)
    return key, state, step.observation, _packed(jax.tree.unflatten(structure, parameters), step)


def _packed(world: World, step: TimeStep) -> jax.Array:
    """All but the observation in one row, because every array that leaves JAX costs some microseconds."""
    shape = (len(world.benefit.criteria), world.groups)
    for name in ("supply", "demand"):
        amounts = jnp.shape(getattr(step, name))
        if amounts != shape:
            raise InvalidInputError(
                f"{type(world).__name__}.step gives {name} of shape {amounts}. Give {shape}: its {shape[0]} criteria, "
                f"then its {shape[1]} groups."
            )
    signals = (step.reward, step.terminated, step.truncated, step.supply, step.demand)
    return jnp.concatenate([jnp.asarray(signal, jnp.float32).reshape(-1) for signal in signals])


def unpacked(world: World, observation: jax.Array, packed: jax.Array) -> Seen:
    """The step, for one or for many copies, as NumPy arrays that the caller may change."""
    row = np.array(packed)
    amounts = row[..., 3:].reshape(*row.shape[:-1], 2, len(world.benefit.criteria), world.groups)
    supply, demand = amounts[..., 0, :, :], amounts[..., 1, :, :]
    return Seen(np.array(observation), row[..., 0], supply, demand, row[..., 1] > 0, row[..., 2] > 0)


@partial(jax.jit, static_argnums=0)
def reset_all(structure: Any, parameters: list[jax.Array], keys: jax.Array) -> Any:
    """`reset_one` of every copy."""
    return jax.vmap(lambda key: reset_one(structure, parameters, key))(keys)


@jax.jit
def choose(mask: jax.Array, yes: Any, no: Any) -> Any:
    """Leaf by leaf, the rows of `yes` where the mask is true and of `no` elsewhere."""
    return jax.tree.map(lambda a, b: jnp.where(as_rows(mask, a), a, b), yes, no)


@partial(jax.jit, static_argnums=(0, 1))
def step_all(
    structure: Any, same: bool, parameters: list[Any], keys: jax.Array, states: Any, ended: jax.Array, actions: Any
) -> Any:
    """A step of every copy, and a reset of those whose episode has ended.

    With `same`, copies are reset whose episode ends with this step, after it. Otherwise those are reset whose episode
    had `ended` before, in place of a step.

    Returns:
        (keys, states, observations after resets, observations before them, the rest of the step packed).
    """
    *stepped, step = jax.vmap(partial(_step, structure, parameters))(keys, states, actions)
    over = step.terminated | step.truncated if same else ended

    def with_resets() -> Any:
        fresh = reset_all(structure, parameters, stepped[0] if same else keys)
        return choose(over, fresh, (*stepped, step.observation))

    keys, states, observations = jax.lax.cond(over.any(), with_resets, lambda: (*stepped, step.observation))
    if not same:
        step = step._replace(
            observation=observations,
            reward=jnp.where(ended, 0.0, step.reward),
            terminated=step.terminated & ~ended,
            truncated=step.truncated & ~ended,
        )
    world = jax.tree.unflatten(structure, parameters)
    return keys, states, observations, step.observation, jax.vmap(partial(_packed, world))(step)
