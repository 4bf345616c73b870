"""A network with a memory that is learned: a gated recurrent unit between what is observed and what is done.

    e = f(W o),   h <- GRU(e, h),   numbers = V [e, h],   h = 0 at the start of an episode

What it carries along, h, stands beside the observation wherever the policy acts, so that a rollout knows with what
memory each step was taken. Gradients flow through the steps of a segment, from the memory that it began with.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from elbert.learning.layers import ACTIVATIONS, linear


class RecurrentActor(eqx.Module):
    """Observation and memory -> numbers of the distribution and the memory after it."""

    encoder: eqx.nn.Linear
    cell: eqx.nn.GRUCell
    head: eqx.nn.Linear
    activation: str = eqx.field(static=True)

    def __init__(self, key: jax.Array, inputs: int, hidden: tuple[int, ...], outputs: int, activation: str) -> None:
        """As wide as the last of the hidden layers; an orthogonal encoder and head, the latter of gain 0.01."""
        key_encoder, key_cell, key_head = jax.random.split(key, 3)
        width = hidden[-1]
        self.encoder = linear(key_encoder, inputs, width, gain=2**0.5)
        self.cell = eqx.nn.GRUCell(width, width, key=key_cell)
        self.head = linear(key_head, 2 * width, outputs, gain=0.01)
        self.activation = activation

    def __call__(self, observation: jax.Array, carried: jax.Array) -> tuple[jax.Array, jax.Array]:
        """[observation], [width] -> [numbers], [width]"""
        encoded = ACTIVATIONS[self.activation](self.encoder(observation))
        carried = self.cell(encoded, carried)
        return self.head(jnp.concatenate([encoded, carried])), carried

    def along(self, observations: jax.Array, carried: jax.Array) -> jax.Array:
        """The numbers along a segment, from its first memory; a memory of zeros in a later row begins an episode.

        [L, observation], [L, width] as they were carried when the steps were taken -> [L, numbers]
        """

        def step(memory: jax.Array, row: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            observation, kept = row
            numbers, memory = self(observation, jnp.where(jnp.any(kept != 0), memory, 0.0))
            return memory, numbers

        return jax.lax.scan(step, carried[0], (observations, carried))[1]
