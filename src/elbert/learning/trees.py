"""Pytrees as named arrays and back: what a file holds of a training state or an agent."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from elbert.errors import ElbertError


class MismatchError(ElbertError):
    """Stored arrays do not fit what they are to fill."""


def to_arrays(tree: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Every leaf under the path that leads to it; random keys as their words."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {_name(path): np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf) for path, leaf in leaves}


def from_arrays(template: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    """The template's structure with the stored arrays as leaves; names, shapes and types must fit."""
    names = {_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(template)}
    if different := sorted(names ^ set(arrays)):
        raise MismatchError(f"its arrays are not those of this version: {different[0]!r} is in only one of the two")

    def filled(path: Any, leaf: Any) -> jax.Array:
        stored = arrays[_name(path)]
        if _is_key(leaf):
            return jax.random.wrap_key_data(jnp.asarray(stored))
        if (stored.shape, stored.dtype) != (leaf.shape, leaf.dtype):
            need = f"{leaf.dtype}{leaf.shape}"
            raise MismatchError(f"{_name(path)!r} is {stored.dtype}{stored.shape} where {need} is needed")
        return jnp.asarray(stored)

    return jax.tree_util.tree_map_with_path(filled, template)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
