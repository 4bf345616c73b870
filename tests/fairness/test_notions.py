"""Notions: by hand, against fairlearn's static metrics, single outcomes and batches, your own."""

import copy
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from elbert.errors import InvalidInputError
from elbert.fairness import (
    NOTIONS,
    Criterion,
    Notion,
    benefit_rate,
    benefit_report,
    bias,
    get_notion,
    impact_ratio,
    register_notion,
)

with warnings.catch_warnings():  # fairlearn's own imports may warn of its dependencies' changes
    warnings.simplefilter("ignore")
    from fairlearn import metrics as fairlearn

GROUP = np.array([0, 0, 0, 1, 1, 1])
DECISION = np.array([1, 0, 1, 0, 0, 1])
QUALIFIED = np.array([1, 1, 0, 1, 0, 1])

EO = NOTIONS["equal-opportunity"]

BY_HAND = {
    "demographic-parity": ([[2, 1]], [[3, 3]]),
    "equal-opportunity": ([[1, 1]], [[2, 2]]),
    "equalized-odds": ([[1, 1], [1, 0]], [[2, 2], [1, 1]]),
    "accuracy-parity": ([[1, 2]], [[3, 3]]),
    "discovery-probability": ([[1, 1]], [[2, 2]]),
    "decision-rates": ([[2, 1], [1, 1], [1, 0], [1, 2]], [[3, 3], [2, 2], [1, 1], [3, 3]]),
}


@pytest.mark.parametrize("name", NOTIONS)
def test_notions_by_hand(name):
    total = NOTIONS[name].total(GROUP, DECISION, QUALIFIED, groups=2)
    np.testing.assert_array_equal(total.supply, BY_HAND[name][0])
    np.testing.assert_array_equal(total.demand, BY_HAND[name][1])


def random_outcomes(seed, n=400, groups=3):
    rng = np.random.default_rng(seed)
    return rng.integers(0, groups, n), rng.integers(0, 2, n), rng.integers(0, 2, n)


@pytest.mark.parametrize("name", NOTIONS)
@pytest.mark.parametrize("seed", range(3))
def test_total_is_the_sum_of_single_outcomes(name, seed):
    group, decision, qualified = random_outcomes(seed)
    notion = NOTIONS[name]
    total = notion.total(group, decision, qualified, groups=3)
    each = notion.per_outcome(group, decision, qualified, groups=3)
    assert each.supply.shape == (400, len(notion.criteria), 3)
    np.testing.assert_allclose(each.supply.sum(axis=0), total.supply)
    np.testing.assert_allclose(each.demand.sum(axis=0), total.demand)
    one = notion.per_outcome(group[7], decision[7], qualified[7], groups=3)
    np.testing.assert_array_equal(one.supply, each.supply[7])
    np.testing.assert_array_equal(one.demand, each.demand[7])


@pytest.mark.parametrize("name", NOTIONS)
def test_jit_and_vmap_agree_with_plain(name):
    group, decision, qualified = random_outcomes(5, n=40)
    notion = NOTIONS[name]
    arrays = [jnp.asarray(a) for a in (group, decision, qualified)]
    plain = notion.per_outcome(group, decision, qualified, groups=3)
    with jax.checking_leaks():
        mapped = jax.jit(jax.vmap(lambda g, d, q: notion.per_outcome(g, d, q, groups=3)))(*arrays)
    np.testing.assert_array_equal(mapped.supply, plain.supply)
    np.testing.assert_array_equal(mapped.demand, plain.demand)
    total = jax.jit(lambda g, d, q: notion.total(g, d, q, groups=3))(*arrays)
    np.testing.assert_array_equal(total.supply, plain.supply.sum(axis=0))


@pytest.mark.parametrize("seed", range(10))
def test_with_horizon_one_the_notions_are_fairlearns_static_ones(seed):
    group, decision, qualified = random_outcomes(seed)
    arguments: dict[str, Any] = {"y_true": qualified, "y_pred": decision, "sensitive_features": group}

    def rates(name):
        return benefit_rate(*NOTIONS[name].total(group, decision, qualified, groups=3))

    parity = rates("demographic-parity")[0]
    assert bias(parity) == pytest.approx(fairlearn.demographic_parity_difference(**arguments), abs=1e-12)
    assert impact_ratio(parity) == pytest.approx(fairlearn.demographic_parity_ratio(**arguments), abs=1e-12)
    opportunity = rates("equal-opportunity")[0]
    assert bias(opportunity) == pytest.approx(fairlearn.equal_opportunity_difference(**arguments), abs=1e-12)
    odds = rates("equalized-odds")
    assert bias(odds).max() == pytest.approx(fairlearn.equalized_odds_difference(**arguments), abs=1e-12)
    accuracy = fairlearn.MetricFrame(metrics=lambda t, p: np.mean(t == p), **arguments).by_group
    np.testing.assert_allclose(rates("accuracy-parity")[0], accuracy.to_numpy(), rtol=1e-12)
    np.testing.assert_array_equal(rates("discovery-probability"), rates("equal-opportunity"))


def test_discovery_takes_counts():
    total = NOTIONS["discovery-probability"].total(np.array([0, 1]), np.array([6, 2]), np.array([4, 5]), groups=2)
    np.testing.assert_array_equal(total.supply, [[4, 2]])
    np.testing.assert_array_equal(total.demand, [[4, 5]])


def test_a_probability_counts_as_the_expected_amount():
    total = NOTIONS["equalized-odds"].total([0, 0], [0.25, 0.5], [1, 0], groups=2)
    np.testing.assert_array_equal(total.supply, [[0.25, 0], [0.5, 0]])
    np.testing.assert_array_equal(total.demand, [[1, 0], [1, 0]])


def test_your_own_notion():
    served = Notion("served", Criterion("in time", supply=lambda days, _: days <= 3, demand=lambda days, _: days >= 0))
    total = served.total([0, 0, 1], [2, 9, 3], groups=2)
    np.testing.assert_array_equal(total.supply, [[1, 1]])
    np.testing.assert_array_equal(total.demand, [[2, 1]])
    assert served.bounded
    assert not Notion("m", Criterion("x", lambda d, q: d, lambda d, q: q, bounded=False)).bounded


def test_an_amount_may_be_the_same_for_everybody():
    everyone = Notion("everyone", Criterion("all", supply=lambda d, q: d, demand=lambda d, q: 1))
    np.testing.assert_array_equal(everyone.total([0, 1], [1, 0], groups=2).demand, [[1, 1]])


def test_no_outcomes_no_supply_no_demand():
    total = EO.total([], [], [], groups=2)
    np.testing.assert_array_equal(total.demand, [[0.0, 0.0]])
    assert total.supply.dtype == float


def test_a_padding_index_counts_nobody_under_jit():
    group, ones = jnp.array([1, -1, 2]), jnp.ones(3)
    total = jax.jit(lambda g: EO.total(g, ones, ones, groups=2))(group)
    np.testing.assert_array_equal(total.supply, [[0, 1]])


def test_names_are_found_and_the_nearest_is_offered():
    assert get_notion("equal-opportunity") is NOTIONS["equal-opportunity"]
    assert get_notion(NOTIONS["equal-opportunity"]).name == "equal-opportunity"
    with pytest.raises(InvalidInputError, match="Did you mean 'equal-opportunity'"):
        get_notion("equal_oportunity")


def same(decision, _):
    return decision


def test_a_registered_notion_is_known_by_its_name(monkeypatch):
    monkeypatch.setattr("elbert.fairness.notions.NOTIONS", dict(NOTIONS))
    mine = register_notion(Notion("mine", Criterion("my rate", same, same)))
    assert get_notion("mine") is mine
    assert benefit_report([[1, 2], [2, 1]], [[3, 3], [3, 3]], notion="mine").criteria[0].criterion == "my rate"
    assert register_notion(Notion("mine", Criterion("my rate", same, same))) == mine  # the equal one again
    for other in (Notion("mine", Criterion("other rate", same, same)), Notion("equal-opportunity", *mine.criteria)):
        with pytest.raises(InvalidInputError, match=f"Another notion is called '{other.name}'"):
            register_notion(other)
    assert get_notion("equal-opportunity") is EO
    with pytest.raises(InvalidInputError, match="Give a Notion"):
        register_notion("mine")  # pyright: ignore[reportArgumentType]


def test_only_published_notions_are_sent_to_another_process_by_name(monkeypatch):
    """There, a notion that was registered here is not known by its name. Copying takes the way that pickling takes."""
    monkeypatch.setattr("elbert.fairness.notions.NOTIONS", dict(NOTIONS))
    mine = register_notion(Notion("mine", Criterion("my rate", same, same)))
    assert copy.copy(EO) is EO
    assert copy.copy(mine) == mine
    assert copy.copy(mine) is not mine


def test_one_outcome_without_any_axis():
    total = NOTIONS["accuracy-parity"].total(0, 1, 1, groups=2)
    np.testing.assert_array_equal(total.supply, [[1, 0]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NOTIONS["accuracy-parity"].total(0, 1, 1, groups=10**12), "groups is 1000000000000"),
        (lambda: EO.total([0], [1], groups=2), "needs to know who was qualified"),
        (lambda: EO.total([0, 2], [1, 1], [1, 1], groups=2), "group runs from 0 to 2"),
        (lambda: EO.total([-1], [1], [1], groups=2), "group runs from -1"),
        (lambda: EO.total([0.5], [1], [1], groups=2), "whole numbers"),
        (lambda: EO.total([0], [2], [1], groups=2), "decision runs from 2 to 2"),
        (lambda: EO.total([0], [1], [-1], groups=2), "qualified runs from -1"),
        (lambda: EO.total([0], [np.nan], [1], groups=2), "not finite"),
        (lambda: EO.total([0, 1], [1], [1], groups=2), "shapes"),
        (lambda: EO.total([0], [1], [1], groups=0), "groups is 0"),
        (lambda: EO.total([0], [1], [1], groups=2.0), "groups is 2.0"),  # pyright: ignore[reportArgumentType]
        (lambda: EO.total([[0], [1, 1]], [1], [1], groups=2), "group is not an array"),
        (lambda: NOTIONS["discovery-probability"].total([0], [3], [-4], groups=2), "demand is negative"),
        (
            lambda: Notion("n", Criterion("c", lambda d, q: 3 * d, lambda d, q: q)).total([0], [1], [1], groups=2),
            "exceeds",
        ),
        (lambda: Notion("empty"), "no criterion"),
    ],
)
def test_bad_outcomes_are_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
