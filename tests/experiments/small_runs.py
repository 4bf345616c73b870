"""Trainings that take a second, and what tells whether two of them ended alike."""

from typing import Any

import jax
import numpy as np

from elbert.files import read_tensors

TINY: dict[str, Any] = {"copies": 4, "rollout": 64, "minibatch": 64, "hidden": [4], "epochs": 1, "steps": 4 * 64 * 12}
WORLD: dict[str, Any] = {"horizon": 64}
OPTIONS = [
    *("--set", "copies=4", "--set", "rollout=64", "--set", "minibatch=64", "--set", "hidden=[4]", "--set", "epochs=1"),
    *("--world", "horizon=64"),
]


def final(path):
    """Everything the last checkpoint holds."""
    last = max((path / "checkpoints").glob("*.safetensors"))
    return last.name, read_tensors(last)[0]


def same(one, other):
    (name, arrays), (other_name, others) = final(one), final(other)
    return (
        name == other_name
        and arrays.keys() == others.keys()
        and all(np.array_equal(arrays[key], others[key]) for key in arrays)
    )


def same_policy(one, other):
    pairs = zip(jax.tree.leaves(one.weights), jax.tree.leaves(other.weights), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def without_time(path):
    """The metrics but for the seconds, which are the third column."""
    lines = (path / "metrics.csv").read_text().splitlines()
    return [line.split(",")[:2] + line.split(",")[3:] for line in lines]


class StopError(Exception):
    pass


def stop_after(iteration):
    def callback(progress):
        if progress.iteration == iteration:
            raise StopError

    return callback
