"""Compiled functions are kept between processes, so that the second command or script starts at once."""

import os
from importlib.metadata import version
from pathlib import Path

from elbert.experiments.cores import usable_cores

LARGEST = 512 * 2**20  # bytes that the kept functions may take; the oldest go first


def keep_compiled() -> Path | None:
    """Let JAX keep what it compiles in the user's cache folder, by version of jaxlib and number of cores.

    `ELBERT_COMPILATION_CACHE` names another folder; an empty value turns this off. A folder that the user has given to
    JAX itself (`JAX_COMPILATION_CACHE_DIR`) takes precedence. Kept functions are code: share the folder only with
    people you trust.
    """
    import jax

    if jax.config.values.get("jax_compilation_cache_dir") is not None:
        return None
    folder = os.environ.get("ELBERT_COMPILATION_CACHE")
    if folder == "":
        return None
    try:
        home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        folder = folder or str(Path(home) / "elbert" / f"jaxlib-{version('jaxlib')}-{usable_cores()}-cores")
        Path(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
    except (OSError, RuntimeError):  # a cache is a convenience: without a place for it everything still works
        return None
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_compilation_cache_max_size", LARGEST)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    return Path(folder)
