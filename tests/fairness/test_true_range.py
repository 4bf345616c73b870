"""The range of true values behind noisy estimates: its statistic by brute force, its laws, its edge cases."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from elbert.fairness.true_range import Noise, RangeTest, draw_noise, draws_for, excess_ratio, shrink, tie


def noise_with(error, draws):
    """Noise whose draws are known."""
    groups = len(error)
    return Noise(np.asarray(error), draws, draws, freedom=np.full(groups, np.inf), still=np.zeros(groups, bool))


def brute_force(z, error, limit):
    pairs = permutations(range(z.size), 2)
    return max((z[i] - z[j] - limit) / (error[i] + error[j]) for i, j in pairs)


@pytest.mark.parametrize("groups", [2, 3, 8, 9, 14])
@pytest.mark.parametrize("limit", [0.0, 0.3, 2.0])
def test_the_statistic_is_the_largest_over_all_pairs(groups, limit):
    rng = np.random.default_rng(groups)
    z, error = rng.normal(size=(200, groups)), rng.gamma(1.0, size=groups) + 0.01
    expected = [brute_force(row, error, limit) for row in z]
    np.testing.assert_allclose(excess_ratio(z, error, limit), expected, rtol=1e-7, atol=1e-9)


def test_few_and_many_groups_are_simulated_alike(monkeypatch):
    """With few groups the differences of pairs are found once; they give what the search over groups gives."""
    rng = np.random.default_rng(0)
    z, error = rng.normal(size=6), rng.random(6) + 0.1
    noise = noise_with(error, rng.normal(size=(300, 6)) * error)
    by_pairs = RangeTest(z, noise).p_exceeds(0.5)
    monkeypatch.setattr("elbert.fairness.true_range._FEW", 5)
    assert RangeTest(z, noise).p_exceeds(0.5) == by_pairs


def test_one_group_is_never_compared_with_itself():
    # one group's error is so large that, alone, it would be both ends of the range
    for groups in (3, 12):
        z, error = np.linspace(0.0, 0.1, groups)[None], np.full(groups, 0.01)
        error[1] = 5.0
        assert excess_ratio(z, error, 1.0)[0] == pytest.approx(brute_force(z[0], error, 1.0))


@pytest.mark.parametrize("span", [0.0, 0.2, 0.9, 3.0])
def test_tied_values_have_the_range_asked_for(span):
    rng = np.random.default_rng(1)
    for _ in range(50):
        z, error = rng.random(5), rng.random(5) * 0.2 + 0.01
        assert np.ptp(tie(z, z, error, span, 1.0)) == pytest.approx(span, abs=1e-9)
        assert np.ptp(tie(z, shrink(z, error), error, span, 1.0)) == pytest.approx(span, abs=1e-9)


def test_near_ties_are_made_exact_and_clear_differences_kept():
    z, error = np.array([0.0, 0.05, 0.5, 0.98, 1.0]), np.full(5, 0.1)
    np.testing.assert_allclose(tie(z, z, error, 1.0, 1.0), [0, 0, 0.5, 1, 1])


def test_rounding_never_keeps_the_search_going():
    z = np.full((3, 12), 1 / 3) + np.random.default_rng(0).normal(size=(3, 12)) * 1e-17
    error = np.full(12, 1e-17) * np.random.default_rng(1).random(12)
    assert np.isfinite(excess_ratio(z, error, 0.0)).all()


def test_shrunk_estimates_scatter_as_the_true_values_do():
    rng = np.random.default_rng(0)
    true, error = rng.normal(size=4000), rng.random(4000) + 0.5
    assert shrink(true + error * rng.normal(size=4000), error).std() == pytest.approx(1, rel=0.05)
    assert shrink(error * rng.normal(size=4000), error).std() < 0.3
    np.testing.assert_allclose(shrink(np.array([0.0, 100.0]), np.ones(2)), [0.0, 100.0], atol=0.1)


def noise_from(residuals, **arguments):
    """Noise of the mean of residuals with demand in every episode."""
    residuals = residuals - residuals.mean(axis=0)
    episodes, groups = residuals.shape
    error = residuals.std(axis=0, ddof=1) / np.sqrt(episodes)
    directions = residuals / np.linalg.norm(residuals, axis=0)
    return draw_noise(directions, error, np.full(groups, episodes - 1.0), **{"seed": 0, "draws": 4000} | arguments)


def test_noise_has_the_covariance_of_the_mean():
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(200, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0], [0, 0.3, 0.1]])
    expected = np.cov(mixed, rowvar=False) / 200
    noise = noise_from(mixed, draws=40_000)
    np.testing.assert_allclose(np.cov(noise.normal, rowvar=False), expected, atol=0.03 * expected.max())
    np.testing.assert_allclose(noise.normal.mean(axis=0), 0, atol=1e-12)


def test_noise_of_more_groups_than_episodes():
    noise = noise_from(np.random.default_rng(0).normal(size=(5, 40)), draws=40_000)
    np.testing.assert_allclose(noise.normal.std(axis=0), noise.error, rtol=0.05)


def test_few_episodes_make_heavy_tails():
    directions = np.full((50, 2), 50**-0.5) * np.random.default_rng(0).choice([-1, 1], size=(50, 2))
    noise = draw_noise(directions, np.ones(2), np.array([2.5, 49]), draws=200_000, seed=0)
    quantiles = np.quantile(noise.heavy, 0.975, axis=0)
    np.testing.assert_allclose(quantiles, stats.t.ppf(0.975, [2.5, 49]), rtol=0.05)


def test_a_still_group_has_the_error_it_is_given_but_showed_no_noise():
    directions = np.zeros((10, 2))
    directions[:, 1] = 10**-0.5
    noise = draw_noise(directions, np.array([0.5, 0.1]), np.array([np.inf, 200.0]), draws=20_000, seed=0)
    np.testing.assert_allclose(noise.heavy.std(axis=0), [0.5, 0.1], rtol=0.05)
    np.testing.assert_allclose(np.corrcoef(noise.heavy, rowvar=False), np.eye(2), atol=0.03)
    np.testing.assert_allclose(noise.normal.std(axis=0), [0.0, 0.1], rtol=0.05)
    np.testing.assert_array_equal(noise.seen().heavy[:, 0], 0.0)


def test_draws_are_enough_for_the_tail_and_not_too_many():
    assert draws_for(5, 0.05) == 8000
    assert draws_for(1000, 0.05) == 1000
    assert draws_for(5, 0.001) == 50_000


def two_groups(difference):
    """Two estimates whose difference has standard error 1, known exactly."""
    half = np.random.default_rng(0).normal(size=(20_000, 2)) * np.sqrt(0.5)
    draws = np.concatenate([half, -half])
    return RangeTest(np.array([difference, 0.0]), noise_with([np.sqrt(0.5)] * 2, draws))


def test_two_groups_far_apart_give_the_normal_interval():
    test = two_groups(10.0)
    found = test.spread(0.95)
    half = np.quantile(np.abs(test.noise.heavy[:, 0] - test.noise.heavy[:, 1]), 0.95)
    assert half == pytest.approx(1.96, rel=0.03)
    assert (found.low, found.high) == pytest.approx((10 - half, 10 + half), abs=5e-3)
    assert found.debiased == pytest.approx(10, abs=1e-3)


def test_two_equal_groups_give_an_interval_from_zero():
    found = two_groups(0.5).spread(0.95)
    assert found.low == 0
    assert found.floor == pytest.approx(np.sqrt(2 / np.pi), rel=0.02)  # E |N(0, 1)|
    assert found.floor_high == pytest.approx(1.96, rel=0.02)
    assert found.debiased == pytest.approx(0.5 - np.sqrt(2 / np.pi), abs=0.02)  # noise alone shows more
    assert two_groups(1.9).spread(0.95).low == 0
    assert two_groups(2.1).spread(0.95).low > 0


def test_p_values_of_two_groups_are_those_of_a_normal_difference():
    assert two_groups(1.96).p_exceeds(0.0) == pytest.approx(0.05, abs=0.005)  # two-sided at 0
    assert two_groups(6.645).p_exceeds(5.0) == pytest.approx(0.05, abs=0.005)  # one-sided far from it


def test_a_tiny_noisy_group_does_not_hide_a_clear_difference():
    half = np.random.default_rng(0).normal(size=(2000, 3)) * [0.002, 0.002, 0.16]
    both = np.concatenate([half, -half])
    found = RangeTest(np.array([0.5, 0.6, 0.55]), noise_with([0.002, 0.002, 0.16], both)).spread(0.95)
    assert found.low > 0.09
    assert found.high > 0.2  # the tiny group itself may be far off
    assert found.low <= found.debiased <= found.high


def test_the_example_in_the_docstring():
    """z = (0.5, 0.3) with errors of 0.03: a range of 0.1 is refused, 0.117 .. 0.283 is kept."""
    half = np.random.default_rng(0).normal(size=(50_000, 2)) * 0.03
    test = RangeTest(np.array([0.5, 0.3]), noise_with([0.03, 0.03], np.concatenate([half, -half])))
    assert excess_ratio(test.z[None], test.noise.error, 0.1)[0] == pytest.approx(1.67, abs=0.005)
    np.testing.assert_allclose(tie(test.z, test.z, test.noise.error, 0.1, 1.0), [0.45, 0.35])
    assert test.interval(0.95) == pytest.approx((0.117, 0.283), abs=1.5e-3)


@pytest.mark.parametrize("groups", [2, 3, 8, 9, 10, 40])
def test_groups_that_showed_no_noise_may_still_differ_by_what_was_not_seen(groups):
    """Ten still groups once gave the interval 0 .. 0: their bounds were taken for noise that they failed to show."""
    error = np.full(groups, 0.03)
    noise = draw_noise(np.zeros((50, groups)), error, np.full(groups, np.inf), draws=4000, seed=0)
    found = RangeTest(np.ones(groups), noise).spread(0.95)
    assert (found.estimate, found.debiased, found.low, found.floor) == (0, 0, 0, 0)
    assert found.high == pytest.approx(stats.norm.ppf(0.95) * 0.03 * np.sqrt(2))
