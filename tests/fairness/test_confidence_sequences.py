"""Intervals that hold at every look: by hand, and how often they are wrong when one looks after every unit."""

import numpy as np
import pytest
from scipy import stats

from elbert.fairness.confidence_sequences import FEWEST_UNITS, GRID, STAKES, Wealth, sequence_radius


def test_the_radius_by_hand():
    """level 0.05: W_{-1}(-0.05**2 / e) = -9.203.., so rho**2 = 8.203.. / 500; at t = 500 the root is ..."""
    rho = 8.2034 / 500
    inner = 500 * rho + 1
    expected = 2.0 * np.sqrt(2 * inner / (500**2 * rho) * np.log(np.sqrt(inner) / 0.05))
    assert sequence_radius(2.0, 500, level=0.05, freedom=1e9) == pytest.approx(expected, rel=1e-4)
    few = sequence_radius(2.0, 500, level=0.05, freedom=9)
    assert few / expected == pytest.approx(stats.t.ppf(0.975, 9) / stats.norm.ppf(0.975), rel=1e-4)


def test_it_is_narrowest_where_it_was_asked_to_be():
    wide = {best: sequence_radius(1.0, 100, level=0.05, best_at=best, freedom=1e9) for best in (20, 100, 500)}
    assert min(wide, key=wide.__getitem__) == 100
    assert 1.4 < sequence_radius(1.0, 500, level=0.05, freedom=1e9) / (1.96 / np.sqrt(500)) < 1.6


def false_alarms(runs, units, sigma, seed):
    """How often a difference of equal groups is ever beyond the sequence, and beyond a plain interval."""
    rng = np.random.default_rng(seed)
    size = rng.lognormal(-(sigma**2) / 2, sigma, (runs, units, 1))
    demand = rng.poisson(20 * size * np.ones(2)).astype(float)
    chance = np.clip(0.5 + 0.1 * rng.normal(size=(runs, units, 2)), 0, 1)
    supply = rng.binomial(demand.astype(int), chance).astype(float)
    s, d = supply.cumsum(1), np.maximum(demand.cumsum(1), 1e-9)
    z = s / d
    ss, sd, dd = (each.cumsum(1) for each in (supply**2, supply * demand, demand**2))
    own = (ss - 2 * z * sd + z**2 * dd) / d**2
    both = (supply.prod(2)).cumsum(1) - z[..., 0] * (demand[..., 0] * supply[..., 1]).cumsum(1)
    both += -z[..., 1] * (supply[..., 0] * demand[..., 1]).cumsum(1) + z.prod(2) * demand.prod(2).cumsum(1)
    square = np.maximum(own.sum(2) - 2 * both / d.prod(2), 0)
    effective = (d**2 / np.maximum(dd, 1e-9)).min(2)
    t = np.arange(1, units + 1)
    radius = sequence_radius(np.sqrt(square * t), t, level=0.05, freedom=np.maximum(effective - 1, 1))
    apart, ready = np.abs(z[..., 0] - z[..., 1]), effective >= FEWEST_UNITS
    return ((apart > radius) & ready).any(1).mean(), ((apart > 1.96 * np.sqrt(square)) & ready).any(1).mean()


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.0, 1.5])
def test_looking_after_every_unit_raises_few_false_alarms(sigma):
    """1000 runs of 1000 units. The standard error of a share of 5 % is 0.7 %."""
    sequence, plain = false_alarms(1000, 1000, sigma, seed=5)
    assert sequence <= 0.05
    assert plain > 0.3, "which is why a plain interval will not do"


def bet(outcomes, level):
    """The bounds after betting on every 10 of 0s and 1s."""
    wealth = Wealth.start()
    for some in outcomes.reshape(-1, 10):
        ones = some.sum()
        wealth = wealth.after(np.array([1.0, 0.0]), np.ones(2), np.array([ones, 10 - ones]))
    return wealth.ends(level)


def test_the_wealth_of_one_bet_by_hand():
    wealth = Wealth.start().after(np.array([1.0]), np.array([1.0]), np.array([3.0]))
    half = int(np.argmin(np.abs(GRID - 0.5)))
    np.testing.assert_allclose(wealth.above[:, half], 3 * np.log1p(STAKES * 0.5))
    np.testing.assert_allclose(wealth.below[:, half], 3 * np.log1p(-STAKES * 0.5))
    assert wealth.ends(0.05) == (0.0, 1.0), "three units refute nothing"


@pytest.mark.slow
def test_bets_hold_the_rate_and_close_in():
    rng = np.random.default_rng(1)
    for rate in (0.05, 0.5):
        runs = [bet((rng.random(1000) < rate).astype(float), 0.025) for _ in range(100)]
        assert np.mean([low <= rate <= high for low, high in runs]) >= 0.95
        wide = np.mean([high - low for low, high in runs])
        assert wide < 2.5 * 2 * 1.96 * np.sqrt(rate * (1 - rate) / 1000)


def test_bounds_follow_a_rate_that_changes():
    """Bounds of all looks must not be cut with each other: the rate of the first half is not that of the whole."""
    changing = np.concatenate([np.ones(400), np.zeros(400)])
    wealth, seen = Wealth.start(), []
    for value in changing.reshape(-1, 10).sum(1):
        wealth = wealth.after(np.array([1.0, 0.0]), np.ones(2), np.array([value, 10 - value]))
        seen.append(wealth.ends(0.05))
    assert seen[39][0] > 0.9
    assert seen[-1][0] < 0.5 < seen[-1][1]
    assert all(low <= high for low, high in seen)
