"""Intervals of rates: by hand, against scipy, coverage, and what is not estimable."""
# pyright: reportOptionalOperand=false, reportOperatorIssue=false

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from benchmarks.coverage import SITUATIONS, rate_coverage
from elbert.errors import InvalidInputError
from elbert.fairness import EpisodeTotals, estimate_rates, mean_interval
from elbert.fairness.rate_intervals import INTERVAL_METHODS, mean_ratio_interval

SUPPLY = np.array([[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]])  # [episodes, groups]
DEMAND = np.array([[2.0, 4.0], [4.0, 4.0], [4.0, 2.0]])


def random_totals(seed=0, episodes=60, groups=3):
    rng = np.random.default_rng(seed)
    demand = rng.poisson(20, (episodes, groups)) + 1
    return rng.binomial(demand, 0.6).astype(float), demand.astype(float)


def test_delta_method_by_hand():
    found = estimate_rates(EpisodeTotals.of(SUPPLY, DEMAND))
    np.testing.assert_array_equal(found.rate, [[0.6, 0.5]])
    # group 0: residuals (S - 0.6 D) / (10 / 3) = (-0.06, 0.18, -0.12), shares of the demand 0.2, 0.4, 0.4
    error = np.sqrt(0.06**2 / 0.8 + 0.18**2 / 0.6 + 0.12**2 / 0.6) / 3
    half = stats.t.ppf(0.975, 10**2 / (4 + 16 + 16) - 1) * error
    assert found.standard_error[0, 0] == pytest.approx(error, rel=1e-12)
    assert found.low[0, 0] == pytest.approx(0.6 - half, rel=1e-12)
    assert found.high[0, 0] == pytest.approx(0.6 + half, rel=1e-12)


def test_jackknife_by_hand():
    found = estimate_rates(EpisodeTotals.of(SUPPLY, DEMAND), method="jackknife")
    left_out = np.array([5 / 8, 3 / 6, 4 / 6])
    error = np.sqrt(2 / 3 * ((left_out - left_out.mean()) ** 2).sum())
    centre = 3 * 0.6 - 2 * left_out.mean()
    half = stats.t.ppf(0.975, 10**2 / (4 + 16 + 16) - 1) * error
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


@pytest.mark.study
@pytest.mark.parametrize("situation", SITUATIONS[:7], ids=lambda s: s.name)
@pytest.mark.parametrize("episodes", [50, 500])
def test_coverage_is_nominal(situation, episodes):
    shares = rate_coverage(situation, episodes=episodes, replications=500)
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
    assert [(e.group, e.what) for e in found.unknown] == [("0", "interval")]
    assert "demand in 1 episode of 60; " in found.unknown[0].reason


@pytest.mark.parametrize("method", INTERVAL_METHODS)
def test_demand_in_two_episodes_never_gives_a_silent_nan(method):
    supply, demand = random_totals()
    supply[2:, 0] = demand[2:, 0] = 0
    found = estimate_rates(EpisodeTotals.of(supply, demand), method=method)
    named = {e.group for e in found.unknown}
    assert np.isnan(found.low[0, 0]) == ("0" in named) == (method == "bootstrap")


def test_degrees_of_freedom_are_those_of_episodes_with_demand():
    supply, demand = random_totals()
    alone = estimate_rates(EpisodeTotals.of(supply[:4], demand[:4]))
    supply[4:, 0] = demand[4:, 0] = 0
    among = estimate_rates(EpisodeTotals.of(supply, demand))
    for method in ("low", "high", "standard_error"):
        assert getattr(among, method)[0, 0] == pytest.approx(getattr(alone, method)[0, 0])
    jackknife = [estimate_rates(EpisodeTotals.of(s, d), method="jackknife") for s, d in ((supply, demand),)]
    assert jackknife[0].low[0, 0] == pytest.approx(
        estimate_rates(EpisodeTotals.of(supply[:4], demand[:4]), method="jackknife").low[0, 0]
    )


def test_intervals_stay_within_bounds_where_the_notion_has_them():
    demand = np.full((5, 2), 3.0)
    supply = demand - np.array([[0, 1], [0, 0], [0, 0], [0, 0], [1, 0]])
    free = estimate_rates(EpisodeTotals.of(supply, demand))
    bound = estimate_rates(EpisodeTotals.of(supply, demand, notion="equal-opportunity"))
    assert free.high.max() > 1
    assert bound.high.max() == 1


@pytest.mark.parametrize("method", INTERVAL_METHODS)
def test_an_episode_with_supply_but_no_demand_counts(method):
    """As when doses are given where nobody fell ill: it says nothing of demand, but something of the rate."""
    supply, demand = random_totals(episodes=40)
    demand[::4, 0] = 0
    found = estimate_rates(EpisodeTotals.of(supply, demand), method=method)
    rate = supply[:, 0].sum() / demand[:, 0].sum()
    assert found.rate[0, 0] == rate
    residuals = (supply[:, 0] - rate * demand[:, 0]) / demand[:, 0].mean()
    assert found.standard_error[0, 0] == pytest.approx(residuals.std(ddof=1) / np.sqrt(40), rel=0.1)
    assert found.low[0, 0] < rate < found.high[0, 0]


@pytest.mark.parametrize("method", INTERVAL_METHODS)
@pytest.mark.parametrize("rate", [1 / 3, 0.1, 0.5, 0.7, 1.0])
@pytest.mark.parametrize("groups", [2, 3, 10])
def test_a_rate_that_never_varies_is_not_taken_as_certain(method, rate, groups):
    demand = np.random.default_rng(groups).poisson(20, (50, groups)) + 1.0
    found = estimate_rates(EpisodeTotals.of(demand * rate, demand, notion="equal-opportunity"), method=method)
    unseen = 1 - 0.05 ** (1 / 50)  # 5.8 % of episodes could differ, anywhere between 0 and 1
    np.testing.assert_allclose(found.rate, rate)
    np.testing.assert_allclose(found.low, rate * (1 - unseen))
    np.testing.assert_allclose(found.high, rate + unseen * (1 - rate))


def test_large_and_small_units_make_no_difference():
    supply, demand = random_totals()
    for method in INTERVAL_METHODS:
        plain = estimate_rates(EpisodeTotals.of(supply, demand), method=method)
        for unit in (1e-200, 1e200):
            other = estimate_rates(EpisodeTotals.of(supply * unit, demand * unit), method=method)
            np.testing.assert_allclose(other.low, plain.low, rtol=1e-9)


def test_mean_interval_agrees_with_scipy():
    values = np.random.default_rng(0).normal(size=30)
    found = mean_interval(values, confidence=0.9)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert found == pytest.approx((values.mean(), low, high))
    assert mean_interval([2.0]) == (2.0, None, None)


def test_a_ratio_of_means_has_ends_that_students_t_just_allows():
    """Red if a variance, the covariance or t is wrong: at an end r, the interval of mean(y - r x) ends at 0."""
    rng = np.random.default_rng(1)
    x = rng.normal(2.0, 0.5, 6)
    y = 3 * x + rng.normal(0.0, 1.0, 6)
    ratio, low, high = mean_ratio_interval(y, x, confidence=0.9)
    assert low < ratio < high
    assert ratio == pytest.approx(y.mean() / x.mean())
    assert mean_interval(y - low * x, confidence=0.9).low == pytest.approx(0, abs=1e-12)
    assert mean_interval(y - high * x, confidence=0.9).high == pytest.approx(0, abs=1e-12)
    assert mean_ratio_interval([0.010, 0.012, 0.014], [0.1] * 3)[1:] == pytest.approx((0.070317, 0.169683), abs=1e-6)
    assert mean_ratio_interval(y, x - x.mean() + 0.1)[1:] == (None, None), "the lower mean may be 0"
    assert mean_ratio_interval([1.0], [2.0]) == (0.5, None, None)
    with pytest.raises(InvalidInputError, match="shapes"):
        mean_ratio_interval([1.0, 2.0], [1.0])


def test_a_ratio_of_means_is_covered_as_often_as_promised():
    rng = np.random.default_rng(2)
    covered, rounds = 0, 2000
    for x, noise in zip(rng.normal(1.0, 0.2, (rounds, 4)), rng.normal(0.0, 0.3, (rounds, 4)), strict=True):
        _, low, high = mean_ratio_interval(0.5 * x + noise, x)
        covered += low is None or low <= 0.5 <= high  # without ends it holds everything, or all but a stretch
    assert 0.935 < covered / rounds < 0.97


def test_precise_numbers_stay_precise_next_to_jax_arrays():
    totals = EpisodeTotals.of(np.array([[16777217.0, 1.0]]), jnp.array([[2.0**25, 1.0]]))
    assert totals.supply[0, 0, 0] == 16777217.0


def test_the_callers_arrays_are_copied():
    supply, demand = random_totals()
    totals = EpisodeTotals.of(supply, demand)
    supply[:] = 0
    assert totals.supply.sum() > 0
    with pytest.raises(ValueError, match="read-only"):
        totals.supply[0] = 0


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
        (lambda: EpisodeTotals.of(SUPPLY, DEMAND, groups=["a"]), "Give a list of 2 names"),
        (lambda: EpisodeTotals.of(SUPPLY, DEMAND, groups="ab"), "Give a list of 2 names"),
        (lambda: EpisodeTotals.of(SUPPLY, DEMAND, groups=["a", "a"]), "more than one"),
        (lambda: EpisodeTotals.of(SUPPLY, DEMAND, groups={"a", "b"}), "Give a list of 2 names"),  # pyright: ignore[reportArgumentType]
        (lambda: EpisodeTotals.of(SUPPLY, DEMAND, groups=2), "Give a list of 2 names"),  # pyright: ignore[reportArgumentType]
        (lambda: EpisodeTotals.of(SUPPLY, DEMAND, notion=["x"]), "No notion is called"),  # pyright: ignore[reportArgumentType]
        (lambda: EpisodeTotals.of(np.full((9, 2), 1e308), np.full((9, 2), 1e308)), "too large"),
        (lambda: jax.jit(lambda s: EpisodeTotals.of(s, DEMAND))(SUPPLY), "no values yet"),
        (lambda: EpisodeTotals.of(np.ma.masked_less(SUPPLY, 2), DEMAND), "masked array"),
        (lambda: estimate_rates(EpisodeTotals.of(SUPPLY, DEMAND), confidence=95), "confidence is 95"),
        (lambda: estimate_rates(EpisodeTotals.of(SUPPLY, DEMAND), confidence=0.9999), "from 0.5 to 0.999"),
        (lambda: estimate_rates(EpisodeTotals.of(SUPPLY, DEMAND), confidence=0.01), "from 0.5 to 0.999"),
        (lambda: mean_interval([1.0, 2.0], confidence=0.01), "from 0.5 to 0.999"),
        (lambda: estimate_rates(EpisodeTotals.of(SUPPLY, DEMAND), resamples=10**9), "resamples is 1000000000"),
        (lambda: EpisodeTotals.of(np.full((9, 2), 1e200), np.full((9, 2), 1e-200)), "too large or too small"),
        (lambda: EpisodeTotals.of(np.full((9, 2), 1e-300), DEMAND[:1].repeat(9, 0)), "too large or too small"),
        (lambda: estimate_rates(EpisodeTotals.of(SUPPLY, DEMAND), confidence="95"), "confidence is '95'"),  # pyright: ignore[reportArgumentType]
        (lambda: estimate_rates(EpisodeTotals.of(SUPPLY, DEMAND), seed=-1), "seed is -1"),
        (lambda: estimate_rates(EpisodeTotals.of(SUPPLY, DEMAND), resamples=-5), "resamples is -5"),
        (lambda: estimate_rates(EpisodeTotals.of(SUPPLY, DEMAND), method="exact"), "method is 'exact'"),  # pyright: ignore[reportArgumentType]
        (lambda: estimate_rates(EpisodeTotals.of(SUPPLY, DEMAND), method="bootstrap", resamples=9), "resamples is 9"),
        (lambda: mean_interval([]), "at least one"),
        (lambda: mean_interval([1.0, np.nan]), "1 of 2 values are not finite"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
