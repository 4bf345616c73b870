"""The admission world: against a plain second implementation, and against what follows from its equations."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial
from scipy import integrate, stats

from elbert.envs import Admission, make_world
from elbert.errors import InvalidInputError
from elbert.exact.rules import get_rule

from .simulation import mean_and_error, pooled, simulate

KEY = jax.random.key(0)
SOURCE = {"reapply": 0.0, "horizon": 30}
EPISODES = 2000


def always(thresholds, key, observation):
    return thresholds


def published(*thresholds):
    return Partial(always, jnp.asarray(thresholds, jnp.float32))


def plainly(thresholds, rounds, *, costs=(5, 10), subsidy=(0, 0), reapply=0.5, effort=0.5, seed=0):
    """One episode in plain Python, person by person: (reward, supply [2, 2], demand [2, 2])."""
    rng = np.random.default_rng(seed)
    reward, supply, demand, waiting = 0.0, np.zeros((2, 2)), np.zeros((2, 2)), []
    for _ in range(rounds):
        people = list(waiting)
        while len(people) < 20:
            true = min(max(rng.normal(0.5, 0.1), 0.0), 1.0)
            people.append((int(rng.random() < 0.5), true, true))
        waiting = []
        for g, true, shows in people:
            price = costs[g] * (1 - subsidy[g])
            cost = 0.0 if shows >= thresholds[g] else price * (thresholds[g] - shows)
            if true >= 0.55:
                demand[:, g] += 1
                supply[:, g] += [cost <= 1, cost]
            if cost <= 1:
                reward += (1 if true >= 0.55 else -1) / 20
            elif rng.random() < reapply:
                waiting.append((g, true, min(shows + effort / price, 1.0)))
    return reward, supply, demand


@pytest.mark.slow
@pytest.mark.parametrize(
    ("thresholds", "parameters"),
    [
        ((0.75, 0.75), {}),
        ((0.75, 0.65), {"thresholds": "by-group"}),
        ((0.8, 0.8), {"subsidy": (0.0, 0.2), "reapply": 0.9, "effort": 0.3}),
    ],
)
def test_it_does_what_a_plain_loop_over_applicants_does(thresholds, parameters):
    """Red for a wrong cost, for people who come back with another score, and for a burden of the wrong people."""
    world = Admission(**parameters, horizon=30)
    action = thresholds if world.thresholds == "by-group" else thresholds[:1]
    totals = simulate(world, published(*action), episodes=EPISODES)
    own = {name: value for name, value in parameters.items() if name != "thresholds"}
    theirs = zip(*(plainly(thresholds, 30, **own, seed=seed) for seed in range(300)), strict=True)
    for ours, other in zip(totals[:3], map(np.asarray, theirs), strict=True):
        (a, error), (b, their_error) = mean_and_error(ours), mean_and_error(other)
        assert (np.abs(a - b) <= 4 * np.sqrt(error**2 + their_error**2) + 1e-5).all()


@pytest.mark.slow
@pytest.mark.parametrize(("group", "reach"), [(0, 0.2), (1, 0.1)])
def test_who_can_afford_which_threshold(group, reach):
    """c_g (tau - s) <= 1: a gap of 1/5 in group 0 and of 1/10 in group 1."""
    world = Admission(applicants=2)
    state, _ = world.reset(KEY)
    scores = jnp.asarray([0.7 - reach + 1e-3, 0.7 - reach - 1e-3])
    state = state._replace(group=jnp.full(2, group), score=scores, shown=scores, eligible=jnp.asarray([True, True]))
    _, step = world.step(KEY, state, jnp.asarray([0.7]))
    assert step.supply[0, group] == 1
    assert step.supply[1, group] == pytest.approx(2.0, abs=1e-4), "the burden counts who cannot afford it too"
    assert step.demand.tolist() == [[2.0 * (group == 0), 2.0 * (group == 1)]] * 2
    subsidised = Admission(applicants=2, subsidy=(0.0, 0.2)).step(KEY, state, jnp.asarray([0.7]))[1]
    assert subsidised.supply[0, group] == (1 if group == 0 else 2), "the gap of group 1 is 1/8 then"


@pytest.mark.parametrize("tau", [0.55, 0.65, 0.75])
def test_rates_without_reapplication_are_those_of_the_normal_distribution(tau):
    """P[s >= tau - 1/c | s >= 0.55] and E[c (tau - s)+ | s >= 0.55]."""
    rates, errors = pooled(simulate(Admission(**SOURCE), published(tau), episodes=EPISODES))
    scores: Any = stats.norm(0.5, 0.1)
    eligible = scores.sf(0.55)
    for g, cost in enumerate((5, 10)):
        burden = integrate.quad(lambda s, c=cost: c * max(tau - s, 0) * scores.pdf(s), 0.55, 1, points=[tau])[0]
        exact = scores.sf(max(tau - 1 / cost, 0.55)) / eligible, burden / eligible
        assert (np.abs(rates[:, g] - exact) <= 4 * errors[:, g] + 1e-6).all()


def test_thresholds_that_the_eligible_can_just_afford_admit_exactly_them():
    world = Admission(**SOURCE, thresholds="by-group")
    found = get_rule("rule:admission/robust").evaluate(200, env=world, seed=1)
    assert [row.rate for row in found.criteria[0].groups] == [1.0, 1.0]
    assert found.reward.mean == pytest.approx(stats.norm(0.5, 0.1).sf(0.55), abs=0.01), "nobody else is admitted"
    burdens: list[Any] = [row.rate for row in found.criteria[1].groups]
    assert burdens[0] > burdens[1] + 0.2, "but they pay differently"
    one = get_rule("rule:admission/robust").policy.make(Admission())(KEY, None)
    assert one.tolist() == pytest.approx([0.65])


def test_selective_labels_show_nothing_about_the_refused():
    """The refused change their eligibility: only the world where all labels are observed looks different."""
    for labels, same in (("selective", True), ("all", False)):
        world: Any = make_world("admission", labels=labels)
        state, _ = world.reset(KEY)
        other = state
        for i in range(20):
            key, action = jax.random.fold_in(KEY, i), jnp.asarray([0.72])
            price = jnp.asarray(world.costs)[other.group]
            refused = price * jnp.maximum(0.72 - other.shown, 0.0) > 1
            turned = other._replace(eligible=jnp.where(refused, ~other.eligible, other.eligible))
            state, other = world.step(key, state, action)[0], world.step(key, turned, action)[0]
            other = other._replace(
                eligible=state.eligible
            )  # of those who come back, it is known once they are admitted
        assert np.array_equal(world.observe(state), world.observe(other)) == same
        assert world.observation_space.contains(np.asarray(world.observe(state)))


def test_the_refused_come_back_with_what_they_built_up():
    world = Admission(reapply=1.0)
    state, _ = world.reset(KEY)
    after, _ = world.step(KEY, state, jnp.asarray([1.0]))
    refused = np.asarray(after.again)
    assert refused.sum() > 15
    gained = np.asarray(after.shown - state.shown)[refused]
    assert gained == pytest.approx(np.where(np.asarray(state.group)[refused] == 0, 0.1, 0.05), abs=1e-5)
    assert np.array_equal(np.asarray(after.score)[refused], np.asarray(state.score)[refused]), "they are who they were"
    assert after.last[3].sum() == refused.sum()
    none, _ = Admission(reapply=0.0).step(KEY, state, jnp.asarray([1.0]))
    assert not none.again.any()


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"costs": (5, 0)}, r"costs is 0 at index \(1,\). Give one cost .* more than 0"),
        ({"costs": (5, 10, 20)}, "for each of the 2 groups in group_shares"),
        ({"subsidy": 1.2}, "subsidy is 1.2"),
        ({"applicants": 0}, "applicants is 0. Give a whole number"),
        ({"reapply": -1}, "reapply is -1. Give a probability"),
        ({"thresholds": "by_group"}, "No way to publish thresholds is called 'by_group'. Did you mean 'by-group'"),
        ({"labels": "some"}, "No way to observe labels is called 'some'. .*Known: all, selective"),
        ({"eligible_from": 2}, "eligible_from is 2. Give a score"),
    ],
)
def test_what_makes_no_sense_is_refused(parameters, says):
    with pytest.raises(InvalidInputError, match=says):
        Admission(**parameters)


def test_thresholds_of_a_rule_fit_the_world():
    with pytest.raises(InvalidInputError, match="2 thresholds were given, but the world publishes 1"):
        get_rule("rule:admission/thresholds-0.75-0.65").evaluate(2)
    act = get_rule("rule:admission/thresholds-0.75-0.65").policy.make(Admission(thresholds="by-group"))
    assert act(KEY, None).tolist() == pytest.approx([0.75, 0.65])
