"""The patrol world: against a plain second implementation, and what Ensign et al. (2018) found in it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import elbert
from elbert.envs import Patrol
from elbert.errors import InvalidInputError
from elbert.exact.rules import get_rule

OAKLAND = 3.685 / (3.685 + 2.816)
KEY = jax.random.key(0)


def played(world, rule, episodes, seed=0):
    """(states after the last day [episodes, ...], supply and demand [episodes, regions]) under a rule."""
    keys = jax.random.split(jax.random.key(seed), episodes)
    return jax.tree.map(np.asarray, whole_episodes(world, rule, int(world.horizon), keys))


@partial(jax.jit, static_argnums=(1, 2))
def whole_episodes(world, rule, horizon, keys):
    """Worlds with other numbers share a program."""
    act = get_rule(f"rule:patrol/{rule}").policy.make(world)

    def episode(key):
        def day(state, now):
            for_action, for_step = jax.random.split(now)
            state, step = world.step(for_step, state, act(for_action, state))
            return state, (step.supply[0], step.demand[0])

        days = jax.random.split(key, horizon)
        state, (supply, demand) = jax.lax.scan(day, world.reset(key)[0], days)
        return state, supply.sum(axis=0), demand.sum(axis=0)

    return jax.vmap(episode)(keys)


def shares(record):
    return record / record.sum(axis=-1, keepdims=True)


def plainly(rates, reported, prior, days, *, corrected, divided=False, forgetting=0.01, seed=0):
    """One episode in plain Python: every incident by itself. (record, supply, demand), [regions] each"""
    rng, regions = np.random.default_rng(seed), range(len(rates))
    record, supply, demand = [float(n) for n in prior], [0] * len(rates), [0] * len(rates)
    for _ in range(days):
        chance = [n / sum(record) for n in record]
        there = rng.choice(len(rates), p=chance)
        new = [0] * len(rates)
        for i in regions:
            seen = chance[i] if divided else float(i == there)
            for _ in range(rng.poisson(rates[i])):
                demand[i] += 1
                if rng.random() < seen:
                    supply[i] += 1
                    others = [sum(record) - n for n in record]  # as Ensign et al. write it, for two regions
                    new[i] += not corrected or rng.random() < others[i] / max(others)
            for _ in range(rng.poisson(reported[i])):
                demand[i], new[i] = demand[i] + 1, new[i] + 1
                supply[i] += rng.random() < seen
        record = [(1 - forgetting) * n + more for n, more in zip(record, new, strict=True)]
    return record, supply, demand


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "reported", "action"),
    [("urn", (0.0, 0.0), "region"), ("corrected-urn", (0.0, 0.0), "region"), ("urn", (0.5, 2.0), "shares")],
)
def test_it_does_what_a_plain_loop_over_incidents_does(rule, reported, action):
    """Red for a record that forgets or thins wrongly, for reports that are lost, and for shares that are not shares."""
    world = Patrol(rates=(4.0, 2.0), reported=reported, prior=(30.0, 50.0), action=action, horizon=60)
    state, supply, demand = played(world, rule, 2000)
    record = state.counts if rule == "urn" else state.corrected
    plain = partial(plainly, (4.0, 2.0), reported, (30, 50), 60, corrected=rule != "urn", divided=action == "shares")
    theirs = [np.asarray(each) for each in zip(*(plain(seed=seed) for seed in range(400)), strict=True)]
    for ours, other in zip((record, supply, demand), theirs, strict=True):
        for moment in (lambda x: x, lambda x: (x - x.mean(axis=0)) ** 2):  # means and variances
            a, b = moment(ours), moment(other)
            error = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
            assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) < 4 * error).all()


@pytest.mark.slow
def test_the_urn_runs_away_with_oaklands_figures_and_the_corrected_one_does_not():
    """After 1000 days most of 300 runs have more than nine in ten of the record in one region, of 57 % of incidents."""
    world = Patrol()
    runaway = shares(played(world, "urn", 300)[0].counts)[:, 0]
    assert (runaway > 0.9).mean() > 0.7
    assert runaway.mean() > 0.91
    cured, supply, demand = played(world, "corrected-urn", 300)
    share = shares(cured.corrected)[:, 0]
    assert share.max() < 0.75
    assert abs(share.mean() - OAKLAND) < 4 * share.std() / np.sqrt(300) + 0.005
    rates = supply.sum(axis=0) / demand.sum(axis=0)
    assert rates.tolist() == pytest.approx([OAKLAND, 1 - OAKLAND], abs=0.02), "patrols in proportion, so unequal rates"


@pytest.mark.slow
def test_with_equal_rates_chance_decides_which_region_an_urn_runs_away_to():
    world = Patrol(rates=(3.2, 3.2), prior=1.0)
    runaway = shares(played(world, "urn", 300)[0].counts)[:, 0]
    assert (np.maximum(runaway, 1 - runaway) > 0.9).mean() > 0.5
    assert 0.3 < (runaway > 0.5).mean() < 0.7
    cured = shares(played(world, "corrected-urn", 300)[0].corrected)[:, 0]
    assert (np.abs(cured - 0.5) < 0.2).all()


@pytest.mark.slow
def test_the_corrected_urn_finds_the_rates_of_several_regions():
    rates = np.asarray([4.0, 2.0, 1.0])
    state, _, _ = played(Patrol(rates=rates, prior=50.0, horizon=1500), "corrected-urn", 300)
    assert shares(state.corrected).mean(axis=0) == pytest.approx(rates / rates.sum(), abs=0.02)


def test_nothing_shows_what_went_unseen():
    """Worlds that differ only in what happens where nobody is look the same until somebody goes there."""
    one, other = (Patrol(rates=(3.0, rate), prior=5.0) for rate in (0.5, 9.0))
    shown = []
    for world in (one, other):
        state, first = world.reset(KEY)
        steps = [world.step(jax.random.fold_in(KEY, day), state, jnp.asarray(0))[1] for day in range(5)]
        shown.append([first, *(step.observation for step in steps)])
        assert sum(float(step.demand[0, 1]) for step in steps) > 0
        assert all(float(step.supply[0, 1]) == 0 for step in steps)
    np.testing.assert_array_equal(*shown)
    state, _ = one.reset(KEY)
    _, step = Patrol(reported=(0.0, 50.0)).step(KEY, state, jnp.asarray(0))
    assert step.observation[5] > 20, "reports are known wherever the patrol is"
    assert step.supply[0, 1] == 0, "and nobody attends to them there"


@pytest.mark.slow
def test_fixed_chances_have_the_exact_values_that_the_frontier_gives():
    for rule, share in (("uniform", 0.5), ("true-rates", OAKLAND)):
        expected = get_rule(f"rule:patrol/{rule}").policy.expected(Patrol(horizon=10))
        assert expected is not None
        assert expected.rates[0].tolist() == pytest.approx([share, 1 - share], abs=1e-6)
        found = get_rule(f"rule:patrol/{rule}").evaluate(400, seed=2, confidence=0.999)
        assert found.reward.low <= expected.reward / 10 <= found.reward.high
        best = elbert.frontier("patrol", max_bias=2 * share - 1, rules=False, progress=None).points[0]
        assert best.reward == pytest.approx(expected.reward / 10, abs=1e-5)
    points = elbert.frontier("patrol", max_bias=(0, 0.2, None), rules=False, progress=None).points
    assert [point.reward for point in points] == pytest.approx([3.2505, 3.2505 + 0.1 * 0.869, 3.685], abs=1e-5)
    assert [point.price for point in points] == pytest.approx([0.4345, 0.4345, 0.0], abs=1e-5)
    several = elbert.frontier("patrol", rates=(4, 2, 0), prior=1, max_bias=0.5, rules=False, progress=None).points[0]
    assert several.rates == ((pytest.approx(0.75), pytest.approx(0.25), None),), "nobody is due anything in the third"


def test_an_empty_record_is_no_reason_to_fail():
    world = Patrol(rates=(0.0, 0.0), prior=0.0, horizon=3)
    state, _, demand = played(world, "corrected-urn", 50)
    assert np.isfinite(np.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(state)])).all()
    assert not demand.any()
    assert 0.2 < state.patrolled.mean(axis=0)[0] / 3 < 0.8
    assert elbert.frontier("patrol", rates=(0, 0), max_bias=0.1, rules=False, progress=None).points == ()


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"rates": (1, -1)}, r"rates is -1 at index \(1,\). Give one rate per region"),
        ({"rates": (1, 2, 3)}, "for each of the 3 regions in rates"),
        ({"reported": (1, 2, 3)}, r"reported has shape \(3,\)"),
        ({"forgetting": 2}, "forgetting is 2. Give a probability"),
        ({"action": "share"}, "No kind of action is called 'share'. Did you mean 'shares'"),
        ({"rates": (1e6, 1)}, r"could reach a count of 1e\+09 within the horizon of 1000 days"),
    ],
)
def test_what_makes_no_sense_is_refused(parameters, says):
    with pytest.raises(InvalidInputError, match=says):
        Patrol(**parameters)
