"""Settings for all tests: JAX is strict about ranks, hypothesis is repeatable."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1")
os.environ.setdefault("MPLBACKEND", "agg")

import jax
from hypothesis import settings

jax.config.update("jax_numpy_rank_promotion", "raise")
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=200)
settings.load_profile("repeatable")
