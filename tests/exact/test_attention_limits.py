"""Attention with a limit on the bias: the bound is above all that satisfies the limit, and the rules satisfy it."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from benchmarks.attention_bounds.multipliers import Search
from benchmarks.attention_bounds.schedules import as_text, improve
from elbert.envs import make_world
from elbert.envs.attention import Attention
from elbert.errors import InvalidInputError
from elbert.exact import attention_limits
from elbert.exact.attention import bound_at, sites_of, stored_bound, value_at
from elbert.exact.attention_limits import (
    Box,
    Multipliers,
    Proof,
    fair_bound,
    fair_schedule,
    proven,
    schedule_totals,
    stored_proofs,
    stored_schedules,
    terms_of,
)
from elbert.exact.frontier import best_reward_at, frontier, frontier_for_picture
from elbert.exact.rules import get_rule

LIMITS = (0.0, 0.02, 0.05, 0.1, 0.3, 1.0)


@pytest.fixture(scope="module")
def tiny():
    """A world, and for every limit the most reward of all policies within it: schedules, and lots drawn among them."""
    world = Attention(
        initial_rates=(3.0, 0.3), fall=(0.5, 0.1), growth=(0.5, 0.1), units=2, reward_found=0.3, horizon=5
    )
    every = [schedule_totals(world, np.array(units)) for units in itertools.product([(0, 2), (1, 1), (2, 0)], repeat=5)]
    return world, {max_bias: most_within(every, max_bias) for max_bias in LIMITS}


def most_within(every, max_bias):
    """A program over the probabilities of schedules for each of many lowest rates."""
    rewards, supply, demand = (np.array([one[i] for one in every]).reshape(len(every), -1).T for i in range(3))
    most = max(one.reward if one.bias <= max_bias else -np.inf for one in every)
    for rho in np.linspace(0.0, 1.0, 61):
        rows = np.concatenate([rho * demand - supply, supply - (rho + max_bias) * demand])
        done = linprog(-rewards[0], rows, np.zeros(4), np.ones((1, len(every))), [1.0])
        most = max(most, -done.fun if done.success else -np.inf)
    return most


def proof_of(world, max_bias):
    search = Search(world, np.arange(5.0))
    return search.proof(max_bias, Box(0.3, 0.7), np.concatenate([np.full(5, 0.1), np.zeros(4)]), steps=40)


@pytest.mark.slow
def test_the_bound_is_above_all_that_satisfies_the_limit(tiny):
    world, most = tiny
    bounds = []
    for max_bias in LIMITS:
        value, _, proof = proof_of(world, max_bias)
        bound = proven(world, max_bias, proof)
        assert bound.value == pytest.approx(value)
        assert most[max_bias] - 1e-6 <= bound.value <= most[max_bias] + 0.1
        assert bound.price >= 0
        for other in LIMITS:  # multipliers of another limit prove less, but nothing wrong
            assert proven(world, other, proof).value >= most[other] - 1e-6
        bounds.append(bound.value)
    assert (np.diff(bounds) >= -1e-6).all()
    assert bounds[0] < bounds[-1] - 0.05  # the limit matters here


def test_any_multipliers_prove_a_bound_and_a_wrong_sign_would_be_seen(tiny, monkeypatch):
    world, most_of = tiny
    rng = np.random.default_rng(1)
    cases = []
    for _ in range(40):
        cuts = np.concatenate([[0.0], np.sort(rng.random(2)), [1.0]])
        parts = [
            (Box(*ends), Multipliers(rng.normal(0, 0.2, 5), *rng.exponential(0.5, (2, 2)) * rng.integers(0, 2, (2, 2))))
            for ends in itertools.pairwise(cuts)
        ]
        cases.append(Proof(0.0, tuple(parts)))

    def holds():
        return all(
            proven(world, max_bias, case).value >= most - 1e-6 for case in cases for max_bias, most in most_of.items()
        )

    assert holds()
    right = terms_of
    for sign in ([-1, 1], [1, -1]):  # of what the multipliers add to gain or cost

        def wrong(world, max_bias, rho, least, most, sign=sign):
            free = right(world, max_bias, rho, 0 * least, 0 * most)
            return free + np.array(sign) * (right(world, max_bias, rho, least, most) - free)

        monkeypatch.setattr(attention_limits, "terms_of", wrong)
        assert not holds()


def test_without_a_limit_it_is_the_bound_for_all_policies(tiny):
    world, *_ = tiny
    prices = np.random.default_rng(2).normal(0.1, 0.1, 5)
    free = Proof(1.0, ((Box(0.0, 1.0), Multipliers(prices, np.zeros(2), np.zeros(2))),))
    assert proven(world, 1.0, free).value == pytest.approx(bound_at(world, prices).value, abs=1e-12)
    assert proven(world, 1.0, free).price == 0.0
    other = Attention(horizon=20)  # prices are stored for it, multipliers are not
    assert fair_bound(other, 1.0).value == fair_bound(other, 0.0).value == stored_bound(other).value


def test_terms_of_either_sign_are_bounded_above_the_grid_too():
    world = Attention(initial_rates=(1.0,), fall=0.5, growth=0.5, units=1, horizon=60)
    site = sites_of(world)[0]
    assert site.rates.max() < 1.0 + 0.5 * 60  # the grid ends before the rate can
    rng = np.random.default_rng(3)
    schedules = [(rng.random((60, 1)) < share).astype(int) for share in (0, 0, 0.02, 0.1, 0.3, 0.5, 0.7, 1)]
    totals = [schedule_totals(world, one) for one in schedules]
    for _ in range(40):
        gain, cost = rng.normal(0, 1, 2)
        prices = rng.normal(0, 0.3, 60)
        most = value_at(world, prices, [site], np.array([[gain, cost]]))
        for one, units in zip(totals, schedules, strict=True):
            reached = gain * one.supply.sum() - cost * one.demand.sum() + prices @ (1 - units[:, 0])
            assert reached <= most + 1e-9


def test_what_proves_nothing_is_refused(tiny):
    world, *_ = tiny
    found = Multipliers(np.zeros(5), np.zeros(2), np.zeros(2))
    with pytest.raises(InvalidInputError, match="negative"):
        terms_of(world, 0.1, 0.5, np.array([0.1, -0.1]), np.zeros(2))
    with pytest.raises(InvalidInputError, match="leave out what lies above"):
        proven(world, 0.1, Proof(0.1, ((Box(0.0, 0.4), found), (Box(0.5, 1.0), found))))
    with pytest.raises(InvalidInputError, match="max_bias is -1"):
        fair_bound(world, -1.0)


def test_changes_to_a_schedule_bring_it_within_the_limit(tiny):
    world, most_of = tiny
    start = np.tile([2, 0], (5, 1))
    assert schedule_totals(world, start).bias > 0.3
    found = improve(world, start, 0.1, rounds=60)
    totals = schedule_totals(world, found)
    assert found.sum(axis=1).tolist() == [2] * 5
    assert totals.bias <= 0.1
    assert totals.reward <= most_of[0.1] + 1e-9
    assert as_text(found).count(" ") == 1


def test_for_another_horizon_only_the_schedule_that_looks_ahead_is_known():
    world = Attention(horizon=20)
    schedule = fair_schedule(world, np.inf)
    assert schedule.sum(axis=1).tolist() == [6] * 20
    bias = schedule_totals(world, schedule).bias
    np.testing.assert_array_equal(fair_schedule(world, bias), schedule)
    with pytest.raises(InvalidInputError, match="larger limit"):
        fair_schedule(world, 0.9 * bias)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "units"), [("attention", 6), ("attention-harder", 30)])
def test_stored_schedules_are_within_their_limits(name, units):
    world = make_world(name)
    assert isinstance(world, Attention)
    stored = stored_schedules(world)
    assert len(stored) >= 5
    for bias, schedule in stored:
        assert bias == schedule_totals(world, schedule).bias
        assert (schedule.sum(axis=1) == units).all()
        assert (schedule >= 0).all()
    totals = schedule_totals(world, fair_schedule(world, 0.02))
    assert totals.bias <= 0.02
    found = get_rule(f"rule:{name}/best-0.02").evaluate(64, confidence=0.999)
    assert found.reward.low is not None
    assert found.reward.high is not None
    assert found.reward.low <= totals.reward / 1024 <= found.reward.high
    assert found.criterion.bias.estimate == pytest.approx(totals.bias, abs=0.02)
    with pytest.raises(InvalidInputError, match="The least bias of those known"):
        fair_schedule(world, 0.0)


@pytest.mark.slow
def test_the_harder_world_has_a_frontier():
    world = make_world("attention-harder")
    assert isinstance(world, Attention)
    assert [proof.max_bias for proof in stored_proofs(world)] == [0.0, 0.01, 0.02, 0.05, 0.1, 0.2]
    found = frontier("attention-harder", max_bias=[0.015, None], rules=False)
    assert not found.exact
    bounds = {np.inf if point.max_bias is None else point.max_bias: point.reward for point in found.points}
    assert bounds[0.015] < -1.705 < bounds[np.inf] < -1.63
    price = found.points[0].price
    assert price is not None
    assert 0 < price < 2
    assert found.points[1].price == 0
    for bias, schedule in stored_schedules(world):
        limit = min(max_bias for max_bias in bounds if bias <= max_bias)
        assert schedule_totals(world, schedule).reward / 1024 < bounds[limit]
    for bias, limit in (
        (0.0122, 0.015),
        (0.3, np.inf),
    ):  # stored: the next larger limit
        best = best_reward_at("attention-harder", None, bias)
        assert best is not None
        assert best.reward == pytest.approx(bounds[limit], abs=1e-8)
        assert not best.exact
    drawn = frontier_for_picture("attention-harder", None, [0.1])
    assert drawn.points[0].max_bias == 0
    assert drawn.points[-1].max_bias is None
    assert (np.diff([point.reward for point in drawn.points]) >= 0).all()
