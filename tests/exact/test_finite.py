"""Finite SD-MDPs: the certified optimum against brute force, laws of the frontier, and what is refused."""

import numpy as np
import pytest

from elbert.errors import InvalidInputError
from elbert.exact import FiniteSDMDP, NotWithinLimitError, best_policy
from tests.exact.brute import climbed, gridded, tiny
from tests.parameters import slow_after

CASES = [
    pytest.param({"groups": groups, "criteria": criteria, "discount": discount}, id=f"{groups}g{criteria}c{discount}")
    for groups, criteria in ((2, 1), (3, 1), (2, 2), (3, 2))
    for discount in (None, 0.8)
]


def limits_of(mdp):
    """Limits that bind and can be met, between the smallest bias and that of the best policy."""
    free = best_policy(mdp).bias
    try:
        best_policy(mdp, 0.0)
        least = 0.0
    except NotWithinLimitError as error:
        least = float(str(error).split("about ")[1].split(";")[0])
    return [least + part * (free - least) for part in (0.1, 0.5)] if free > 1.05 * least + 0.01 else []


@pytest.mark.parametrize("shape", slow_after(1, CASES, pytest.mark.study))
def test_the_optimum_agrees_with_brute_force(shape):
    for seed in (0, 3) if shape["discount"] is None else (3,):
        mdp = tiny(seed, **shape)
        for max_bias in limits_of(mdp):
            best = best_policy(mdp, max_bias)
            assert best.gap <= 1e-6 * max(1.0, abs(best_policy(mdp).reward))
            # the policy is what it says, and within the limit
            totals = mdp.totals(best.policy)
            assert totals.reward == pytest.approx(best.reward, abs=1e-9)
            np.testing.assert_allclose(totals.rates, best.rates, atol=1e-9)
            assert totals.bias <= max_bias + 1e-6
            # by another route: mixtures of all deterministic policies, on a dense grid of lowest rates and at ours
            grid = gridded(mdp, max_bias, points=25 if mdp.criteria == 1 else 6)
            assert grid <= best.bound + 1e-6
            there = gridded(mdp, max_bias + 1e-6, axes=best.rates.min(axis=-1)[:, None])
            assert there == pytest.approx(best.reward, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("shape", CASES[:4:2])
def test_a_search_over_mixtures_comes_close_and_not_above(shape):
    mdp = tiny(5, **(shape | {"horizon": 2}))
    free = best_policy(mdp)
    max_bias = 0.7 * free.bias
    best = best_policy(mdp, max_bias)
    reached = climbed(mdp, max_bias)
    assert reached <= best.bound + 1e-6
    assert reached >= best.reward - 0.02 * abs(free.reward)


@pytest.mark.study
def test_no_random_policy_lies_above_the_frontier():
    rng = np.random.default_rng(0)
    for groups, criteria in ((2, 1), (3, 2)):
        mdp = tiny(7, groups=groups, criteria=criteria, states=3, horizon=4)
        policies = rng.dirichlet(np.full(2, 0.3), (6, 4, 3))
        for policy in policies:
            totals = mdp.totals(policy)
            assert totals.reward <= best_policy(mdp, totals.bias).bound + 1e-6


@pytest.mark.slow
def test_the_frontier_rises_and_its_slope_is_the_price():
    mdp = tiny(0, states=3, horizon=4)
    free = best_policy(mdp)
    limits = np.linspace(0.2, 0.9, 8) * free.bias
    best = [best_policy(mdp, max_bias, tolerance=1e-8) for max_bias in limits]
    rewards = np.array([one.reward for one in best])
    assert (np.diff(rewards) >= -1e-6).all()
    assert rewards[-1] <= free.reward + 1e-9
    step = 1e-3
    for one in best:
        above = best_policy(mdp, one.max_bias + step, tolerance=1e-8).reward
        below = best_policy(mdp, one.max_bias - step, tolerance=1e-8).reward
        slopes = (above - one.reward) / step, (one.reward - below) / step
        assert min(slopes) - 0.05 <= one.price <= max(slopes) + 0.05


def test_a_hand_computed_optimum():
    """One step, one state. Serving group 0 pays 1, serving group 1 pays 0.8; both are always due 1."""
    mdp = FiniteSDMDP(
        np.ones((1, 2, 1)), [[1.0, 0.8]], [[[1.0, 0.0], [0.0, 1.0]]], np.ones((1, 2, 2)), start=[1.0], horizon=1
    )
    for max_bias in (0.0, 0.3, 0.5):  # rates p and 1 - p with 2 p - 1 = max_bias; reward 0.8 + 0.2 p
        best = best_policy(mdp, max_bias)
        assert best.reward == pytest.approx(0.9 + 0.1 * max_bias, abs=1e-6)
        assert best.rates[0] == pytest.approx([(1 + max_bias) / 2, (1 - max_bias) / 2], abs=1e-6)
        assert best.price == pytest.approx(0.1, abs=1e-6)
    assert best_policy(mdp, 1.0).reward == 1.0
    assert best_policy(mdp).price == 0.0


def test_groups_can_be_renamed():
    mdp = tiny(1, groups=3)
    order = [2, 0, 1]
    other = FiniteSDMDP(
        mdp.transition, mdp.reward, mdp.supply[..., order], mdp.demand[..., order], start=mdp.start, horizon=3
    )
    max_bias = 0.95 * best_policy(mdp).bias
    assert best_policy(other, max_bias).reward == pytest.approx(best_policy(mdp, max_bias).reward, abs=1e-5)


def test_an_infeasible_limit_says_what_is_possible():
    # group 0 always receives everything, group 1 nothing
    supply = np.broadcast_to(np.array([1.0, 0.0]), (1, 2, 2))
    mdp = FiniteSDMDP(np.ones((1, 2, 1)), [[1.0, 0.0]], supply, np.ones((1, 2, 2)), start=[1.0], horizon=2)
    with pytest.raises(NotWithinLimitError, match=r"within 0\.5.*smallest possible is about 1;"):
        best_policy(mdp, 0.5)
    with pytest.raises(InvalidInputError, match="max_bias is -0"):
        best_policy(mdp, -0.1)


def test_supply_without_demand_needs_a_limit_on_rates():
    supply = np.ones((1, 2, 2))
    demand = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    mdp = FiniteSDMDP(np.ones((1, 2, 1)), [[1.0, 0.0]], supply, demand, start=[1.0], horizon=2)
    best = best_policy(mdp, 10.0, highest=50.0)  # rates 1 / p and 1 / (1 - p)
    rates = best.rates[0]
    assert rates[1] - rates[0] == pytest.approx(10.0, abs=1e-3)
    assert 1 / rates[0] + 1 / rates[1] == pytest.approx(1.0, abs=1e-5)
    with pytest.raises(InvalidInputError, match="Give highest="):
        best_policy(mdp, 10.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transition": np.full((1, 2, 1), 0.9)}, r"transition sums to 0\.9, not to 1, at index \(0, 0\)"),
        ({"transition": np.ones((1, 2, 2))}, "transition has shape"),
        ({"transition": -np.ones((1, 2, 1))}, "transition is negative or not finite"),
        ({"start": [0.5]}, r"start sums to 0\.5"),
        ({"start": [0.5, 0.5]}, "start has shape"),
        ({"reward": [1.0, 2.0]}, "reward has shape"),
        ({"demand": np.zeros((1, 2, 2))}, "Group 0 can never have demand"),
        ({"demand": np.ones((1, 2, 3))}, "demand has shape"),
        ({"supply": -np.ones((1, 2, 2))}, "supply is negative"),
        ({"horizon": None}, "Give one of them"),
        ({"discount": 0.9}, "Give one of them"),
        ({"horizon": None, "discount": 1.0}, "below 1"),
        ({"horizon": 0}, "at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    given = {
        "transition": np.ones((1, 2, 1)),
        "reward": [[1.0, 0.0]],
        "supply": np.ones((1, 2, 2)),
        "demand": np.ones((1, 2, 2)),
        "start": [1.0],
        "horizon": 2,
    }
    with pytest.raises(InvalidInputError, match=message):
        FiniteSDMDP(**(given | change))
