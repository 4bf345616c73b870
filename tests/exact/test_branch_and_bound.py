"""The two bounds of a box, against the best policies at lowest rates inside it."""

import itertools

import numpy as np
import pytest

from elbert.errors import ElbertError
from elbert.exact import FiniteSDMDP, NotWithinLimitError, OccupancyProgram, best_policy, branch_and_bound
from elbert.exact.branch_and_bound import Box, _Search
from tests.exact.brute import sometimes_silent, tiny


def boxes_of(program, rng):
    """Boxes at whose corners there are policies within the limit of 0.4, and the best policies inside them."""
    for _ in range(12):
        search = _Search(program, 0.4)
        low = rng.uniform(0.2, 0.7, len(search.highest)) * search.highest
        high = low + rng.uniform(0.02, 0.2, len(low)) * search.highest
        relaxed = program.relaxed(np.array(list(itertools.product(*zip(low, high, strict=True)))), 0.4)
        if relaxed is None:
            continue
        box = Box(low, high, relaxed.bound, relaxed, tightened=False)
        inside = rng.uniform(low, high, (12, len(low)))
        points = [point for rho in inside if (point := program.relaxed(rho[None], 0.4)) is not None]
        yield search, box, [point.totals.reward for point in points]


@pytest.mark.study
@pytest.mark.parametrize("criteria", [1, 2])
def test_both_bounds_hold_inside_the_box(criteria):
    """Red if the correction for prices that change over the box is left out, too small or of the wrong sign."""
    rng = np.random.default_rng(0)
    margins = []
    for seed in range(3):
        for mdp in (tiny(seed, criteria=criteria), sometimes_silent(seed, criteria=criteria)):
            for search, box, rewards in boxes_of(OccupancyProgram(mdp), rng):
                second = search._second_bound(box)
                assert max(rewards, default=-np.inf) <= min(box.bound, second) + 1e-7
                corners = [point.bound for point in search._points.values() if point is not None]
                if np.isfinite(second):
                    margins.append(max(rewards) - max(corners))
    assert max(margins) > 1e-4  # the corners alone would not be a bound


def test_the_second_bound_is_of_second_order():
    """Red if its error falls no faster than the width of the box."""
    program = OccupancyProgram(sometimes_silent(8, moves="fixed"))
    best = best_policy(program.mdp, 0.1)
    middle = np.nanmin(best.rates, axis=-1)
    errors = []
    for width in (1e-2, 1e-3):
        search = _Search(program, 0.1)
        corners = np.stack([middle - width / 2, middle + width / 2])
        relaxed = program.relaxed(corners, 0.1)
        assert relaxed is not None
        box = Box(corners[0], corners[1], relaxed.bound, relaxed, tightened=False)
        errors.append((relaxed.bound - best.reward, search._second_bound(box) - best.reward))
    (first, second), (first_near, second_near) = errors
    assert first / first_near < 20  # ten times: first order
    assert second / second_near > 50  # a hundred times: second order


def test_a_search_that_does_not_end_says_so(monkeypatch):
    monkeypatch.setattr(branch_and_bound, "MOST_BOXES", 2)
    with pytest.raises(ElbertError, match=r"bias of at most 0\.1 did not end within 2 boxes"):
        best_policy(sometimes_silent(8, moves="fixed"), 0.1)


def test_the_smallest_limit_is_told_as_a_range_where_it_is_not_known(monkeypatch):
    """Red if what the search could not decide is told as known."""
    mdp = sometimes_silent(23, groups=3, silence=0.45)
    monkeypatch.setattr(branch_and_bound, "SOME_BOXES", 12)
    with pytest.raises(NotWithinLimitError, match=r"smallest possible is above .* and at most") as error:
        best_policy(mdp, 0.0)
    words = str(error.value).split("above ")[1].split(" and at most ")
    assert float(words[0]) < 0.102 < float(words[1].split(";")[0])


def test_the_smallest_limit_where_the_best_policy_has_an_infinite_bias():
    """Red if the bisection starts from infinity: the smallest limit was told to be infinite."""
    supply, demand = [[[1.0, 1.0], [0.9, 0.2]]], [[[0.0, 1.0], [1.0, 1.0]]]
    mdp = FiniteSDMDP(np.ones((1, 2, 1)), [[1.0, 0.0]], supply, demand, start=[1.0], horizon=1)
    with pytest.raises(NotWithinLimitError, match=r"smallest possible is about 0\.7;"):
        best_policy(mdp, 0.5)
