"""Summaries across training seeds."""

import numpy as np
import pytest

from elbert.errors import InvalidInputError
from elbert.fairness import interquartile_mean, summarise_seeds


def test_interquartile_mean_by_hand():
    assert interquartile_mean([0, 1, 2, 3, 4, 5, 6, 100]) == (2 + 3 + 4 + 5) / 4
    assert interquartile_mean([1.0, 2.0, 6.0]) == 3.0  # nothing to cut from three
    assert interquartile_mean([[0, 1], [2, 3], [4, 5], [6, 100]]) == (2 + 3 + 4 + 5) / 4


def test_the_bootstrap_is_stratified():
    """Tasks on different scales: without strata their shares would vary and widen the interval."""
    rng = np.random.default_rng(0)
    scores = rng.normal([0.0, 100.0], 0.1, (20, 2))
    found = summarise_seeds(scores)
    assert found.low is not None
    assert found.high is not None
    assert found.high - found.low < 1
    assert found.low <= found.interquartile_mean <= found.high
    assert (found.seeds, found.tasks) == (20, 2)


def test_coverage_with_many_seeds():
    rng = np.random.default_rng(1)
    found = [summarise_seeds(rng.normal(size=40), resamples=400, seed=s) for s in range(300)]
    held = np.mean([f.low is not None and f.high is not None and f.low <= 0 <= f.high for f in found])
    assert 0.90 <= held <= 0.98


def test_one_seed_has_no_interval():
    found = summarise_seeds([0.7])
    assert (found.interquartile_mean, found.low, found.high) == (0.7, None, None)


def test_the_same_seed_gives_the_same_numbers():
    scores = np.random.default_rng(0).random((5, 3))
    assert summarise_seeds(scores, seed=1) == summarise_seeds(scores, seed=1)
    assert summarise_seeds(scores, seed=1) != summarise_seeds(scores, seed=2)


def test_too_few_resamples_are_refused():
    with pytest.raises(InvalidInputError, match="resamples is 0"):
        summarise_seeds([1.0, 2.0], resamples=0)


@pytest.mark.parametrize("scores", [[], np.ones((2, 2, 2)), [1.0, np.nan]])
def test_bad_scores_are_refused(scores):
    with pytest.raises(InvalidInputError):
        summarise_seeds(scores)
