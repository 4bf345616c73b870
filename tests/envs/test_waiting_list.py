"""The waiting list against a second, plain implementation, by hand, and beside the figures of its source."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial
from scipy import stats

from elbert.envs import WaitingList, make_world
from elbert.envs.binomial import binomial
from elbert.exact.rules import get_rule
from tests.envs.simulation import mean_and_error, simulate

MAY_RECEIVE = {"O": "O A B AB", "A": "A AB", "B": "B AB", "AB": "AB"}
NAMES = list(MAY_RECEIVE)
WEEKS, EPISODES = 60, 4000


def by_scores(scores, waiting, key, observation):
    """These scores, and so much for everybody who waits."""
    return scores + waiting * observation[:4]


def policy(scores, waiting=0.0):
    return Partial(by_scores, jnp.asarray(scores), jnp.asarray(waiting))


POLICIES = {
    "identical": ((0.9, 0.6, 0.3, 0.1), policy([0.9, 0.6, 0.3, 0.1])),
    "AB first, nothing from others for A": ((0.2, -1.0, 0.1, 2.0), policy([0.2, -1.0, 0.1, 2.0])),
    "longest": (None, policy([0.0, 0.0, 0.0, 0.0], 1 / 1000)),
}


def plain_episode(rng, scores, weeks, start):
    """Person by person and organ by organ; nothing is shared with the world but the figures of its source."""
    arrivals = dict(zip(NAMES, (34.6, 32.5, 10.3, 4.1), strict=True))
    dying = dict(zip(NAMES, (0.124, 0.147, 0.165, 0.191), strict=True))
    withdrawing = dict(zip(NAMES, (0.078, 0.056, 0.099, 0.191), strict=True))
    shares = dict(zip(NAMES, (0.42, 0.40, 0.13, 0.05), strict=True))
    waiting = dict(zip(NAMES, start, strict=True))
    transplants, years, listed = dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0.0), dict(waiting)
    died = 0
    for _ in range(weeks):
        score = dict(zip(NAMES, scores, strict=True)) if scores else dict(waiting)
        for name in NAMES:
            years[name] += waiting[name] / 52
        for donor in ("AB", "A", "B", "O"):
            for _ in range(rng.poisson(63.6 * shares[donor] / 52)):
                takers = [
                    name for name in MAY_RECEIVE[donor].split() if waiting[name] and (name == donor or score[name] >= 0)
                ]
                if takers:
                    taker = max(takers, key=lambda name: score[name])  # the first of equals
                    waiting[taker] -= 1
                    transplants[taker] += 1
        for name in NAMES:
            for _ in range(waiting[name]):
                if rng.exponential() < (dying[name] + withdrawing[name]) / 52:
                    waiting[name] -= 1
                    died += rng.random() < dying[name] / (dying[name] + withdrawing[name])
            new = rng.poisson(arrivals[name] / 52)
            waiting[name] += new
            listed[name] += new
    return [-died, *transplants.values(), *listed.values(), *years.values()]


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_within_four_standard_errors_of_a_plain_implementation(name):
    """Red if organs, risks, arrivals or demand are another process, or the order of a week is another one."""
    scores, act = POLICIES[name]
    start = (5, 4, 2, 1)
    rng = np.random.default_rng(3)
    mean, error = mean_and_error(np.array([plain_episode(rng, scores, WEEKS, start) for _ in range(400)], float))
    world = WaitingList(horizon=WEEKS, initial_list=start, demand="both")
    totals = simulate(world, act, episodes=EPISODES)
    ours = np.concatenate([totals.reward[:, None], totals.supply[:, 0], totals.demand.reshape(EPISODES, -1)], axis=1)
    found, our_error = mean_and_error(ours)
    assert (np.abs(found - mean) < 4 * np.sqrt(error**2 + our_error**2)).all(), (found, mean)
    assert (totals.supply[:, 0] == totals.supply[:, 1]).all()


@pytest.mark.parametrize(
    ("scores", "waiting", "organs", "given"),
    [
        # everyone waits: all organs to AB, which is first and fits all of them
        ((0, 1, 2, 3), (9, 9, 9, 9), (2, 1, 1, 1), ((0, 0, 0, 2), (0, 0, 0, 1), (0, 0, 0, 1), (0, 0, 0, 1))),
        # nobody of A waits: its organ goes to AB, and one of O to B after O has had the others
        ((3, 2, 1, 0), (2, 0, 9, 9), (3, 1, 0, 0), ((2, 0, 1, 0), (0, 0, 0, 1), (0, 0, 0, 0), (0, 0, 0, 0))),
        # two AB people wait: the organ of AB is given before that of A, that of A before those of O
        ((0, 1, 1, 2), (9, 9, 9, 2), (2, 1, 0, 1), ((0, 2, 0, 0), (0, 0, 0, 1), (0, 0, 0, 0), (0, 0, 0, 1))),
        # scores below 0: nobody takes an organ of another group, and what is not taken is lost
        ((-1, -2, -3, -1), (0, 5, 1, 5), (2, 1, 3, 1), ((0, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))),
        # equal scores: the first group
        ((1, 1, 1, 1), (1, 1, 1, 1), (4, 0, 0, 0), ((1, 1, 1, 1), (0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0))),
        # what lies outside the space is clipped, and so equal here
        ((4, 9, 0, 0), (1, 1, 1, 1), (1, 0, 0, 0), ((1, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0))),
    ],
)
def test_organs_by_hand(scores, waiting, organs, given):
    found = WaitingList().allocate(*(jnp.asarray(row, jnp.float32) for row in (scores, waiting, organs)))
    assert np.asarray(found).tolist() == [list(row) for row in given]


@pytest.mark.slow
def test_demand_is_people_or_years_or_both():
    """Red if the first list is not counted, if it is counted twice, or if years are those after the week."""
    key, action = jax.random.key(4), jnp.zeros(4)
    shown = {}
    for demand in ("people", "person-years", "both"):
        world = WaitingList(demand=demand)
        state, _ = world.reset(key)
        state, first = world.step(key, state, action)
        after, second = world.step(key, state, action)
        shown[demand] = np.stack([first.demand, second.demand])
        if demand == "both":
            assert np.asarray(first.demand[0]).tolist() == (np.asarray([26, 14, 6, 2]) + state.arrivals).tolist()
            assert np.asarray(second.demand[0]).tolist() == after.arrivals.tolist()
            assert first.demand[1] * 52 == pytest.approx([26, 14, 6, 2])
            assert second.demand[1] * 52 == pytest.approx(np.asarray(state.waiting))
    assert np.array_equal(shown["both"], np.concatenate([shown["people"], shown["person-years"]], axis=1))


OBSERVED = np.array([[0.74, 0.83, 0.76, 0.80], [1.00, 1.88, 1.28, 2.10]])


@pytest.mark.slow
def test_a_rule_like_the_historical_one_comes_near_the_observed_rates():
    """Nobody listed before the data begin is in them, so the list starts empty here."""
    rule = get_rule("rule:waiting-list/identical-first-0.05")
    found = rule.evaluate(256, seed=1, demand="both", initial_list=0)
    rates = np.array([[group.rate for group in criterion.groups] for criterion in found.criteria])
    assert np.abs(rates - OBSERVED)[0].max() < 0.07
    assert np.abs(rates / OBSERVED - 1)[1].max() < 0.4
    biases = np.ptp(rates, axis=1)
    assert biases[1] > 10 * biases[0]
    assert np.ptp(OBSERVED, axis=1)[1] > 10 * np.ptp(OBSERVED, axis=1)[0]


def test_the_bounds_of_letting_people_die():
    """Without organs nobody is served; without risks nobody leaves."""
    organless = make_world("waiting-list", organs=0, horizon=WEEKS, demand="both")
    idle = simulate(organless, POLICIES["identical"][1], episodes=EPISODES)
    assert idle.supply.sum() == 0
    assert idle.reward.mean() < -5
    easy = make_world("waiting-list", deaths=0, withdrawals=0, horizon=WEEKS, demand="both")
    safe = simulate(easy, POLICIES["identical"][1], episodes=EPISODES)
    assert (safe.reward == 0).all()


@pytest.mark.parametrize(
    ("count", "chance"), [(40, 0.004), (7, 0.4), (300, 0.05), (5, 0.9), (9, 1.0), (9, 0.0), (0, 0.3)]
)
def test_binomial_counts_have_their_distribution(count, chance):
    keys = jax.random.split(jax.random.key(2), 40_000)
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: binomial(key, jnp.float32(count), chance)))(keys))
    seen = np.bincount(drawn.astype(int), minlength=count + 1)
    expected = stats.binom.pmf(np.arange(count + 1), count, chance) * len(drawn)
    common = expected > 5
    assert drawn.dtype == np.float32
    assert (np.abs(seen - expected)[common] < 5 * np.sqrt(expected[common]) + 1e-6).all()
    assert abs(seen[~common].sum() - expected[~common].sum()) < 5 * np.sqrt(expected[~common].sum()) + 3
