"""Attention's upper bound: above every schedule of a tiny world, and above what the stored world's rules reach."""

import itertools

import numpy as np
import pytest

from benchmarks.attention_bounds.prices import best_bound
from elbert.envs.attention import Attention
from elbert.errors import InvalidInputError
from elbert.exact.attention import bound_at, sites_of, stored_bound
from elbert.exact.attention_limits import fair_schedule, schedule_from, schedule_totals
from elbert.exact.rules import get_rule


@pytest.mark.parametrize("found", [0.0, 1.0])
@pytest.mark.parametrize("first", [(1.0, 0.5), (0.95, 0.33)])
def test_the_bound_is_above_every_schedule_of_a_tiny_world(found, first):
    world = Attention(initial_rates=first, fall=(0.1, 0.2), growth=(0.3, 0.2), units=2, reward_found=found, horizon=4)
    every = [np.array(units) for units in itertools.product([(0, 2), (1, 1), (2, 0)], repeat=4)]
    most = max(schedule_totals(world, units).reward for units in every)
    prices, bound, schedule = best_bound(world, steps=60)
    assert schedule.sum(axis=1).tolist() == [2] * 4
    assert schedule_totals(world, schedule).reward <= most + 1e-9
    assert most <= bound.value + 1e-9
    assert bound.value <= most + 0.05 * abs(most) + 0.01
    assert bound_at(world, prices).value == pytest.approx(bound.value)
    for some in np.random.default_rng(0).normal(0.0, 0.3, (20, 4)):
        assert bound_at(world, some).value >= most - 1e-9


def test_rates_beyond_the_grid_are_bounded_too():
    world = Attention(initial_rates=(1.0,), fall=0.5, growth=0.5, units=1, horizon=60)
    site = sites_of(world)[0]
    assert site.rates.max() < 1.0 + 0.5 * 60  # the grid ends before the rate can
    never = schedule_totals(
        Attention(initial_rates=(1.0,), fall=0.5, growth=0.5, units=1, horizon=60), np.zeros((60, 1))
    )
    assert never.reward <= bound_at(world, np.zeros(60)).value


@pytest.mark.slow
def test_the_stored_prices_prove_what_the_docs_say():
    world = Attention()
    bound = stored_bound(world).value / 1024
    assert schedule_totals(world, schedule_from(world, stored_bound(world))).reward / 1024 > 0.73
    totals = schedule_totals(world, fair_schedule(world, np.inf))
    assert 0.76 < totals.reward / 1024 <= bound < 0.82
    found = get_rule("rule:attention/best").evaluate(64, env=world, confidence=0.999)
    assert found.reward.low is not None
    assert found.reward.high is not None
    assert found.reward.low <= totals.reward / 1024 <= found.reward.high
    assert found.criterion.bias.estimate == pytest.approx(totals.bias, abs=0.02)


def test_a_world_without_a_grid_is_refused():
    with pytest.raises(InvalidInputError, match="multiple of fall"):
        sites_of(Attention(growth=0.15))
