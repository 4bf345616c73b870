"""Worlds that are judged by another notion than the one whose rates a policy sees."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from elbert.envs import Credit, Lending, make_world
from elbert.envs.registry import ENTRIES
from elbert.errors import InvalidInputError


@pytest.mark.parametrize("make", [Lending, partial(Credit, bin_width=50)], ids=["lending", "credit"])
def test_counting_by_another_notion_changes_nothing_that_a_policy_sees(make):
    """Supply and demand are those of the notion counted by; the observed rates go on following the other."""
    plain, counted = make(), make(counted="decision-rates")
    assert [criterion.name for criterion in counted.benefit.criteria] == [
        *("acceptance rate", "true positive rate", "false positive rate", "accuracy")
    ]

    def course(world):
        def one_step(state, key):
            key_action, key_step = jax.random.split(key)
            return world.step(key_step, state, jax.random.bernoulli(key_action).astype(jnp.int32))

        return jax.lax.scan(one_step, world.reset(jax.random.key(0))[0], jax.random.split(jax.random.key(1), 200))[1]

    one, other = course(plain), course(counted)
    assert np.array_equal(one.observation, other.observation)
    assert np.array_equal(one.reward, other.reward)
    assert np.array_equal(one.supply[:, 0], other.supply[:, 1])
    assert np.array_equal(one.demand[:, 0], other.demand[:, 1])
    assert np.asarray(other.demand[:, 0]).sum() == 200, "everybody is due a decision"


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.judging])
def test_what_counts_every_notion_shows_a_policy_the_same(name):
    usual, judged = make_world(name), make_world(name, **ENTRIES[name].judging)
    assert judged.observation_space == usual.observation_space
    own, every = ({criterion.name for criterion in world.benefit.criteria} for world in (usual, judged))
    assert own < every


def test_an_unknown_notion_is_refused():
    with pytest.raises(InvalidInputError, match="No notion is called 'equal'"):
        Lending(counted="equal")
