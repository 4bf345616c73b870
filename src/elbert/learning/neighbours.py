"""Sums over the neighbours of each part, as products with a matrix or as sums of gathered rows.

Adding rows up where they belong (`segment_sum`) is slow on processors, and so is the slope of gathering. So parts with
about as many neighbours are taken together: the sum of their first neighbours' rows, their second ones', and so on. As
an edge leads in both directions, the slope of such a sum is a sum of the same kind.
"""

from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from elbert.envs.parts import Parts

DENSE_PARTS = 128
"""Up to this many parts, a matrix product adds up neighbours."""

STEP, MOST = 4, 64
"""Parts are taken together up to the next multiple of STEP neighbours; those with more than MOST are added up by edges.
"""


class Gathered(NamedTuple):
    """Where the rows of neighbours are found. Place `parts.count` is a row of zeros."""

    tables: tuple[np.ndarray[Any, Any], ...]  # [parts of a kind, neighbours] each
    place: np.ndarray[Any, Any]  # [parts] of each part in all tables one after the other; those with many come last
    many: np.ndarray[Any, Any]  # [edges] of those with many neighbours: which of them, counted from 0 ...
    neighbour: np.ndarray[Any, Any]  # [edges] ... and the neighbour


def neighbour_mean(parts: Parts, x: jax.Array) -> jax.Array:
    """Mean over the neighbours of each part, 0 without any. [parts, n] -> same"""
    of_whom, neighbour, share = parts.neighbours
    if parts.count <= DENSE_PARTS:
        matrix = np.zeros((parts.count, parts.count), np.float32)
        np.add.at(matrix, (of_whom, neighbour), share[of_whom])
        return jnp.asarray(matrix) @ x
    return neighbour_sum(parts, x) * share[:, None]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def neighbour_sum(parts: Parts, x: jax.Array) -> jax.Array:
    """Sum over the neighbours of each part. [parts, n] -> same"""
    found = gathered(parts)
    rows = jnp.concatenate([x, jnp.zeros_like(x[:1])])
    sums = [sum(rows[column] for column in table.T) for table in found.tables]
    if found.many.size:
        last = int(found.many[-1])  # they are counted in order
        sums.append(jax.ops.segment_sum(x[found.neighbour], found.many, last + 1, indices_are_sorted=True))
    return jnp.concatenate(sums)[found.place]


def _forward(parts: Parts, x: jax.Array) -> tuple[jax.Array, None]:
    return neighbour_sum(parts, x), None


def _backward(parts: Parts, residual: None, slope: jax.Array) -> tuple[jax.Array]:
    del residual
    return (neighbour_sum(parts, slope),)


neighbour_sum.defvjp(_forward, _backward)


@lru_cache(maxsize=16)
def gathered(parts: Parts) -> Gathered:
    """Where the rows of each part's neighbours are found."""
    of_whom, neighbour, _ = parts.neighbours
    degree = np.bincount(of_whom, minlength=parts.count)
    starts = np.cumsum(degree) - degree
    width = np.where(degree > MOST, MOST + STEP, -(-np.maximum(degree, 1) // STEP) * STEP)
    order = np.argsort(width, kind="stable")
    tables = []
    for size in np.unique(width[width <= MOST]):
        kind, column = order[width[order] == size, None], np.arange(size)[None]
        inside = column < degree[kind]
        at = np.where(inside, starts[kind] + column, 0)
        tables.append(np.where(inside, np.append(neighbour, 0)[at], parts.count).astype(np.int32))
    rank = np.cumsum(degree > MOST) - 1
    edges = degree[of_whom] > MOST
    return Gathered(tuple(tables), np.argsort(order).astype(np.int32), rank[of_whom[edges]], neighbour[edges])
