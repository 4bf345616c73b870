"""Credit at population level: rules, brute force on coarse scores, and the simulated world under the frontier."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from elbert.envs import Credit
from elbert.exact import best_lending, column_generation, lending_groups, lending_program
from elbert.exact.branch_and_bound import best_within
from elbert.exact.credit import best_shared_threshold, equal_opportunity_thresholds, profitable
from elbert.exact.lending import acceptance_totals, accepting_from
from elbert.exact.rules import get_rule


@pytest.mark.slow
def test_the_rules_at_the_scores_of_the_start():
    """One step: the published figures, equal rates, and what each rule gives up for its kind of equality."""
    world = Credit(horizon=1)
    profit, shared, equal = (
        acceptance_totals(world, rule(world))
        for rule in (profitable, best_shared_threshold, equal_opportunity_thresholds)
    )
    assert profit.rates[0] == pytest.approx([0.834, 0.450, 0.616, 0.862], abs=5.1e-4)
    assert profit.bias == pytest.approx(0.41, abs=0.005)
    assert equal.bias < 1e-9
    assert profit.reward > shared.reward
    assert profit.reward > equal.reward
    others = [acceptance_totals(world, accepting_from(world, [low] * 4)).reward for low in world.population().points]
    assert shared.reward == pytest.approx(max(others), abs=1e-12)
    assert profit.reward == pytest.approx(best_lending(world).reward, abs=1e-9)
    assert equal.reward == pytest.approx(best_lending(world, 0.0).reward, abs=1e-6), "no fair policy earns more now"
    assert profitable(Credit(loss=10)).sum() < profitable(world).sum()


def deterministic_totals(part):
    """[policies, 1 + 2 * criteria] of every deterministic policy of a group."""
    shape = (part.horizon, part.states)
    every = itertools.product(range(2), repeat=shape[0] * shape[1])
    totals = [part.totals(np.eye(2)[np.reshape(choice, shape)]) for choice in every]
    return np.array([[reward, *supply[:, 0], *demand[:, 0]] for reward, supply, demand in totals])


def brute_force(columns, max_bias):
    """The most reward of mixtures of all deterministic policies: grids over the lowest rate, a program at each."""
    reward, supply, demand = np.concatenate(columns).T
    group = np.repeat(np.arange(len(columns)), [len(each) for each in columns])
    member = (group == np.arange(len(columns))[:, None]).astype(float)

    def most(low):
        limits = np.concatenate([member * (low * demand - supply), member * (supply - (low + max_bias) * demand)])
        done = linprog(-reward, A_ub=limits, b_ub=np.zeros(len(limits)), A_eq=member, b_eq=np.ones(len(columns)))
        return -done.fun if done.status == 0 else -np.inf

    coarse = max(np.linspace(0, 1, 101), key=most)
    return max(most(low) for low in np.clip(np.linspace(coarse - 0.01, coarse + 0.01, 101), 0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("max_bias", [0.0, 0.1])
def test_the_frontier_is_what_brute_force_finds_on_coarse_scores(max_bias):
    """Two groups, three scores, three steps and few people, so that a loan matters."""
    world = Credit(groups=["White", "Black"], group_shares=[0.5, 0.5], bin_width=200, people=4, loss=1.0, horizon=3)
    columns = [deterministic_totals(part) for part in lending_groups(world)]
    found, best = brute_force(columns, max_bias), best_lending(world, max_bias)
    assert best.bias <= max_bias + 1e-6
    assert found <= best.bound + 1e-6
    assert found == pytest.approx(best.reward, abs=5e-4), "up to the grid over the lowest rate"
    assert best_lending(world).reward == pytest.approx(sum(each[:, 0].max() for each in columns), abs=1e-9)


def test_lists_of_next_scores_give_what_whole_tables_give(monkeypatch):
    world = Credit(bin_width=10, horizon=40, people=50)
    listed = lending_program(world)
    assert len(listed._moves) == 2
    few = best_within(listed, 0.05)
    monkeypatch.setattr(column_generation, "SPARSE", 1000)
    whole = lending_program(world)
    assert len(whole._moves) == 1
    assert best_within(whole, 0.05).reward == pytest.approx(few.reward, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["best-0.05", "profit", "one-threshold", "equal-opportunity", "thresholds-600-650-650-600"]
)
def test_simulated_credit_agrees_with_the_population_and_stays_under_the_frontier(name):
    """Few people, whose scores move far; bins of 50 points keep it quick."""
    parameters: dict[str, Any] = {"bin_width": 50, "people": 200, "horizon": 400}
    world = Credit(**parameters)
    rule = get_rule(f"rule:credit/{name}", **parameters)
    found = rule.evaluate(1500, seed=3, confidence=0.999, progress=None)
    expected = rule.policy.expected(world)
    assert expected is not None
    reward, bias = found.reward, found.criterion.bias.high
    assert reward.low is not None
    assert reward.high is not None
    assert bias is not None
    assert reward.low <= expected.reward / 400 <= reward.high
    for row, rate in zip(found.criterion.groups, expected.rates[0], strict=True):
        assert row.low is not None
        assert row.high is not None
        assert row.low - 1e-9 <= rate <= row.high + 1e-9
    program = lending_program(world)
    assert reward.low <= best_within(program, bias).bound / 400
    assert expected.reward <= best_within(program, expected.bias).bound + 1e-6
