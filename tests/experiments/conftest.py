"""Runs that several files look at."""

import pytest

import elbert
from tests.experiments.small_runs import TINY, WORLD


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """An uninterrupted run of two seeds."""
    path = tmp_path_factory.mktemp("runs") / "whole"
    elbert.train_many("lending", seeds=2, world=WORLD, out=path, **TINY)
    return path
