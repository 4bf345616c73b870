"""From what a person writes to an environment: a world's name, a Gymnasium id, or a function in a module or a file."""

import importlib
import importlib.util
import inspect
import os
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium

from elbert.envs import find_world
from elbert.envs.registry import GYMNASIUM_ID
from elbert.errors import InvalidInputError
from elbert.learning import Environment


def environment_from(text: str) -> Environment:
    """The environment that a person names: a world, or a function that makes one, whose module is run."""
    if ":" not in text or GYMNASIUM_ID.fullmatch(text):
        entry = find_world(text)
        return text if entry is None else entry.name
    where, _, name = text.rpartition(":")
    try:
        module = _module(where)
        environment = getattr(module, name)
        if callable(environment) and not isinstance(environment, gymnasium.Env | gymnasium.vector.VectorEnv):
            inspect.signature(environment).bind()
    except Exception as error:  # whatever the user's code raises
        raise InvalidInputError(
            f"{text!r} names no function that makes an environment ({type(error).__name__}: {error}). Give "
            "module:function or file.py:function, a function that can be called without arguments."
        ) from error
    return getattr(module, name)


def _module(where: str) -> Any:
    """The module of this name or file; it can import modules of the same folder."""
    if not where.endswith(".py"):
        sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(where)
    spec = importlib.util.spec_from_file_location(Path(where).stem, where)
    assert spec is not None and spec.loader is not None, "it ends in .py"  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.realpath(Path(where).parent))
    known = sys.modules.setdefault(spec.name, module)  # so that what the module defines can be pickled
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if known is module:  # half a module is none
            del sys.modules[spec.name]
        raise
    if known is module:
        cloudpickle.register_pickle_by_value(module)  # other processes and nodes cannot import it by its name
    return module
