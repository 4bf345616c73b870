"""Distributions over actions: probabilities add up, samples follow them, spaces get what they want."""
# pyright: reportArgumentType=false, reportCallIssue=false, reportOptionalOperand=false, reportOperatorIssue=false

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from elbert.envs import Parts
from elbert.errors import InvalidInputError
from elbert.learning import Settings
from elbert.learning.distributions import Gaussian, distribution_for
from elbert.learning.networks import Model, Shape


@pytest.mark.slow
def test_choices_follow_their_probabilities():
    d = distribution_for(gymnasium.spaces.Discrete(3, start=5))
    numbers = jnp.log(jnp.asarray([0.2, 0.5, 0.3]))
    drawn = d.sample(jnp.tile(numbers, (200_000, 1)), d.noise(jax.random.key(0), (200_000,)))
    assert np.allclose(np.bincount(drawn[:, 0]) / 200_000, [0.2, 0.5, 0.3], atol=0.005)
    each = d.log_prob(jnp.tile(numbers, (3, 1)), jnp.arange(3)[:, None])
    assert np.allclose(np.exp(each), [0.2, 0.5, 0.3], atol=1e-6)
    assert float(d.entropy(numbers)) == pytest.approx(scipy.stats.entropy([0.2, 0.5, 0.3]), abs=1e-6)
    assert d.to_env(np.asarray([[0], [2]])).tolist() == [5, 7]
    assert d.mode(numbers).tolist() == [1]


def test_a_choice_without_probability_is_never_drawn():
    d = distribution_for(gymnasium.spaces.Discrete(3))
    numbers = jnp.tile(jnp.asarray([-jnp.inf, 0.0, -jnp.inf]), (3, 1))
    noise = jnp.asarray([0.0, 0.5, np.nextafter(1, 0, dtype=np.float32)])[:, None]
    assert d.sample(numbers, noise).tolist() == [[1], [1], [1]]


@pytest.mark.slow
def test_several_choices_are_independent():
    space = gymnasium.spaces.MultiDiscrete([[2, 3]], start=[[1, 0]])
    d = distribution_for(space)
    numbers = jnp.asarray([0.1, 0.7, -0.3, 0.2, 0.5])
    pairs = jnp.asarray([(i, j) for i in range(2) for j in range(3)])
    log_p = d.log_prob(jnp.tile(numbers, (6, 1)), pairs)
    assert float(jnp.exp(log_p).sum()) == pytest.approx(1, abs=1e-6)
    assert float(d.entropy(numbers)) == pytest.approx(float(-(jnp.exp(log_p) * log_p).sum()), abs=1e-6)
    drawn = d.to_env(np.asarray(d.sample(jnp.tile(numbers, (50, 1)), d.noise(jax.random.key(1), (50,)))))
    assert drawn.shape == (50, 1, 2)
    assert all(space.contains(one.astype(space.dtype)) for one in drawn)
    assert distribution_for(gymnasium.spaces.MultiBinary(4)).to_env(np.zeros((2, 4), np.int32)).shape == (2, 4)


def test_real_numbers_are_normal_and_clipped_for_the_environment():
    d = distribution_for(gymnasium.spaces.Box(-1.0, np.asarray([1.0, np.inf], np.float32), dtype=np.float32))
    numbers = jnp.asarray([0.5, -2.0, np.log(0.3), np.log(2.0)])
    action = jnp.asarray([0.7, 1.0])
    expected: Any = scipy.stats.norm([0.5, -2.0], [0.3, 2.0])
    assert float(d.log_prob(numbers, action)) == pytest.approx(expected.logpdf([0.7, 1.0]).sum(), abs=1e-5)
    assert float(d.entropy(numbers)) == pytest.approx(expected.entropy().sum(), abs=1e-5)
    drawn = np.asarray(d.sample(jnp.tile(numbers, (100_000, 1)), d.noise(jax.random.key(2), (100_000,))))
    assert np.allclose(drawn.mean(axis=0), [0.5, -2.0], atol=0.03)
    assert np.allclose(drawn.std(axis=0), [0.3, 2.0], atol=0.03)
    assert d.to_env(np.asarray([5.0, 5.0])).tolist() == [1.0, 5.0]
    assert d.mode(numbers).tolist() == [0.5, -2.0]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mlp", "parts"])
def test_real_numbers_start_in_the_middle_of_their_limits(policy):
    """Where there are two. From a start at an end, clipping would hide half of the actions."""
    high = np.asarray([[1.0, 4.0, np.inf]] * 2, np.float32)
    low = np.asarray([[0.0, 2.0, 5.0]] * 2, np.float32)
    d = distribution_for(gymnasium.spaces.Box(low, high, dtype=np.float32))
    parts = Parts(np.arange(8).reshape(2, 4), group=np.arange(2))
    shape = Shape(8, d, ("rate",), 2, parts)
    model = Model(Settings.of({"policy": policy, "hidden": [6], "initial_deviation": 0.1}), shape)
    numbers = model.policy(model.init(jax.random.key(0)), jax.random.normal(jax.random.key(1), (50, 8)))
    middle = np.asarray([[0.5, 3.0, 0.0]] * 2)
    assert np.allclose(d.described(numbers)[0], middle, atol=0.1)  # the head's gain of 0.01 leaves this much
    assert np.allclose(d.to_env(d.mode(numbers)), np.clip(middle, low, high), atol=0.1)
    noise = d.noise(jax.random.key(2), (50,))
    assert np.allclose(d.sample(numbers, noise).mean(axis=0), middle.reshape(-1), atol=0.1)


def test_limits_around_zero_start_at_zero():
    d = distribution_for(gymnasium.spaces.Box(-3.0, 3.0, (4,), np.float32))
    assert isinstance(d, Gaussian)
    assert d.start.tobytes() == np.zeros(4, np.float32).tobytes()
    largest = distribution_for(gymnasium.spaces.Box(0.0, np.finfo(np.float32).max, (1,), np.float32))
    assert isinstance(largest, Gaussian)
    assert largest.start.tolist() == [0.0], "the largest float32 stands for no limit"


SPACES = {
    "choices": gymnasium.spaces.MultiDiscrete([3, 2]),
    "real numbers": gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32),
}


@pytest.mark.slow
@pytest.mark.parametrize("space", SPACES)
def test_divergence_is_the_mean_of_the_difference_of_log_probabilities(space):
    """KL(p || q) = E_p[log p - log q], and 0 of a distribution from itself."""
    d = distribution_for(SPACES[space])
    size = d.size * (2 if d.learns_deviation else 1)
    p, q = jax.random.normal(jax.random.key(0), (2, size)) * 0.5
    several = jnp.broadcast_to(p[None], (40_000, size))
    action = d.sample(several, d.noise(jax.random.key(1), (40_000,)))
    difference = d.log_prob(several, action) - d.log_prob(jnp.broadcast_to(q[None], several.shape), action)
    error = float(jnp.std(difference)) / 200
    assert float(d.divergence(p, q)) == pytest.approx(float(jnp.mean(difference)), abs=4 * error)
    assert float(d.divergence(p, p)) == pytest.approx(0.0, abs=1e-6)


def test_other_spaces_are_refused():
    with pytest.raises(InvalidInputError, match="Discrete, MultiDiscrete, MultiBinary and Box"):
        distribution_for(gymnasium.spaces.Text(3))
