"""What all networks are made of: linear layers with orthogonal weights, and the functions between them."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"tanh": jnp.tanh, "relu": jax.nn.relu}


def linear(key: jax.Array, inputs: int, outputs: int, gain: float) -> eqx.nn.Linear:
    """A linear layer with orthogonal weights of this gain, and biases of 0."""
    layer = eqx.nn.Linear(inputs, outputs, key=key)
    weight = jax.block_until_ready(jax.nn.initializers.orthogonal(gain)(key, (outputs, inputs), jnp.float32))
    return eqx.tree_at(lambda one: (one.weight, one.bias), layer, (weight, jnp.zeros(outputs, jnp.float32)))
