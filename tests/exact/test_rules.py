"""Rules act as they say, and no simulated policy lies above the frontier."""

import jax
import numpy as np
import pytest

from elbert.envs.attention import Attention
from elbert.envs.infectious import Infectious
from elbert.envs.lending import Lending
from elbert.errors import InvalidInputError
from elbert.exact.frontier import best_reward_at
from elbert.exact.lending import best_lending, threshold_totals
from elbert.exact.rule_policies import logits_for
from elbert.exact.rules import get_rule, is_rule, rules_of

HORIZON, EPISODES = 300, 2000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["best-0.02", "thresholds-0-0", "thresholds-2-1", "thresholds-1-4"])
def test_simulated_lending_agrees_with_the_population_and_stays_under_the_frontier(name):
    found = get_rule(f"rule:lending/{name}").evaluate(EPISODES, seed=3, horizon=HORIZON, confidence=0.999)
    world = Lending(horizon=HORIZON)
    expected = (
        best_lending(world, 0.02).totals
        if name.startswith("best")
        else threshold_totals(world, [int(part) for part in name.split("-")[1:]])
    )
    reward, groups = found.reward, found.criterion.groups
    assert reward.low is not None
    assert reward.high is not None
    assert reward.low <= expected.reward / HORIZON <= reward.high
    for row, rate in zip(groups, expected.rates[0], strict=True):
        assert row.low is not None
        assert row.high is not None
        assert row.low - 1e-9 <= rate <= row.high + 1e-9
    bias = found.criterion.bias.high
    assert bias is not None
    best = best_reward_at("lending", HORIZON, bias)
    assert best is not None
    assert best.exact
    assert reward.low <= best.reward
    if name.startswith("best"):  # an error in the frontier or in the world would show here, from either side
        assert reward.high >= best_lending(world, 0.02).bound / HORIZON - 1e-4


def test_every_allocation_of_units_has_an_action():
    import jax

    rng = np.random.default_rng(0)
    for units in (6, 30):
        world = Attention(units=units)
        some = rng.multinomial(units, rng.dirichlet(np.full(5, 0.4), 500)).astype(np.float32)
        some = np.concatenate([some, units * np.eye(5, dtype=np.float32)])
        given = jax.vmap(lambda asked, world=world: world.allocate(logits_for(asked)))(some)
        np.testing.assert_array_equal(given, some)


@pytest.mark.slow
@pytest.mark.parametrize("env", ["lending", "attention", "infectious", "patrol", "admission", "waiting-list"])
def test_every_kind_of_rule_can_be_evaluated(env):
    for rule in rules_of(env):
        found = rule.evaluate(4, seed=0, horizon=8)
        assert found.to_dict()["method"] == str(rule)
        assert found.episodes == 4
        assert found.horizon == 8
        assert rule.meaning


@pytest.mark.slow
def test_vaccinating_helps_and_the_seed_decides():
    found = [get_rule(f"rule:infectious/{name}").evaluate(500) for name in ("nobody", "degree")]
    intervals = [one.to_dict()["reward"]["ci"] for one in found]
    assert intervals[0][1] < intervals[1][0]
    assert get_rule("rule:infectious/nobody").evaluate(500).to_dict() == found[0].to_dict()


def test_several_doses_go_to_the_susceptible_with_the_most_neighbours():
    world = Infectious(graph=[(0, 1), (0, 2), (0, 3), (1, 2)], groups=[0, 0, 1, 1], doses=3, first_case=0, burn_in=0)
    act = get_rule("rule:infectious/degree").policy.make(world)
    state, _ = world.reset(jax.random.key(0))
    assert act(jax.random.key(0), state).tolist() == [1, 2, 3]
    recovered = state._replace(health=state.health.at[1].set(2))
    assert act(jax.random.key(0), recovered).tolist() == [2, 3, 4], "the last dose goes to nobody"


def test_wrong_names_and_settings_are_refused():
    assert is_rule("rule:lending/best")
    assert not is_rule("runs/lending")
    for text, message in (
        ("rule:lending/tresholds-2-1", "Did you mean 'thresholds-2-1'"),
        ("rule:lendig/best", "Did you mean 'lending'"),
        ("rule:lending", "rule:ENVIRONMENT/RULE"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            get_rule(text)
    with pytest.raises(InvalidInputError, match="3 thresholds were given for 2 groups"):
        get_rule("rule:lending/thresholds-1-2-3").evaluate(2, horizon=3)
    with pytest.raises(InvalidInputError, match="deterministic has no effect"):
        get_rule("rule:lending/best").evaluate(2, deterministic=True)
    with pytest.raises(InvalidInputError, match="not for Attention"):
        get_rule("rule:lending/best").evaluate(2, env="attention")


def test_a_world_with_too_many_units_for_a_rule_is_refused():
    for rule in ("best", "index"):
        with pytest.raises(InvalidInputError, match=r"100 units and 5 sites. Actions are too coarse for this rule"):
            get_rule(f"rule:attention/{rule}", units=100).evaluate(2)


def test_small_limits_and_large_seeds():
    assert get_rule("rule:lending/best-1e-05").name == "best-1e-05"
    with pytest.raises(InvalidInputError, match=r"seed is 2147483648. Give a whole number from 0 to"):
        get_rule("rule:infectious/degree").evaluate(4, seed=2**31)
