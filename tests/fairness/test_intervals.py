"""Intervals of rates: by hand, against scipy, coverage, and what is not estimable."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.coverage import SITUATIONS, rate_coverage
from elbert.errors import InvalidInputError
from elbert.fairness import EpisodeTotals, estimate_rates, mean_interval
from elbert.fairness.intervals import INTERVAL_METHODS

SUPPLY = np.array([[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]])  # [episodes, groups]
DEMAND = np.array([[2.0, 4.0], [4.0, 4.0], [4.0, 2.0]])


def random_totals(seed=0, episodes=60, groups=3):
    rng = np.random.default_rng(seed)
    demand = rng.poisson(20, (episodes, groups)) + 1
    return rng.binomial(demand, 0.6).astype(float), demand.astype(float)


def test_delta_method_by_hand():
    found = estimate_rates(EpisodeTotals.of(SUPPLY, DEMAND))
    np.testing.assert_array_equal(found.rate, [[0.6, 0.5]])
    # group 0: residuals (S - 0.6 D) / (10 / 3) = (-0.06, 0.18, -0.12); mean 0, variance 0.0504 / 2
    error = np.sqrt(0.0252 / 3)
    half = stats.t.ppf(0.975, 2) * error
    assert found.standard_error[0, 0] == pytest.approx(error, rel=1e-12)
    assert found.low[0, 0] == pytest.approx(0.6 - half, rel=1e-12)
    assert found.high[0, 0] == pytest.approx(0.6 + half, rel=1e-12)


def test_jackknife_by_hand():
    found = estimate_rates(EpisodeTotals.of(SUPPLY, DEMAND), method="jackknife")
    left_out = np.array([5 / 8, 3 / 6, 4 / 6])
    error = np.sqrt(2 / 3 * ((left_out - left_out.mean()) ** 2).sum())
    centre = 3 * 0.6 - 2 * left_out.mean()
    half = stats.t.ppf(0.975, 2) * error
    assert found.standard_error[0, 0] == pytest.approx(error, rel=1e-12)
    assert found.high[0, 0] == pytest.approx(centre + half, rel=1e-12)


def test_bootstrap_resamples_whole_episodes():
    """The studentised quantiles, checked against a plain loop that draws the same way."""
    supply, demand = random_totals(episodes=12, groups=2)
    found = estimate_rates(EpisodeTotals.of(supply, demand), method="bootstrap", resamples=500, seed=4)
    rate, drawn, deviations = supply.sum(0) / demand.sum(0), np.random.default_rng(4).integers(0, 12, (500, 12)), []
    for index in drawn:
        s, d = supply[index], demand[index]
        again = s.sum(0) / d.sum(0)
        spread = np.sqrt(((s - again * d) ** 2).sum(0) / 11 / 12) / d.mean(0)
        deviations.append((again - rate) / spread)
    error = np.sqrt(((supply - rate * demand) ** 2).sum(0) / 11 / 12) / demand.mean(0)
    high, low = np.quantile(deviations, [0.025, 0.975], axis=0)
    np.testing.assert_allclose(found.low[0], rate - low * error, rtol=1e-10)
    np.testing.assert_allclose(found.high[0], rate - high * error, rtol=1e-10)


def test_methods_agree_with_scipys_bootstrap_on_many_episodes():
    supply, demand = random_totals(episodes=400, groups=2)
    totals = EpisodeTotals.of(supply, demand)
    peer = stats.bootstrap(
        (supply[:, 0], demand[:, 0]),
        lambda s, d, axis: s.sum(axis=axis) / d.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=4000,
        rng=np.random.default_rng(0),
    )
    for method in INTERVAL_METHODS:
        found = estimate_rates(totals, method=method)
        width = found.high[0, 0] - found.low[0, 0]
        assert found.low[0, 0] == pytest.approx(peer.confidence_interval.low, abs=0.05 * width)
        assert found.high[0, 0] == pytest.approx(peer.confidence_interval.high, abs=0.05 * width)
        assert found.standard_error[0, 0] == pytest.approx(peer.standard_error, rel=0.05)


@pytest.mark.parametrize("method", INTERVAL_METHODS)
def test_permuting_groups_or_episodes_changes_nothing_else(method):
    supply, demand = random_totals()
    found = estimate_rates(EpisodeTotals.of(supply, demand), method=method)
    order = [2, 0, 1]
    other = estimate_rates(EpisodeTotals.of(supply[:, order], demand[:, order]), method=method)
    np.testing.assert_allclose(other.low, found.low[:, order], rtol=1e-10)
    if method != "bootstrap":
        back = estimate_rates(EpisodeTotals.of(supply[::-1], demand[::-1]), method=method)
        np.testing.assert_allclose(back.high, found.high, rtol=1e-10)


@pytest.mark.parametrize("method", INTERVAL_METHODS)
def test_criteria_are_treated_one_by_one(method):
    first, second = random_totals(0), random_totals(1)
    both = EpisodeTotals.of(np.stack([first[0], second[0]], axis=1), np.stack([first[1], second[1]], axis=1))
    found = estimate_rates(both, method=method)
    alone = estimate_rates(EpisodeTotals.of(*second), method=method)
    np.testing.assert_allclose(found.low[1], alone.low[0], rtol=1e-10)


@pytest.mark.parametrize("situation", [SITUATIONS[2], SITUATIONS[4]], ids=lambda s: s.name)
@pytest.mark.parametrize("episodes", [50, 500])
def test_coverage_is_nominal(situation, episodes):
    shares = rate_coverage(situation, episodes=episodes, replications=1000)
    assert all(0.93 <= share <= 0.97 for share in shares.values()), shares


def test_a_group_without_demand_is_named_with_reason_and_count():
    supply, demand = random_totals()
    supply[:, 1] = demand[:, 1] = 0
    found = estimate_rates(EpisodeTotals.of(supply, demand, groups=["a", "b", "c"]))
    assert np.isnan(found.rate[0, 1])
    assert np.isfinite(found.rate[0, [0, 2]]).all()
    (entry,) = found.unknown
    assert (entry.group, entry.what) == ("b", "rate")
    assert entry.reason == "no demand in any of 60 episodes"


@pytest.mark.parametrize("method", INTERVAL_METHODS)
def test_demand_in_one_episode_gives_a_rate_but_no_interval(method):
    supply, demand = random_totals()
    supply[1:, 0] = demand[1:, 0] = 0
    found = estimate_rates(EpisodeTotals.of(supply, demand), method=method)
    assert found.rate[0, 0] == supply[0, 0] / demand[0, 0]
    assert np.isnan(found.low[0, 0])
    assert np.isfinite(found.low[0, 1:]).all()
    assert not found.compared[0, 0]
    assert [(e.group, e.what) for e in found.unknown] == [("0", "interval")]
    assert "demand in 1 episode of 60" in found.unknown[0].reason


@pytest.mark.parametrize("method", INTERVAL_METHODS)
def test_demand_in_two_episodes_never_gives_a_silent_nan(method):
    supply, demand = random_totals()
    supply[2:, 0] = demand[2:, 0] = 0
    found = estimate_rates(EpisodeTotals.of(supply, demand), method=method)
    named = {e.group for e in found.unknown}
    assert np.isnan(found.low[0, 0]) == ("0" in named)


def test_intervals_stay_within_bounds_where_the_notion_has_them():
    demand = np.full((5, 2), 3.0)
    supply = demand - np.array([[0, 1], [0, 0], [0, 0], [0, 0], [1, 0]])
    free = estimate_rates(EpisodeTotals.of(supply, demand))
    bound = estimate_rates(EpisodeTotals.of(supply, demand, notion="equal-opportunity"))
    assert free.high.max() > 1
    assert bound.high.max() == 1


@pytest.mark.parametrize("method", INTERVAL_METHODS)
def test_no_variation_gives_an_interval_without_width(method):
    demand = np.full((6, 2), 4.0)
    found = estimate_rates(EpisodeTotals.of(demand * [0.5, 1.0], demand), method=method)
    np.testing.assert_allclose(found.low, [[0.5, 1.0]])
    np.testing.assert_allclose(found.high, [[0.5, 1.0]])


def test_mean_interval_agrees_with_scipy():
    values = np.random.default_rng(0).normal(size=30)
    found = mean_interval(values, confidence=0.9)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert found == pytest.approx((values.mean(), low, high))
    assert mean_interval([2.0]) == (2.0, None, None)


def test_the_same_seed_gives_the_same_numbers():
    totals = EpisodeTotals.of(*random_totals())
    one, two, other = (estimate_rates(totals, method="bootstrap", resamples=300, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.low, two.low)
    assert (one.low != other.low).any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: EpisodeTotals.of(np.empty((0, 2)), np.empty((0, 2))), "no episodes"),
        (lambda: EpisodeTotals.of(np.empty((3, 0, 2)), np.empty((3, 0, 2))), "no criteria"),
        (lambda: EpisodeTotals.of([[1.0]], [[1.0]]), "one group only"),
        (lambda: EpisodeTotals.of([1.0, 1.0], [1.0, 1.0]), "one total per episode"),
        (lambda: EpisodeTotals.of(SUPPLY, DEMAND[:2]), "supply has shape"),
        (lambda: EpisodeTotals.of(SUPPLY, -DEMAND), "demand is negative"),
        (lambda: EpisodeTotals.of(SUPPLY * np.nan, DEMAND), "supply is not finite"),
        (lambda: EpisodeTotals.of(DEMAND, SUPPLY, notion="equal-opportunity"), "supply exceeds demand"),
        (lambda: EpisodeTotals.of(SUPPLY, DEMAND, notion="equalized-odds"), "has 2 criteria"),
        (lambda: EpisodeTotals.of(SUPPLY, DEMAND, notion="equality"), "No notion is called"),
        (lambda: EpisodeTotals.of(SUPPLY, DEMAND, groups=["a"]), "Give 2 names"),
        (lambda: EpisodeTotals.of(SUPPLY, DEMAND, groups="ab"), "Give 2 names"),
        (lambda: EpisodeTotals.of(SUPPLY, DEMAND, groups=["a", "a"]), "more than one"),
        (lambda: estimate_rates(EpisodeTotals.of(SUPPLY, DEMAND), confidence=95), "confidence is 95"),
        (lambda: estimate_rates(EpisodeTotals.of(SUPPLY, DEMAND), method="exact"), "method is 'exact'"),  # pyright: ignore[reportArgumentType]
        (lambda: estimate_rates(EpisodeTotals.of(SUPPLY, DEMAND), method="bootstrap", resamples=9), "resamples is 9"),
        (lambda: mean_interval([]), "at least one"),
        (lambda: mean_interval([1.0, np.nan]), "1 of 2 values are not finite"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
