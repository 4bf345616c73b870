"""Several different parts in one action: probabilities against all possible draws, samples against probabilities."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from elbert.learning.subsets import Subset

SCORES = np.asarray([0.3, -1.0, 1.2, 0.1], np.float32)  # three parts, then nobody


def subset(count, draws, nobody):
    return Subset(count, draws, nobody, (0,) * draws, (draws,))


def by_hand(scores, action, count):
    """Draw after draw: the chosen one's share of what is left; a part is gone afterwards, nobody stays."""
    left, p = dict(enumerate(np.exp(np.asarray(scores, float)))), 1.0
    for choice in action:
        p *= left[choice] / sum(left.values())
        if choice < count:
            del left[choice]
    return p


def rows_of(count, draws, nobody):
    return [
        row
        for row in itertools.product(range(count + nobody), repeat=draws)
        if len({c for c in row if c < count}) == sum(c < count for c in row)
    ]


@pytest.mark.parametrize(("draws", "nobody"), [(2, True), (3, True), (5, True), (2, False), (3, False)])
def test_probabilities_are_those_of_one_draw_after_the_other(draws, nobody):
    d, scores, rows = subset(3, draws, nobody), SCORES[: 3 + nobody], rows_of(3, draws, nobody)
    log_p = jax.jit(d.log_prob)(jnp.tile(scores, (len(rows), 1)), jnp.asarray(rows))
    assert np.allclose(np.exp(log_p), [by_hand(scores, row, 3) for row in rows], atol=1e-6)
    assert float(np.exp(log_p).sum()) == pytest.approx(1, abs=1e-5), "these are all actions that there are"


@pytest.mark.parametrize(("draws", "nobody"), [(2, True), (4, True), (2, False)])
def test_samples_follow_the_probabilities(draws, nobody):
    d, scores, many = subset(3, draws, nobody), SCORES[: 3 + nobody], 100_000
    drawn = np.asarray(
        jax.jit(lambda key: d.sample(jnp.tile(scores, (many, 1)), d.noise(key, (many,))))(jax.random.key(0))
    )
    seen, counts = np.unique(drawn, axis=0, return_counts=True)
    expected = {row: by_hand(scores, row, 3) for row in rows_of(3, draws, nobody)}
    assert {tuple(map(int, row)) for row in seen} <= set(expected), "no part is drawn twice"
    for row, count in zip(seen, counts, strict=True):
        p = expected[tuple(map(int, row))]
        assert abs(count / many - p) < 4.5 * np.sqrt(p / many), row


def test_the_mode_takes_the_largest_scores_and_leaves_the_rest_unused():
    d = subset(3, 4, True)
    assert d.mode(jnp.asarray(SCORES)).tolist() == [2, 0, 3, 3], "part 1 scores less than nobody"
    assert subset(3, 2, False).mode(jnp.asarray(SCORES[:3])).tolist() == [2, 0]


def test_a_part_that_takes_nearly_all_weight_does_not_cancel_the_others():
    """Subtracted from the sum, it would leave 0 in float32, and the second draw would have probability NaN."""
    d = subset(3, 2, True)
    scores = jnp.asarray([40.0, 0.0, 0.0, 0.0])
    value, slope = jax.jit(jax.value_and_grad(lambda s: d.log_prob(s, jnp.asarray([0, 1]))))(scores)
    assert float(value) == pytest.approx(-np.log(3), abs=1e-5)
    assert np.isfinite(slope).all()


def test_the_gradient_is_that_of_the_definition():
    d, action = subset(3, 5, True), jnp.asarray([3, 2, 3, 0, 3])
    slope = jax.jit(jax.grad(lambda s: d.log_prob(s, action)))(jnp.asarray(SCORES))

    def plain(scores):
        left, total = jnp.ones(4), jnp.zeros(())
        for choice in (3, 2, 3, 0, 3):
            total += scores[choice] - jnp.log(jnp.sum(left * jnp.exp(scores)))
            left = left if choice == 3 else left.at[choice].set(0.0)
        return total

    assert np.allclose(slope, jax.jit(jax.grad(plain))(jnp.asarray(SCORES)), atol=1e-5)


def test_entropy_and_description_are_those_of_the_first_draw():
    d = subset(3, 2, True)
    p = np.exp(SCORES) / np.exp(SCORES).sum()
    assert np.allclose(d.described(jnp.asarray(SCORES)), p, atol=1e-6)
    assert float(d.entropy(jnp.asarray(SCORES))) == pytest.approx(-2 * (p * np.log(p)).sum(), abs=1e-5)


def test_many_people_and_doses_need_no_matrix_of_both():
    d = subset(100_000, 500, True)
    numbers = jax.ShapeDtypeStruct((2, d.size), jnp.float32)
    noise = jax.eval_shape(lambda key: d.noise(key, (2,)), jax.random.key(0))

    def both(numbers, noise):
        action = d.sample(numbers, noise)
        return action, d.log_prob(numbers, action)

    largest = max(
        int(np.prod(variable.aval.shape))
        for equation in jax.make_jaxpr(both)(numbers, noise).eqns
        for variable in equation.outvars
    )
    assert largest < 2 * 2 * d.size


def test_the_space_is_met_where_it_starts():
    d = Subset(3, 2, True, (1, 1), (2,))
    assert d.to_env(np.asarray([[0, 3]])).tolist() == [[1, 4]]
