"""Credit: the figures of its table, its moves, and a second, plain implementation. Labels that a bank does not see."""

import bisect
import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from elbert.envs import Credit, Lending
from elbert.envs.credit import GROUPS, PEOPLE, score_table
from elbert.exact.credit import expected_mean_scores
from elbert.exact.lending import accepting_from

from .simulation import mean_and_error, pooled, simulate

KEY = jax.random.key(0)
TABLE = score_table()
REPAID = TABLE.mass * TABLE.repayment


def accepted_from(chance):
    """Points of the first score that is accepted, share of the group that is, and true positive rate."""
    accepts = TABLE.repayment >= chance
    assert (np.diff(accepts.astype(int), axis=1) >= 0).all(), "one threshold: who is above it is accepted"
    points = TABLE.points[accepts.argmax(axis=1)]
    return points, (TABLE.mass * accepts).sum(axis=1), (REPAID * accepts).sum(axis=1) / REPAID.sum(axis=1)


def test_the_table_is_that_of_the_source():
    assert TABLE.points.shape == (198,)
    assert (TABLE.points[[0, -1]] == [300, 850]).all()
    assert (np.diff(TABLE.points) > 0).all()
    assert TABLE.mass.sum(axis=1) == pytest.approx(1, abs=1e-12)
    assert REPAID.sum(axis=1) == pytest.approx([0.759, 0.337, 0.568, 0.807], abs=5e-4)
    assert np.asarray(PEOPLE) / sum(PEOPLE) == pytest.approx([0.7651, 0.1050, 0.0845, 0.0454], abs=5e-5)
    assert np.asarray(Credit(groups=GROUPS[:2]).group_shares) == pytest.approx([0.8793, 0.1207], abs=5e-5)


def test_the_thresholds_of_a_bank_that_maximises_its_profit():
    points, accepted, rates = accepted_from(4 / 5)
    assert points == pytest.approx([614, 645, 632, 605], abs=0.501)
    assert accepted == pytest.approx([0.663, 0.168, 0.382, 0.735], abs=5e-4)
    assert rates == pytest.approx([0.834, 0.450, 0.616, 0.862], abs=5.1e-4)
    assert np.ptp(rates) == pytest.approx(0.41, abs=0.005)
    points, _, rates = accepted_from(10 / 11)
    assert points == pytest.approx([657, 716, 695, 660], abs=0.501)
    assert rates == pytest.approx([0.713, 0.218, 0.365, 0.689], abs=5.1e-4)


def test_the_scores_above_which_a_loan_helps_on_average():
    points, _, _ = accepted_from(150 / 225)
    assert points == pytest.approx([578, 610, 589, 576], abs=0.501)


@pytest.mark.parametrize("width", [50, 100, 275, 7])
def test_bins_keep_everybody_and_who_repays(width):
    bins = score_table(width)
    assert bins.points.shape == (-(-550 // width),)
    assert bins.mass.sum(axis=1) == pytest.approx(1, abs=1e-12)
    assert (bins.mass * bins.repayment).sum(axis=1) == pytest.approx(REPAID.sum(axis=1), abs=1e-12)


def test_a_loan_moves_one_person_by_the_stated_points_on_average():
    world = Credit()
    moved = world.population().moved
    assert moved.sum(axis=-1) == pytest.approx(np.ones((2, 198)), abs=1e-12)
    points = np.asarray(world.points, float)
    assert moved[0] @ points == pytest.approx(np.maximum(points - 150, 300), abs=1e-3)
    assert moved[1] @ points == pytest.approx(np.minimum(points + 75, 850), abs=1e-3)
    state, _ = world.reset(KEY)
    mass_after = jax.jit(jax.vmap(lambda key, now, action: world.step(key, now, action)[0].mass, (0, None, None)))
    keys = jax.random.split(KEY, 2000)
    for repays in (False, True):
        for score in (0, 60, 197):
            person = state._replace(group=jnp.asarray(1), score=jnp.asarray(score), repays=jnp.asarray(repays))
            after = mass_after(keys, person, jnp.asarray(1))
            change = np.asarray(after) - np.asarray(state.mass)
            assert set(np.unique(change)) <= {-1.0, 0.0, 1.0}
            assert (change[:, [0, 2, 3]] == 0).all(), "only the applicant's own group"
            to = change[:, 1] + np.eye(198)[score]
            assert to.mean(axis=0) == pytest.approx(moved[int(repays), score], abs=0.05)
            refused = mass_after(keys, person, jnp.asarray(0))
            assert (np.asarray(refused) == np.asarray(state.mass)).all()


def test_people_are_whole_and_as_the_distribution_says_on_average():
    world = Credit(people=500)
    mass = np.asarray(jax.jit(jax.vmap(lambda key: world.reset(key)[0].mass))(jax.random.split(KEY, 4000)))
    sizes = np.asarray(world.sizes)
    assert sizes.tolist() == [383, 52, 42, 23]
    assert (mass.sum(axis=-1) == sizes).all()
    assert (mass == np.round(mass)).all()
    assert mass.mean(axis=0) == pytest.approx(np.asarray(world.initial_scores) * sizes[:, None], abs=0.05)


def test_the_mean_score_is_the_welfare_of_a_group():
    world = Credit()
    state, _ = world.reset(KEY)
    assert world.mean_scores(state) == pytest.approx(TABLE.mass @ TABLE.points, abs=1.0)
    everybody = state._replace(mass=jnp.zeros_like(state.mass).at[:, 197].set(5.0).at[:, 0].set(15.0))
    assert world.mean_scores(everybody).tolist() == [437.5] * 4  # (5 * 850 + 15 * 300) / 20


def plain_episode(rng, *, accepts, people, horizon):
    """The world again, with a list of people and their scores: reward, supply, demand and mean scores at the end."""
    points, shares = TABLE.points.tolist(), [count / sum(PEOPLE) for count in PEOPLE]
    start, crowd = rng.random(), []
    for g, share in enumerate(shares):
        size, upto, persons = max(round(share * people), 1), 0.0, []
        for c in range(len(points)):
            before, upto = upto, upto + TABLE.mass[g, c]
            persons += [c] * (int(size * upto + 1e-9 + start) - int(size * before + 1e-9 + start))
        crowd.append(persons)
    reward, supply, demand = 0, [0] * 4, [0] * 4
    for _ in range(horizon):
        (g,) = rng.choices(range(4), shares)
        who = rng.randrange(len(crowd[g]))
        c = crowd[g][who]
        repays = rng.random() < TABLE.repayment[g, c]
        demand[g] += repays
        if not accepts(g, c):
            continue
        supply[g] += repays
        reward += 1 if repays else -4
        to = min(max(points[c] + (75 if repays else -150), 300), 850)
        above = min(bisect.bisect_right(points, to), len(points) - 1)
        share = (to - points[above - 1]) / (points[above] - points[above - 1])
        crowd[g][who] = above if rng.random() < share else above - 1
    return reward, supply, demand, [sum(points[c] for c in persons) / len(persons) for persons in crowd]


@pytest.mark.slow
@pytest.mark.parametrize("everybody", [True, False])
def test_within_four_standard_errors_of_a_plain_implementation(everybody):
    """Few people, so that every one of them comes several times and scores move far."""
    settings: dict[str, Any] = {"people": 200, "horizon": 600}
    lows = [614, 645, 632, 605]
    rng = random.Random(5)  # noqa: S311
    rows = [
        plain_episode(rng, accepts=lambda g, c: everybody or TABLE.points[c] >= lows[g], **settings) for _ in range(200)
    ]
    theirs = [np.asarray(part, float) for part in zip(*rows, strict=True)]
    world = Credit(**settings)

    def act(_, observation):
        score = 300 + 550 * observation[0]
        return (everybody | (score + 0.01 >= jnp.asarray(lows)[jnp.argmax(observation[1:5])])).astype(int)

    totals = simulate(world, act, episodes=400)
    for ours, reference in (
        (totals.reward, theirs[0]),
        (totals.supply[:, 0], theirs[1]),
        (totals.demand[:, 0], theirs[2]),
    ):
        (mean, error), (other, other_error) = mean_and_error(ours), mean_and_error(reference)
        assert (np.abs(mean - other) < 4 * np.hypot(error, other_error)).all()
    ends = np.asarray(jax.vmap(world.mean_scores)(totals.states), float)
    (mean, error), (other, other_error) = mean_and_error(ends), mean_and_error(theirs[3])
    assert (np.abs(mean - other) < 4 * np.hypot(error, other_error)).all()
    chances = np.ones((4, 198)) if everybody else accepting_from(world, lows)
    assert (np.abs(mean - expected_mean_scores(world, chances)) < 4 * error + 0.01).all()
    rates, _ = pooled(totals)
    assert (rates == 1).all() == everybody


@pytest.mark.parametrize("kind", [Lending, Credit])
@pytest.mark.parametrize("notion", ["equal-opportunity", "equalized-odds"])
def test_selective_labels_show_nothing_of_the_refused(kind, notion):
    """Two courses that differ only in what refused applicants would have done. Red if any of it can be observed."""
    world, oracle = kind(labels="selective", notion=notion), kind(notion=notion)

    @jax.jit
    def course(flip):
        def one_step(state, now):
            key, action = now
            state = state._replace(repays=jnp.where(action == 1, state.repays, state.repays ^ flip))
            state, step = world.step(key, state, action)
            return state, (step.observation, oracle.observe(state), step.supply, step.demand)

        actions = jax.random.bernoulli(jax.random.key(3), 0.4, (300,)).astype(int)
        return jax.lax.scan(one_step, world.reset(KEY)[0], (jax.random.split(KEY, 300), actions))

    (usual, seen), (flipped, others) = course(False), course(True)
    np.testing.assert_array_equal(seen[0], others[0])
    assert not np.array_equal(seen[1], others[1]), "with all labels the observation tells"
    assert not np.array_equal(seen[3], others[3]), "demand stays the truth"
    np.testing.assert_array_equal(usual.mass, flipped.mass)
    applicants, loans, repaid = np.asarray(usual.seen)
    assert applicants.sum() == 300
    np.testing.assert_allclose(
        seen[0][-1, -2 * world.groups :], np.concatenate([loans / applicants, repaid / loans]), rtol=1e-6
    )
    assert world.observation_space.contains(np.asarray(seen[0][-1]))
    assert kind(observe_rates=False).observation_space.shape == (world.observation_space.shape[0] - 2 * world.groups,)
