"""The penalty h and its slope: closed forms, finite differences in float64, several criteria, your own h."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from elbert.errors import InvalidInputError
from elbert.fairness import bias, centred_soft_bias, penalty_slope, soft_bias, squared_bias

RATES = np.array([0.31, 0.74, 0.52])


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def finite_differences(penalty, rates, step=1e-6):
    slope = np.empty_like(rates)
    for index in np.ndindex(rates.shape):
        up, down = rates.copy(), rates.copy()
        up[index] += step
        down[index] -= step
        slope[index] = (penalty(up) - penalty(down)) / (2 * step)
    return slope


def test_hard_for_two_groups_soft_for_more():
    assert squared_bias([0.2, 0.5]) == pytest.approx(0.09, rel=1e-15)
    assert squared_bias(RATES) == soft_bias(RATES) ** 2
    assert squared_bias(RATES, kind="hard") == bias(RATES) ** 2
    assert squared_bias(RATES, kind="centred", beta=5.0) == centred_soft_bias(RATES, beta=5.0) ** 2


def test_criteria_add_up():
    both = np.array([[0.2, 0.5], [0.1, 0.9]])
    assert squared_bias(both) == pytest.approx(0.3**2 + 0.8**2, rel=1e-15)
    np.testing.assert_allclose(penalty_slope(both), [[-0.6, 0.6], [-1.6, 1.6]], rtol=1e-14)


def test_slopes_in_closed_form():
    np.testing.assert_allclose(penalty_slope(np.array([0.5, 0.2])), [0.6, -0.6], rtol=1e-14)
    beta = 20.0
    expected = 2 * soft_bias(RATES, beta=beta) * (softmax(beta * RATES) - softmax(-beta * RATES))
    np.testing.assert_allclose(penalty_slope(RATES), expected, rtol=1e-13)


def own_variance(rates):
    return ((rates - rates.mean()) ** 2).sum()


def own_worst_off(rates):
    return -jnp.log(rates.min() + 1.0) if isinstance(rates, jax.Array) else -np.log(rates.min() + 1.0)


@pytest.mark.parametrize("shape", [(2,), (3,), (7,), (2, 2), (2, 5)])
@pytest.mark.parametrize(
    "penalty",
    [
        squared_bias,
        lambda z: squared_bias(z, kind="soft", beta=3.0),
        lambda z: squared_bias(z, kind="centred"),
        lambda z: squared_bias(z, kind="hard"),
        own_variance,
        own_worst_off,
    ],
)
def test_slopes_agree_with_finite_differences_in_float64(penalty, shape):
    rates = np.random.default_rng(3).random(shape)
    slope = penalty_slope(rates, penalty)
    assert slope.dtype == np.float64
    np.testing.assert_allclose(slope, finite_differences(penalty, rates), rtol=1e-6, atol=1e-8)


@pytest.mark.slow
@settings(max_examples=40)
@given(hnp.arrays(float, 4, elements=st.floats(0, 1)), st.permutations(range(4)))
def test_permuting_groups_permutes_slopes(rates, order):
    order = list(order)
    np.testing.assert_allclose(penalty_slope(rates)[order], penalty_slope(rates[order]), rtol=1e-9, atol=1e-12)


def test_equal_rates_have_no_slope():
    for groups in (2, 5):
        np.testing.assert_allclose(penalty_slope(np.full(groups, 0.4)), 0.0, atol=1e-15)


@pytest.mark.slow
def test_jax_rates_stay_with_jax():
    rates = jnp.asarray(RATES, dtype=jnp.float32)
    slope = penalty_slope(rates)
    assert isinstance(slope, jax.Array)
    assert slope.dtype == jnp.float32
    with jax.checking_leaks():
        np.testing.assert_allclose(jax.jit(penalty_slope)(rates), penalty_slope(RATES), rtol=1e-4)
    constant = jax.jit(lambda x: x + penalty_slope(RATES).sum())(0.0)  # NumPy rates inside a traced function
    assert float(constant) == pytest.approx(penalty_slope(RATES).sum(), abs=1e-6)
    batch = jnp.stack([rates, 1 - rates])
    np.testing.assert_allclose(jax.vmap(penalty_slope)(batch)[1], penalty_slope(batch[1]), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: squared_bias(np.ones((2, 2, 2))), r"\[groups\] or \[criteria, groups\]"),
        (lambda: squared_bias(RATES, kind="smooth"), "kind is 'smooth'"),  # pyright: ignore[reportArgumentType]
        (lambda: penalty_slope(RATES, lambda z: z**2), "not one number"),
        (lambda: penalty_slope(RATES, lambda z: None), "returns NoneType"),
        (lambda: penalty_slope(RATES, lambda z: (z > 0).sum()), "returns int"),
        (lambda: penalty_slope(RATES, lambda z: float(z.sum())), "Write it with jax.numpy"),
        (lambda: penalty_slope(RATES, "hard"), "penalty is 'hard'"),  # pyright: ignore[reportArgumentType]
        (lambda: penalty_slope(RATES, lambda z: float(np.asarray(z).max())), "Write it with jax.numpy"),
        (lambda: penalty_slope(np.zeros(2), lambda z: jnp.sqrt(z.sum())), "not finite at the rates"),
    ],
)
def test_bad_penalties_are_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
