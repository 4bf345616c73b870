"""Step-wise notions and the weights of decisions, on the paper's two trajectories and beyond."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from elbert.errors import InvalidInputError, NotEstimableError
from elbert.experiments.two_trajectories import TRAJECTORY_A, TRAJECTORY_B, TwoTrajectories
from elbert.fairness import decision_weights, stepwise_difference, stepwise_squared_difference

A, B = TRAJECTORY_A, TRAJECTORY_B


def test_trajectory_a_looks_unbiased_step_by_step():
    assert stepwise_difference(A.supply, A.demand) == 0
    assert stepwise_squared_difference(A.supply, A.demand) == 0


def test_trajectory_b_looks_biased_step_by_step():
    assert stepwise_difference(B.supply, B.demand) == pytest.approx(0.99, rel=1e-14)
    assert stepwise_squared_difference(B.supply, B.demand) == pytest.approx(0.01**2 + 1, rel=1e-14)


def test_both_have_the_same_long_term_bias():
    a, b = TwoTrajectories().readings
    assert a.long_term_bias == b.long_term_bias == pytest.approx(99 / 101, rel=1e-15)
    np.testing.assert_array_equal(a.long_term_benefit_rates, [100 / 101, 1 / 101])
    np.testing.assert_array_equal(b.long_term_benefit_rates, a.long_term_benefit_rates)


def test_weights_of_decisions():
    np.testing.assert_allclose(decision_weights(A.demand, aggregation="step-wise"), [[1, 0.01], [0.01, 1]])
    np.testing.assert_allclose(decision_weights(A.demand, aggregation="long-term"), np.full((2, 2), 1 / 101))


def test_weights_times_supply_are_the_rates():
    rng = np.random.default_rng(0)
    demand = rng.integers(1, 9, (6, 3)).astype(float)
    supply = np.floor(demand * rng.random((6, 3)))
    summed = (decision_weights(demand, aggregation="step-wise") * supply).sum(axis=0)
    assert np.ptp(summed) == pytest.approx(stepwise_difference(supply, demand))
    long_term = (decision_weights(demand, aggregation="long-term") * supply).sum(axis=0)
    np.testing.assert_allclose(long_term, supply.sum(axis=0) / demand.sum(axis=0))


def test_a_step_without_demand():
    supply, demand = np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[2.0, 0.0], [1.0, 2.0]])
    with pytest.raises(NotEstimableError, match="Group 1 has no demand at step 0"):
        stepwise_difference(supply, demand)
    assert stepwise_difference(supply, demand, without_demand="skip") == 0.5
    assert stepwise_squared_difference(supply, demand, without_demand="skip") == 0.25
    with pytest.raises(NotEstimableError, match="At no step"):
        stepwise_difference(supply[:1], demand[:1], without_demand="skip")
    weights = decision_weights(demand, aggregation="long-term")
    np.testing.assert_array_equal(np.isnan(weights), [[False, True], [False, False]])
    assert np.isnan(jax.jit(stepwise_squared_difference)(jnp.asarray(supply), jnp.asarray(demand)))


@pytest.mark.parametrize("notion", [stepwise_difference, stepwise_squared_difference])
def test_jit_equals_plain_and_vmap_equals_loop(notion):
    rng = np.random.default_rng(2)
    supply, demand = rng.random((4, 5, 3)), rng.random((4, 5, 3)) + 1
    plain = np.array([notion(s, d) for s, d in zip(supply, demand, strict=True)])
    np.testing.assert_allclose(notion(supply, demand), plain, rtol=1e-13)
    with jax.checking_leaks():
        mapped = jax.jit(jax.vmap(notion))(jnp.asarray(supply), jnp.asarray(demand))
    np.testing.assert_allclose(mapped, plain, rtol=1e-5)


@pytest.mark.parametrize(
    "call",
    [
        lambda: stepwise_difference([1.0], [1.0]),
        lambda: stepwise_difference(np.empty((0, 2)), np.empty((0, 2))),
        lambda: stepwise_difference(A.supply, A.demand, without_demand="nan"),  # pyright: ignore[reportArgumentType]
        lambda: decision_weights(A.demand, aggregation="daily"),  # pyright: ignore[reportArgumentType]
        lambda: decision_weights(-A.demand, aggregation="long-term"),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(InvalidInputError):
        call()
