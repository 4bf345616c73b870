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
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    missing = {_name(path) for path, _ in leaves} ^ set(arrays)
    if missing:
        raise MismatchError(
            f"its arrays are not those of this version: {sorted(missing)[0]!r} is in only one of the two"
        )
    filled = []
    for path, leaf in leaves:
        name = _name(path)
        stored = arrays[name]
        shape, dtype = (leaf.shape, leaf.dtype)
        if _is_key(leaf):
            filled.append(jax.random.wrap_key_data(jnp.asarray(stored)))
            continue
        if stored.shape != shape or stored.dtype != dtype:
            raise MismatchError(f"{name!r} is {stored.dtype}{stored.shape} where {dtype}{shape} is needed")
        filled.append(jnp.asarray(stored))
    return jax.tree_util.tree_unflatten(structure, filled)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
