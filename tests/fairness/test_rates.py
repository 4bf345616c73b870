"""Totals, rates, bias, impact ratio, soft bias: numbers by hand, laws, both kinds of array."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from elbert.errors import InvalidInputError, NotEstimableError
from elbert.fairness import (
    benefit_rate,
    bias,
    centred_soft_bias,
    impact_ratio,
    long_term_benefit_rate,
    soft_bias,
    totals,
)

SUPPLY = np.array([[1.0, 0.0, 2.0], [3.0, 1.0, 0.0]])  # [steps, groups]
DEMAND = np.array([[2.0, 4.0, 2.0], [4.0, 1.0, 3.0]])


def rates_of(groups, low=-1e3, high=1e3):
    return hnp.arrays(float, groups, elements=st.floats(low, high, allow_subnormal=False))


many_rates = st.integers(2, 8).flatmap(rates_of)
betas = st.floats(1e-3, 1e6)
COMPARISONS = [bias, soft_bias, centred_soft_bias, impact_ratio]


def test_totals_by_hand():
    total = totals(SUPPLY, DEMAND)
    np.testing.assert_array_equal(total.supply, [4, 1, 2])
    np.testing.assert_array_equal(total.demand, [6, 5, 5])
    total = totals(SUPPLY, DEMAND, discount=0.5)
    np.testing.assert_array_equal(total.supply, [2.5, 0.5, 2])
    np.testing.assert_array_equal(total.demand, [4, 4.5, 3.5])


def test_totals_of_a_middle_axis():
    supply = np.arange(24.0).reshape(2, 3, 4)
    total = totals(supply, supply + 1, axis=1)
    np.testing.assert_array_equal(total.supply, supply.sum(axis=1))
    np.testing.assert_array_equal(total.demand, supply.sum(axis=1) + 3)


def test_rates_and_bias_by_hand():
    rates = long_term_benefit_rate(SUPPLY, DEMAND)
    np.testing.assert_array_equal(rates, [4 / 6, 1 / 5, 2 / 5])
    assert bias(rates) == 4 / 6 - 1 / 5
    assert impact_ratio(rates) == pytest.approx((1 / 5) / (4 / 6), rel=1e-15)


def test_whole_numbers_and_lists_are_welcome():
    assert benefit_rate([1, 3], [2, 4]).tolist() == [0.5, 0.75]


def test_soft_bias_by_hand():
    beta, rates = 2.0, np.array([0.0, 1.0, 0.5])
    direct = (np.log(np.exp(beta * rates).sum()) + np.log(np.exp(-beta * rates).sum())) / beta
    assert soft_bias(rates, beta=beta) == pytest.approx(direct, rel=1e-14)
    assert centred_soft_bias(rates, beta=beta) == pytest.approx(direct - 2 * np.log(3) / beta, rel=1e-13)


@given(many_rates, betas)
def test_soft_bias_lies_between_its_bounds(rates, beta):
    hard, soft = bias(rates), soft_bias(rates, beta=beta)
    assert hard <= soft <= hard + 2 * np.log(rates.size) / beta + 1e-12 * abs(hard)


@given(many_rates, betas)
def test_centred_soft_bias_is_a_lower_bound(rates, beta):
    hard, centred = bias(rates), centred_soft_bias(rates, beta=beta)
    slack = 1e-12 * (1 + hard)
    assert hard - 2 * np.log(rates.size) / beta - slack <= centred <= hard + slack


@given(st.floats(-1e300, 1e300), st.integers(1, 9), st.floats(1e-3, 1e300))
def test_equal_rates_have_no_bias(rate, groups, beta):
    rates = np.full(groups, rate)
    assert bias(rates) == 0
    assert centred_soft_bias(rates, beta=beta) == 0
    assert soft_bias(rates, beta=beta) == pytest.approx(2 * np.log(groups) / beta)


@pytest.mark.parametrize("beta", [1e-12, 1.0, 1e3, 1e150, 1e308])
@pytest.mark.parametrize("size", [1e-300, 1.0, 1e10, 1e300])
def test_soft_bias_is_finite_for_any_beta_and_rate(beta, size):
    rates = size * np.array([-0.5, 0.25, 0.5])
    assert np.isfinite(soft_bias(rates, beta=beta))
    assert np.isfinite(centred_soft_bias(rates, beta=beta))


def test_large_beta_gives_the_hard_bias_and_small_beta_the_variance():
    rates = np.array([0.1, 0.4, 0.9])
    assert soft_bias(rates, beta=1e12) == pytest.approx(0.8, rel=1e-11)
    # log mean exp(beta z) + log mean exp(-beta z) = beta^2 var(z) + O(beta^4)
    assert centred_soft_bias(rates, beta=1e-3) == pytest.approx(1e-3 * rates.var(), rel=1e-5)


@given(many_rates, st.randoms(use_true_random=False))
def test_permuting_groups_permutes_rates_and_leaves_the_bias(rates, random):
    order = list(range(rates.size))
    random.shuffle(order)
    supply, demand = np.abs(rates), np.abs(rates) + 1
    np.testing.assert_array_equal(benefit_rate(supply, demand)[order], benefit_rate(supply[order], demand[order]))
    assert bias(rates) == bias(rates[order])
    assert soft_bias(rates) == pytest.approx(soft_bias(rates[order]), rel=1e-12)


def test_leading_axes_are_left_alone():
    rates = np.random.default_rng(0).random((4, 2, 3))
    for compare in COMPARISONS:
        np.testing.assert_allclose(compare(rates), [[compare(row) for row in block] for block in rates], rtol=1e-14)


@pytest.mark.parametrize("compare", COMPARISONS)
def test_jit_equals_plain_and_vmap_equals_loop(compare):
    rates = jnp.asarray(np.random.default_rng(1).random((5, 3)), dtype=jnp.float32)
    plain = compare(np.asarray(rates, dtype=float))
    with jax.checking_leaks():
        np.testing.assert_allclose(jax.jit(compare)(rates), plain, rtol=2e-5)
        np.testing.assert_allclose(jax.vmap(compare)(rates), plain, rtol=2e-5)
    np.testing.assert_allclose(compare(rates), plain, rtol=2e-5)


def test_jitted_totals_and_rates_equal_plain_ones():
    plain = long_term_benefit_rate(SUPPLY, DEMAND, discount=0.9)
    jitted = jax.jit(lambda s, d: long_term_benefit_rate(s, d, discount=0.9))(jnp.asarray(SUPPLY), jnp.asarray(DEMAND))
    assert isinstance(jitted, jax.Array)
    np.testing.assert_allclose(jitted, plain, rtol=1e-6)
    batch = jax.vmap(benefit_rate)(jnp.asarray(SUPPLY), jnp.asarray(DEMAND))
    np.testing.assert_allclose(batch, SUPPLY / DEMAND, rtol=1e-6)


@pytest.mark.slow
def test_counts_beyond_single_precision_add_up():
    ones = np.ones((2**24 + 2, 1), dtype=np.float32)
    assert totals(ones, ones).supply[0] == 2**24 + 2


def test_lists_of_jax_arrays_are_welcome():
    assert bias([jnp.float32(0.25), jnp.float32(0.5)]) == 0.25
    assert jax.jit(lambda a, b: bias([a, b]))(0.25, 0.5) == 0.25


def test_discount_can_be_traced():
    jitted = jax.jit(lambda g: totals(jnp.asarray(SUPPLY), jnp.asarray(DEMAND), discount=g).supply)(0.5)
    np.testing.assert_allclose(jitted, [2.5, 0.5, 2])


@pytest.mark.parametrize("compare", COMPARISONS)
def test_comparing_nobody_is_nan_under_jit(compare):
    assert np.isnan(jax.jit(compare)(jnp.array([0.1, 0.2]), where=jnp.array([False, False])))


def test_beta_can_be_mapped_over():
    rates, temperatures = jnp.array([0.1, 0.5, 0.7]), jnp.array([1.0, 20.0])
    mapped = jax.vmap(lambda beta: soft_bias(rates, beta=beta))(temperatures)
    np.testing.assert_allclose(mapped, [soft_bias(np.asarray(rates), beta=b) for b in (1.0, 20.0)], rtol=1e-6)


@pytest.mark.parametrize("compare", COMPARISONS)
def test_where_leaves_groups_out(compare):
    rates = np.array([0.2, np.nan, 0.5, 0.9])
    mask = np.array([True, False, True, False])
    expected = compare(np.array([0.2, 0.5]))
    assert compare(rates, where=mask) == pytest.approx(expected, rel=1e-14)
    jitted = jax.jit(compare)(jnp.asarray(rates), where=jnp.asarray(mask))
    assert float(jitted) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("compare", [bias, soft_bias, centred_soft_bias])
def test_slope_is_finite_when_a_group_is_left_out(compare):
    rates, mask = jnp.array([0.2, jnp.nan, 0.5]), jnp.array([True, False, True])
    slope = jax.grad(lambda z: compare(z, where=mask))(jnp.where(mask, rates, 0.0))
    assert np.isfinite(slope).all()
    assert slope[1] == 0


def test_a_group_without_demand_has_no_rate():
    with pytest.raises(NotEstimableError, match="Group 1 has no demand"):
        benefit_rate([1.0, 0.0], [2.0, 0.0])
    rates = benefit_rate([1.0, 0.0], [2.0, 0.0], without_demand="nan")
    assert rates[0] == 0.5
    assert np.isnan(rates[1])
    with pytest.raises(NotEstimableError, match=r"group\(s\) \[1\]"):
        bias(rates)
    jitted = jax.jit(benefit_rate)(jnp.array([1.0, 0.0]), jnp.array([2.0, 0.0]))
    assert np.isnan(jitted[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: benefit_rate([1.0], [-2.0]), "demand is negative in 1 of 1 entries, first at index"),
        (lambda: benefit_rate([-1.0], [2.0]), "supply is negative"),
        (lambda: benefit_rate([1.0, np.inf], [2.0, 2.0]), "supply is not finite"),
        (lambda: benefit_rate([1.0, 1.0], [2.0, np.nan]), "demand is not finite"),
        (lambda: benefit_rate([1.0, 2.0], [2.0]), r"supply has shape \(2,\) but demand has shape \(1,\)"),
        (lambda: benefit_rate(1.0, 2.0), "one number per group"),
        (lambda: benefit_rate(np.empty((3, 0)), np.empty((3, 0))), "no group"),
        (lambda: benefit_rate([[1.0], [1.0, 2.0]], [1.0]), "not an array of numbers"),
        (lambda: benefit_rate(["a"], ["b"]), "Give real numbers"),
        (lambda: benefit_rate([1j], [1j]), "Give real numbers"),
        (lambda: benefit_rate([1.0], [1.0], without_demand="zero"), "without_demand"),  # pyright: ignore[reportArgumentType]
        (lambda: totals(SUPPLY, DEMAND, axis=1), "last axis is the groups"),
        (lambda: totals(SUPPLY, DEMAND, axis=5), "axis is 5"),
        (lambda: totals(SUPPLY, DEMAND, discount=1.5), "discount is 1.5"),
        (lambda: soft_bias([0.1, 0.2], beta=0.0), "beta is 0.0"),
        (lambda: soft_bias([0.1, 0.2], beta=np.inf), "beta is inf"),
        (lambda: soft_bias([0.1, 0.2], beta=np.ones(2)), "map over several"),
        (lambda: soft_bias([0.1, 0.2], beta="20"), "beta is '20'"),  # pyright: ignore[reportArgumentType]
        (lambda: soft_bias([0.1, 0.2], beta=1e-310), "beta is 1e-310"),
        (lambda: soft_bias(jnp.array([0.1, 0.2]), beta=1e39), "beta is 1e[+]39"),
        (lambda: totals(SUPPLY, DEMAND, axis=0.0), "axis is 0.0"),  # pyright: ignore[reportArgumentType]
        (lambda: totals(SUPPLY, DEMAND, discount="1"), "discount is '1'"),  # pyright: ignore[reportArgumentType]
        (lambda: bias(0.5), "one rate per group"),
        (lambda: bias([0.1, 0.2], where=[1, 0]), "where has dtype"),
        (lambda: bias([0.1, 0.2], where=[True, False, True]), "where has shape"),
        (lambda: bias([0.1, 0.2], where=[False, False]), "no group to compare"),
        (lambda: impact_ratio([0.0, 0.0]), "nobody received anything"),
        (lambda: impact_ratio([-0.1, 0.5]), "A rate is negative"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_one_group_has_no_bias():
    assert bias([0.3]) == 0
    assert impact_ratio([0.3]) == 1
