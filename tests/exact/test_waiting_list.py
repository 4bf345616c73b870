"""The fluid program bounds what rules reach, and its blocks allow no less than its weeks."""

import numpy as np
import pytest
from scipy.optimize import linprog

from elbert.envs import WaitingList
from elbert.exact.branch_and_bound import best_within
from elbert.exact.frontier import best_reward_at, frontier
from elbert.exact.rules import get_rule, rules_of
from elbert.exact.waiting_list import FluidProgram

WEEKS, PAIRS = 30, [(d, g) for d in range(4) for g in range(4) if g in ((0, 1, 2, 3), (1, 3), (2, 3), (3,))[d]]


def weekly(world, max_bias=np.inf):
    """The program of weeks, written down once more, for demand by people: there the lowest rate can be a variable."""
    size = len(PAIRS) + 8  # of a week: transplants, list, those who still wait; and the lowest rate at the end
    arrivals, first = np.array([34.6, 32.5, 10.3, 4.1]) / 52, np.asarray(world.initial_list, float)
    organs = 63.6 * np.array([0.42, 0.40, 0.13, 0.05]) / 52
    dying, leaving = np.array([0.124, 0.147, 0.165, 0.191]), np.array([0.202, 0.203, 0.264, 0.382])
    leave = 1 - np.exp(-leaving / 52)
    equal, right, most, limits = [], [], [], []
    cost, people = np.zeros(WEEKS * size + 1), first + WEEKS * arrivals
    served = np.zeros((4, len(cost)))
    for t in range(WEEKS):
        at = t * size
        for g in range(4):
            row = np.zeros(len(cost))
            row[[at + i for i, (_, to) in enumerate(PAIRS) if to == g]] = 1
            served[g] += row
            row[[at + len(PAIRS) + g, at + len(PAIRS) + 4 + g]] = -1, 1
            equal.append(row)
            right.append(0.0)
            row = np.zeros(len(cost))
            row[at + len(PAIRS) + g] = 1
            if t:
                row[at - size + len(PAIRS) + 4 + g] = -(1 - leave[g])
            equal.append(row)
            right.append(arrivals[g] if t else first[g])
            row = np.zeros(len(cost))
            row[[at + i for i, (of, _) in enumerate(PAIRS) if of == g]] = 1
            most.append(row)
            limits.append(organs[g])
            cost[at + len(PAIRS) + 4 + g] = leave[g] * dying[g] / leaving[g]
    if np.isfinite(max_bias):
        for g in range(4):
            lowest = np.zeros(len(cost))
            lowest[-1] = people[g]
            most += [lowest - served[g], served[g] - lowest]
            limits += [0.0, max_bias * people[g]]
    done = linprog(cost, A_ub=np.array(most), b_ub=limits, A_eq=np.array(equal), b_eq=right)
    assert done.status == 0
    return -done.fun


@pytest.mark.parametrize("max_bias", [np.inf, 0.03])
def test_blocks_of_one_week_are_the_program_of_weeks_and_longer_ones_allow_a_little_more(max_bias):
    world = WaitingList(horizon=WEEKS)
    expected = weekly(world, max_bias)
    bounds = [best_within(FluidProgram(world, block=block), max_bias).bound for block in (1, 4, 13)]
    assert bounds[0] == pytest.approx(expected, rel=1e-5)
    assert expected - 1e-6 <= bounds[1] <= bounds[2] + 1e-6
    assert bounds[2] <= expected + 0.005 * abs(expected)


RULES = sorted((rule.name for rule in rules_of("waiting-list")), key=lambda name: name != "longest-list")
BOUNDED = [
    pytest.param(name, demand, id=f"{name}, {demand}")
    for demand in ("people", "person-years", "both")
    for name in RULES
]


@pytest.mark.study
@pytest.mark.parametrize(("name", "demand"), BOUNDED)
def test_no_simulated_rule_lies_above_the_bound(name, demand):
    """Red if the bound is not one: with the rule's own bias as the limit, and without a limit."""
    rule = get_rule(f"rule:waiting-list/{name}")
    found = rule.evaluate(256, seed=2, demand=demand, horizon=104, confidence=0.999)
    assert found.reward.low is not None
    highs = [criterion.bias.high for criterion in found.criteria]
    assert None not in highs
    for limit in (max(high for high in highs if high is not None), np.inf):
        best = best_reward_at("waiting-list", 104, limit, demand=demand)
        assert best is not None
        assert not best.exact
        assert found.reward.low <= best.reward


def test_the_bound_is_near_what_rules_reach():
    found = get_rule("rule:waiting-list/longest-list").evaluate(256, seed=2, horizon=104)
    best = best_reward_at("waiting-list", 104, found.criterion.bias.estimate or 0.0)
    assert best is not None
    assert best.reward < 0.93 * found.reward.mean


def test_any_multipliers_prove_a_bound():
    """Red if the bound were what the solver says and not what its multipliers prove."""
    program = FluidProgram(WaitingList(horizon=26, demand="both"))
    free = program.free()
    rng = np.random.default_rng(0)
    for _ in range(20):
        equal = rng.normal(size=(1, program.equal.shape[0]))
        most = rng.uniform(size=(1, program.most.shape[0]))
        assert program._proven(program.reward, equal, most, 0) >= free.totals.reward
    tight = program.relaxed(np.array([[0.1, 0.25]]), 0.15)
    assert tight is not None
    assert tight.bound == pytest.approx(tight.totals.reward, rel=1e-6)
    assert tight.bound <= free.bound


def test_the_frontier_shows_bounds_that_rise_with_the_limit():
    found = frontier("waiting-list", max_bias=[0.0, 0.05, None], horizon=52, rules=False, progress=None)
    rewards = [point.reward for point in found.points]
    assert rewards == sorted(rewards)
    assert rewards[0] < rewards[-1] < 0
    assert not found.exact
    assert found.points[0].price is not None
    assert "Upper bounds" in found.note


def test_years_cost_more_deaths_than_people():
    """A limit by person-years leaves organs unused where lists are short; the same one by people does not."""
    years, people = (
        best_within(FluidProgram(WaitingList(horizon=260, demand=demand)), 0.05, tolerance=1e-3)
        for demand in ("person-years", "people")
    )
    assert years.bound < people.bound
    assert years.totals.supply.sum() < people.totals.supply.sum() - 1
