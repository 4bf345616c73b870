"""Policies under which a group has no demand, and so no rate: bounds hold for them, and the search finds them."""

import numpy as np
import pytest

from elbert.exact import ComponentsProgram, FiniteSDMDP, NotWithinLimitError, best_policy, best_within
from elbert.exact.finite import PolicyTotals
from tests.exact.brute import best_deterministic, gridded, sometimes_silent

CASES = [
    pytest.param({"groups": groups, "criteria": criteria, "moves": moves}, id=f"{groups}g{criteria}c-{moves}")
    for groups, criteria in ((2, 1), (3, 1), (2, 2))
    for moves in ("random", "fixed")
]


def one_choice(reward, supply, demand):
    """One state, one step: the action is all there is."""
    return FiniteSDMDP(np.ones((1, len(reward), 1)), [reward], [supply], [demand], start=[1.0], horizon=1)


def test_a_policy_that_leaves_a_group_without_demand_can_be_the_best():
    """Red if rho is searched only up to what every group can reach: group 0 reaches 0, and has no rate at the best."""
    supply = [[0.0, 0.0, 0.0], [0.0, 0.9, 0.9], [0.0, 0.0, 0.9]]
    mdp = one_choice([0.0, 1.0, 2.0], supply, [[1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    for limit in (0.0, 0.09, 0.3):  # with the third action at probability p the rates differ by 0.9 p
        best = best_policy(mdp, limit)
        assert best.reward == pytest.approx(1.0 + limit / 0.9, abs=1e-6)
        assert np.isnan(best.rates[0, 0])


def test_a_limit_that_only_such_a_policy_meets_is_feasible():
    """Red if rho is searched only up to what every group can reach: there every policy has a bias of 0.7."""
    mdp = one_choice([2.0, 1.0], [[0.2, 0.9, 0.9], [0.0, 0.9, 0.9]], [[1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    best = best_policy(mdp, 0.05)
    assert best.reward == pytest.approx(1.0, abs=1e-9)
    assert best.bias == pytest.approx(0.0, abs=1e-9)


@pytest.mark.study
@pytest.mark.parametrize("shape", CASES)
def test_no_deterministic_policy_exceeds_the_bound(shape):
    """Red if the range of rho, a box's bound or the treatment of groups without rates is wrong."""
    for seed in range(6):
        mdp = sometimes_silent(seed, **shape)
        limit = (0.0, 0.1, 0.3)[seed % 3]
        most = best_deterministic(mdp, limit)
        try:
            best = best_policy(mdp, limit)
        except NotWithinLimitError:
            assert most == -np.inf
            continue
        assert most <= best.bound + 1e-9
        totals = mdp.totals(best.policy)
        assert totals.reward == pytest.approx(best.reward, abs=1e-9)
        assert totals.bias <= limit + 1e-6
        assert best.gap <= 1e-6 * max(1.0, abs(best_policy(mdp).reward))


@pytest.mark.slow
def test_a_flat_maximum_takes_few_boxes():
    """Red if the error of a box's bound is of first order in its width: then it takes thousands of boxes."""
    for mdp in (sometimes_silent(8, moves="fixed"), sometimes_silent(9, silence=0.3)):
        best = best_policy(mdp, 0.1)
        assert best.boxes < 100
        assert gridded(mdp, 0.1, points=200) <= best.bound + 1e-9


@pytest.mark.study
@pytest.mark.parametrize(
    ("seed", "shape"),
    [
        pytest.param(23, {"silence": 0.45}, id="23"),
        pytest.param(20, {"silence": 0.3, "moves": "fixed"}, id="20"),
        pytest.param(1, {"silence": 0.3}, id="1"),
    ],
)
def test_the_smallest_limit_that_is_told_is_tight(seed, shape):
    """Red if the search for it gives up soon: then the number is too large, by a third with the first seed."""
    mdp = sometimes_silent(seed, groups=3, **shape)
    with pytest.raises(NotWithinLimitError, match="smallest possible is about") as error:
        best_policy(mdp, 0.0)
    told = float(str(error.value).split("about ")[1].split(";")[0])
    assert best_policy(mdp, 1.005 * told).bias <= 1.005 * told + 1e-6
    assert gridded(mdp, 0.98 * told, points=500) == -np.inf


def test_groups_that_live_apart_can_be_without_demand_too():
    """Red if column generation searches rho only up to what every group can reach."""

    def part(reward, supply, demand):
        shape = (1, 2, 1, 1)
        return FiniteSDMDP(
            np.ones((1, 2, 1)),
            [reward],
            np.reshape(supply, shape),
            np.reshape(demand, shape),
            start=[1.0],
            horizon=1,
        )

    parts = [
        part([0.0, 1.0], [0.1, 0.0], [1.0, 0.0]),
        part([2.0, 1.0], [0.0, 0.9], [1.0, 1.0]),
        part([0.0, 0.0], [0.9, 0.9], [1.0, 1.0]),
    ]
    best = best_within(ComponentsProgram(parts), 0.0)
    assert best.reward == pytest.approx(2.0, abs=1e-6)
    assert np.isnan(best.rates[0, 0])


def test_who_receives_without_any_demand_has_an_infinite_rate_and_bias():
    """Red if such a policy counts as fair because no other group has a rate to compare with."""
    totals = PolicyTotals(1.0, np.array([[0.5, 0.0]]), np.array([[0.0, 0.0]]))
    assert totals.bias == np.inf
    assert PolicyTotals(1.0, np.array([[0.5, 0.5]]), np.array([[0.0, 1.0]])).bias == np.inf
    assert PolicyTotals(1.0, np.array([[0.0, 0.5]]), np.array([[0.0, 1.0]])).bias == 0.0
    assert PolicyTotals(1.0, np.array([[0.0, 0.0]]), np.array([[0.0, 0.0]])).bias == 0.0
