"""What tells environments and methods of users from one another, the same in every process."""

import hashlib
import inspect
from pathlib import Path
from typing import Any

import jax
import numpy as np

from elbert.envs import World
from elbert.errors import InvalidInputError


def identity(thing: Any) -> str:
    """The name of a text, a function or a class, with its module; a world is known by its class and its parameters.

    What has no such name, or shares it with others, is refused: its trainings could not be found again.
    """
    if isinstance(thing, str):
        return thing
    if isinstance(thing, World):
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(thing)]
        content = [f"{leaf.dtype}{leaf.shape}".encode() + leaf.tobytes() for leaf in leaves]
        content.append(str(jax.tree.structure(thing)).encode())
        return f"{type(thing).__name__} {hashlib.sha256(b''.join(content)).hexdigest()}"
    named = inspect.isfunction(thing) or isinstance(thing, type)
    if not named or "<lambda>" in thing.__qualname__ or getattr(thing, "__closure__", None):
        raise InvalidInputError(
            f"{thing!r} was given, which has no name that tells it from others, so its trainings could not be found "
            "again. Define a function of its own with def, without variables of another function."
        )
    return f"{thing.__module__}:{thing.__qualname__}"


def code_digest(thing: Any) -> str:
    """A digest of the code of a function or class: of its file, or of itself where it stands in a script or notebook.

    What it imports is not looked at.
    """
    kind = thing if inspect.isfunction(thing) or isinstance(thing, type) else type(thing)
    try:
        path = inspect.getsourcefile(kind)
        whole = kind.__module__ != "__main__" and path is not None
        content = Path(path).read_bytes() if whole and path else inspect.getsource(kind).encode()
    except (OSError, TypeError):  # typed in, and not kept by anybody
        code = getattr(kind, "__code__", None)
        content = b"" if code is None else code.co_code + repr((code.co_names, code.co_consts)).encode()
    return hashlib.sha256(content).hexdigest()
