"""Binomial counts, exact and quick where few of the many succeed.

A binomial count is the sum of the counts of its parts. So trials are drawn in batches of at most 1 / probability, of
which one succeeds on average: each by inversion, with as many terms as the resolution of the random bits can tell.
There is no rejection loop, and a batch is all that is needed where count * probability is at most 1.
"""

import jax
import jax.numpy as jnp

TERMS = 12
"""More than this of a batch succeed with a probability of less than 6e-11, that of Poisson(1)."""


def binomial(key: jax.Array, count: jax.Array, probability: jax.Array) -> jax.Array:
    """N ~ Binomial(count, probability), of the shape of count, as float32 whole numbers up to 2**24."""
    count, probability = (jnp.asarray(part, jnp.float32) for part in (count, probability))
    size = jnp.maximum(jnp.floor(1.0 / jnp.maximum(probability, 1e-9)), 1.0)
    rounds = jnp.max(jnp.ceil(count / size), initial=0.0).astype(jnp.int32)

    def add(i: jax.Array, total: jax.Array) -> jax.Array:
        uniform = jax.random.uniform(jax.random.fold_in(key, i), count.shape, jnp.float32)
        return total + _batch(jnp.clip(count - i * size, 0.0, size), probability, uniform)

    return jax.lax.fori_loop(0, rounds, add, jnp.zeros_like(count))


def _batch(count: jax.Array, probability: jax.Array, uniform: jax.Array) -> jax.Array:
    """One count by inversion: how many of P[N <= 0], P[N <= 1], ... the uniform reaches."""
    odds = probability / jnp.maximum(1.0 - probability, 1e-30)
    chance = upto = jnp.where(count > 0, jnp.exp(count * jnp.log1p(-probability)), 1.0)
    total = jnp.zeros_like(count)
    for k in range(1, TERMS + 1):
        total = total + (uniform >= upto)
        chance = chance * odds * jnp.maximum(count - (k - 1), 0.0) / k
        upto = upto + chance
    return jnp.minimum(total, count)
