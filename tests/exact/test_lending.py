"""Lending at population level: known values, the certificate, and the simulated world under the frontier."""

import numpy as np
import pytest

from elbert.envs.lending import Lending
from elbert.errors import InvalidInputError
from elbert.exact import FiniteSDMDP, OccupancyProgram, best_within
from elbert.exact.lending import (
    best_lending,
    lending_groups,
    lending_is_exact,
    lending_program,
    threshold_totals,
    with_acceptance,
)
from tests.parameters import slow_after


@pytest.fixture(scope="module")
def long():
    return lending_program(Lending(horizon=10_000))


@pytest.mark.parametrize(
    "point", slow_after(1, [(0.025, 0.18698), (0.0, 0.18669), (np.inf, 0.18721), (0.05, 0.18718), (0.01, 0.18681)])
)
def test_the_known_frontier_of_ten_thousand_steps(long, point):
    max_bias, reward = point
    best = best_within(long, max_bias)
    assert best.reward / 10_000 == pytest.approx(reward, abs=1e-5)
    assert best.reward <= best.bound <= best.reward + 1e-6 * 10_000
    assert best.bias <= min(max_bias, 0.0603) + 1e-6
    if max_bias == np.inf:
        assert best.rates[0] == pytest.approx([0.905, 0.845], abs=2e-3)


def test_the_known_frontier_of_the_training_horizon():
    program = lending_program(Lending())
    assert best_within(program, np.inf).reward / 2048 == pytest.approx(0.21281, abs=1e-5)
    assert best_within(program, 0.0).reward / 2048 == pytest.approx(0.2086, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("thresholds", "reward", "bias"),
    [((3, 3), 0.1468, 0.1645), ((2, 2), 0.1856, 0.0922), ((1, 1), 0.1861, 0.0620), ((2, 1), 0.1860, 0.0244)],
)
def test_known_thresholds_lie_under_the_frontier(long, thresholds, reward, bias):
    totals = threshold_totals(Lending(horizon=10_000), thresholds)
    assert totals.reward / 10_000 == pytest.approx(reward, abs=5e-5)
    assert totals.bias == pytest.approx(bias, abs=5e-5)
    assert totals.reward <= best_within(long, totals.bias).bound


@pytest.mark.slow
def test_the_policy_attains_what_is_claimed(long):
    best = with_acceptance(long, best_within(long, 0.025))
    accept = best.policy
    assert accept.shape == (10_000, 2, 7)
    each = [
        part.totals(np.stack([1 - accept[:, g], accept[:, g]], axis=-1))
        for g, part in enumerate(lending_groups(Lending(horizon=10_000)))
    ]
    assert sum(one.reward for one in each) == pytest.approx(best.reward, rel=1e-9)
    assert each[0].rates[0, 0] - each[1].rates[0, 0] == pytest.approx(0.025, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("notion", ["equal-opportunity", "demographic-parity", "equalized-odds"])
def test_column_generation_agrees_with_one_linear_program(notion):
    """All groups in one occupancy program: a state is (group, score), reached through a first step that counts not."""
    world = Lending(horizon=12, shift=0.1, notion=notion)
    parts = lending_groups(world)
    size, groups, criteria = parts[0].states, len(parts), parts[0].criteria
    moves = np.zeros((groups * size, 2, groups * size))
    reward, start = np.zeros((groups * size, 2)), np.zeros(groups * size)
    supply, demand = (np.zeros((groups * size, 2, criteria, groups)) for _ in range(2))
    for g, part in enumerate(parts):
        own = slice(g * size, (g + 1) * size)
        moves[own, :, own], reward[own], start[own] = part.transition, part.reward, part.start / groups
        supply[own, :, :, g], demand[own, :, :, g] = part.supply[..., 0], part.demand[..., 0]
    whole = OccupancyProgram(FiniteSDMDP(moves, reward, supply, demand, start=start, horizon=12))
    for max_bias in (0.0, 0.02, 0.1, np.inf):
        apart = best_lending(world, max_bias)
        assert groups * best_within(whole, max_bias).reward == pytest.approx(apart.reward, abs=1e-5)


def test_when_the_population_equations_are_those_of_the_simulated_world():
    assert lending_is_exact(Lending(horizon=10_000))
    assert not lending_is_exact(Lending(shift=0.03))  # 0.1 is no multiple of it
    assert not lending_is_exact(Lending(initial_cash=100))  # may end before the horizon
    with pytest.raises(InvalidInputError, match="never have demand"):
        lending_groups(Lending(group_shares=[1.0, 0.0]))
