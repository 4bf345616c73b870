"""Poisson counts, exact and quick from rates near 0 into the thousands.

A sum of independent Poisson counts is a Poisson count of the summed rate. So a rate is written in digits of base 16,

    rate = a * 256 + b * 16 + c + f,    a, b, c in 0 .. 15,  0 <= f < 1,

and the four parts are drawn apart: a, b and c from alias tables (Walker 1977) made in advance, f by inversion. There
is no rejection loop, so that a batch costs the same whatever its rates. A rate of 4096 or more takes one more table
draw for every 4096 in it.

The tables' probabilities are exact to 2**-32 of the unit and the draw of f to 2**-24, which is the resolution of the
random bits themselves; rates are float32.
"""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

BASE, WHOLE = 16, 4096
FRACTION_TERMS = 12
"""P[Poisson(1) > 12] = 6e-11, less than the resolution of a float32 uniform."""


class AliasTables(NamedTuple):
    """One table per digit d: Poisson(d * unit), over a window of 2**bits counts that starts at `lowest[d]`."""

    keep: np.ndarray[Any, Any]  # [digits * 2**bits] uint32: a column keeps its own count below this, in 2**(bits-32)
    other: np.ndarray[Any, Any]  # [digits * 2**bits] int32: the count that it gives otherwise, above `lowest`
    lowest: np.ndarray[Any, Any]  # [digits] int32
    bits: int


def poisson(key: jax.Array, rate: jax.Array) -> jax.Array:
    """N ~ Poisson(rate), of the shape of rate, as float32 whole numbers. A rate of 0 gives 0.

    Counts are exact up to 2**24, the whole numbers of float32.
    """
    rate = jnp.asarray(rate, jnp.float32)
    key_bits, key_whole = jax.random.split(key)
    random = jax.random.bits(key_bits, (4, *rate.shape), jnp.uint32)
    wholes, below = jnp.floor(rate / WHOLE), jnp.mod(rate, float(WHOLE))
    digits = jnp.floor(below).astype(jnp.int32)
    count = _small(below - jnp.floor(below), random[3])
    for place, unit in enumerate((1, BASE, BASE**2)):
        count = count + _drawn(_tables(unit), (digits // unit) % BASE, random[place])
    return _add_wholes(key_whole, wholes, count)


def _add_wholes(key: jax.Array, wholes: jax.Array, count: jax.Array) -> jax.Array:
    """count + the sum of `wholes` draws of Poisson(4096), as many rounds as the largest needs."""
    table, rounds = _tables(WHOLE), jnp.max(wholes, initial=0.0).astype(jnp.int32)

    def add(i: jax.Array, total: jax.Array) -> jax.Array:
        random = jax.random.bits(jax.random.fold_in(key, i), wholes.shape, jnp.uint32)
        return total + _drawn(table, (wholes > i).astype(jnp.int32), random)

    return jax.lax.fori_loop(0, rounds, add, count)


def _drawn(tables: AliasTables, digit: jax.Array, random: jax.Array) -> jax.Array:
    """One count of Poisson(digit * unit): the top bits choose a column, the rest whether it keeps its own."""
    column = (random >> (32 - tables.bits)).astype(jnp.int32)
    place = (digit << tables.bits) + column
    keeps = (random << tables.bits) < jnp.asarray(tables.keep)[place]
    count = jnp.where(keeps, column, jnp.asarray(tables.other)[place])
    return (count + jnp.asarray(tables.lowest)[digit]).astype(jnp.float32)


def _small(rate: jax.Array, random: jax.Array) -> jax.Array:
    """One count for a rate below 1, by inversion: how many of P[N <= 0], P[N <= 1], ... the uniform reaches."""
    uniform = (random >> 8).astype(jnp.float32) * 2.0**-24
    probability = upto = jnp.exp(-rate)
    count = jnp.zeros_like(rate)
    for k in range(1, FRACTION_TERMS + 1):
        count = count + (uniform >= upto)
        probability = probability * rate / k
        upto = upto + probability
    return count


@cache
def _tables(unit: int) -> AliasTables:
    """Alias tables of Poisson(d * unit) for every digit d (0 and 1 only for the unit of whole 4096s)."""
    digits = range(2 if unit == WHOLE else BASE)
    windows = [stats.poisson.interval(1 - 2.0**-40, d * unit) if d else (0, 0) for d in digits]
    bits = int(np.ceil(np.log2(max(high - low + 1 for low, high in windows))))
    rows = [
        _alias(stats.poisson.pmf(low + np.arange(2**bits), d * unit))
        for d, (low, _) in zip(digits, windows, strict=True)
    ]
    keep, other = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    scaled = np.minimum(np.round(keep * 2.0**32), 2.0**32 - 1).astype(np.uint32)
    return AliasTables(scaled, other.astype(np.int32), np.asarray([low for low, _ in windows], np.int32), bits)


def _alias(probabilities: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Walker's construction: each of n equally likely columns keeps its own outcome with `keep`, else gives `other`."""
    size = len(probabilities)
    share = probabilities / probabilities.sum() * size
    keep, other = np.ones(size), np.arange(size)
    poor, rich = list(np.flatnonzero(share < 1)), list(np.flatnonzero(share >= 1))
    while poor and rich:
        low, high = poor.pop(), rich[-1]
        keep[low], other[low] = share[low], high
        share[high] -= 1 - share[low]
        if share[high] < 1:
            poor.append(rich.pop())
    return keep, other


def expected_minimum(rate: jax.Array, most: jax.Array) -> jax.Array:
    """E[min(Y, u)] = rate P[Y <= u - 2] + u P[Y >= u] for Y ~ Poisson(rate) and whole u >= 0. [...], [...] -> [...]"""
    some, positive = jnp.maximum(most, 1.0), jnp.maximum(rate, 1e-12)
    below = jax.scipy.special.gammaincc(some, positive)  # P[Y <= u - 1]
    at = jnp.exp((some - 1.0) * jnp.log(positive) - positive - jax.scipy.special.gammaln(some))  # P[Y = u - 1]
    return jnp.where(most > 0, positive * jnp.maximum(below - at, 0.0) + most * (1.0 - below), 0.0)
