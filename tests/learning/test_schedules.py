"""Schedules of the learning rate: their numbers, that they reach Adam, and that they survive files and resuming."""
# pyright: reportArgumentType=false, reportCallIssue=false

import math
from typing import Any

import jax
import numpy as np
import pytest

import elbert
from elbert.errors import InvalidInputError
from elbert.learning.schedules import factors
from tests.experiments.small_runs import StopError, same, same_policy, stop_after
from tests.learning.tiny import Probe, trainer_of

SMALL: dict[str, Any] = {"copies": 4, "rollout": 16, "minibatch": 64, "hidden": [4], "epochs": 1, "steps": 4 * 16 * 4}


def warm_up(done):
    return 4 * done if done < 0.25 else 1.0


def test_the_factors_are_those_of_the_formulas():
    assert factors("linear", 4).tolist() == [1.0, 0.75, 0.5, 0.25]
    assert factors("none", 3).tolist() == [1.0, 1.0, 1.0]
    half = math.sqrt(0.5)
    assert factors("cosine", 4) == pytest.approx([1.0, (1 + half) / 2, 0.5, (1 - half) / 2])
    assert factors(warm_up, 8).tolist() == [0.0, 0.5, *[1.0] * 6]


def train(**settings):
    return elbert.train(Probe(), method="g-ppo", **SMALL | settings)


@pytest.mark.slow
def test_a_function_does_what_the_name_does():
    """With one gradient step an iteration, a line by iteration is the line by step."""
    ours, theirs = train(anneal=lambda done: 1.0 - done), train(anneal="linear")
    pairs = zip(ours.history["policy_loss"], theirs.history["policy_loss"], strict=True)
    assert all(one == pytest.approx(other, abs=1e-6) for one, other in pairs)
    assert not same_policy(train(anneal="cosine"), theirs)


@pytest.mark.slow
def test_a_factor_of_zero_learns_nothing():
    trainer = trainer_of(Probe(), "g-ppo", anneal=lambda done: 0.0 if done < 0.5 else 1.0, **SMALL)
    before, *after = (
        np.asarray(jax.tree.leaves(trainer.state.weights.actor)[0]) for _ in range(5) if _ == 0 or trainer.step()
    )
    assert [np.array_equal(before, weights) for weights in after] == [True, True, False, False]


@pytest.mark.slow
def test_it_is_stored_by_name_and_goes_on_to_the_same_bits(tmp_path):
    whole = elbert.train(Probe(), method="g-ppo", anneal=warm_up, out=tmp_path / "whole", **SMALL)
    with pytest.raises(StopError):
        elbert.train(Probe(), method="g-ppo", anneal=warm_up, out=tmp_path / "cut", callbacks=[stop_after(3)], **SMALL)
    with pytest.raises(InvalidInputError, match="has anneal = 'warm_up', but 'cosine' is asked for now"):
        elbert.train(Probe(), method="g-ppo", anneal="cosine", out=tmp_path / "cut", resume=True, **SMALL)
    elbert.train(Probe(), method="g-ppo", anneal=warm_up, out=tmp_path / "cut", resume=True, **SMALL)
    assert same(tmp_path / "whole", tmp_path / "cut")
    loaded = elbert.load(tmp_path / "whole")
    assert same_policy(loaded, whole)
    assert loaded.settings.to_dict() == whole.settings.to_dict()
    with pytest.raises(InvalidInputError, match="anneal is 'warm_up', a function that is not stored"):
        train(anneal=loaded.settings.anneal)


@pytest.mark.parametrize(
    ("anneal", "message"),
    [
        ("quadratic", "anneal is 'quadratic'. Give one of linear, cosine, none, or a function"),
        (0.5, "anneal is 0.5. Give one of linear"),
        (lambda done: -1.0, r"anneal\(0\) is -1.0. Give a function from the part"),
        (lambda done: math.nan, r"anneal\(0\) is nan"),
        (lambda done: 1 / done, r"anneal\(0\) fails \(ZeroDivisionError"),
        (lambda: 1.0, r"anneal\(0\) fails \(TypeError"),
    ],
)
def test_schedules_without_sense_are_refused_before_training(anneal, message):
    with pytest.raises(InvalidInputError, match=message):
        train(anneal=anneal)
