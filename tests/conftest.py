"""Settings for all tests: JAX is strict about ranks, hypothesis is repeatable, nothing is compiled twice."""

import atexit
import os
import shutil
import tempfile
from importlib.metadata import version

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault(  # compiles in a third of the time; the code runs slower, but the tests are short
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
    # jaxlib 0.11.2 no longer knows this flag, and ends a process that gives it
    + (" --xla_cpu_use_fusion_emitters=false" if version("jaxlib").startswith("0.10.") else ""),
)
os.environ.setdefault("MPLBACKEND", "agg")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # set by the first process; workers and commands inherit it
    folder = tempfile.mkdtemp(prefix="elbert-compiled-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    atexit.register(shutil.rmtree, folder, ignore_errors=True)

import jax
from hypothesis import settings

from elbert.learning import rollouts

rollouts.UNROLL = 1  # compiles sooner
jax.config.update("jax_numpy_rank_promotion", "raise")
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=100)
settings.load_profile("repeatable")
