"""The bias from episodes: coverage, upward bias removed, noise floor, the test of a limit, what is not estimable."""

import functools
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.coverage import SITUATIONS, bias_coverage, simulate, verdict_errors
from elbert.errors import InvalidInputError, NotEstimableError
from elbert.fairness import EpisodeTotals, bias_limit_test, estimate_bias, estimate_impact_ratio

BY_NAME = {situation.name: situation for situation in SITUATIONS}


def totals_of(name, episodes=50, seed=0, **names):
    supply, demand = simulate(BY_NAME[name], episodes=episodes, replications=1, seed=seed)
    return EpisodeTotals.of(supply[:, 0], demand[:, 0], **names)


COVERED = ["2 equal groups", "2 groups, close", "5 equal groups"]
FOUR_EQUAL = "5 groups, four equal"


@functools.cache
def coverage_of(name):
    """With 50 episodes; `make bench` takes all situations, 500 episodes, and more replications."""
    return bias_coverage(BY_NAME[name], episodes=50, replications=500)


@pytest.mark.study
@pytest.mark.parametrize("name", [*COVERED, FOUR_EQUAL])
def test_coverage_of_the_bias_is_nominal(name):
    found = coverage_of(name)
    assert 0.93 <= found["bias"] <= 0.97, found
    if found["true"] == 0:
        assert abs(found["debiased"]) < found["naive"] / 3, found
    else:
        assert abs(found["debiased"] - found["true"]) < found["floor"] / 2, found


@pytest.mark.study
@pytest.mark.parametrize(
    "name",
    [*COVERED, pytest.param(FOUR_EQUAL, marks=pytest.mark.xfail(reason="97.2 %: its intervals are a little too wide"))],
)
def test_coverage_of_the_impact_ratio_is_nominal(name):
    found = coverage_of(name)
    assert 0.93 <= found["impact_ratio"] <= 0.97, found


@pytest.mark.study
@pytest.mark.parametrize(
    "name",
    [
        "2 equal groups",
        "2 groups, far apart",
        "5 groups, four equal",
        "3 groups, one tiny",
        "2 equal groups, one sparse",
        "2 equal groups, rarely refused",
    ],
)
def test_a_true_limit_is_rarely_refuted_and_a_false_one_rarely_confirmed(name):
    errors = verdict_errors(BY_NAME[name], episodes=50, replications=400)
    assert errors["refuted"] <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400), errors
    assert errors["confirmed"] <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400), errors


@pytest.mark.study
def test_the_noise_floor_is_what_equal_groups_show():
    shown = [estimate_bias(totals_of("5 equal groups", seed=s))[0][0].estimate for s in range(300)]
    (found,), _ = estimate_bias(totals_of("5 equal groups"))
    assert found.noise_floor == pytest.approx(np.mean([s for s in shown if s is not None]), rel=0.25)
    assert found.noise_floor_high == pytest.approx(np.quantile([s for s in shown if s is not None], 0.95), rel=0.25)


def test_bias_is_the_difference_of_pooled_rates():
    totals = totals_of("3 groups, one tiny", groups=["x", "y", "z"])
    rate = totals.supply.sum(0)[0] / totals.demand.sum(0)[0]
    (found,), unknown = estimate_bias(totals)
    assert found.estimate == np.ptp(rate)
    assert found.highest == "xyz"[rate.argmax()]
    assert found.lowest == "xyz"[rate.argmin()]
    assert not unknown
    (ratio,), _ = estimate_impact_ratio(totals)
    assert ratio.estimate == pytest.approx(rate.min() / rate.max())


def test_permuting_groups_changes_nothing():
    totals = totals_of("5 groups, four equal")
    other = EpisodeTotals.of(totals.supply[..., ::-1], totals.demand[..., ::-1])
    (a,), (b,) = estimate_bias(totals)[0], estimate_bias(other)[0]
    assert a.estimate == pytest.approx(b.estimate)
    assert a.low == pytest.approx(b.low, rel=0.1)
    assert a.high == pytest.approx(b.high, rel=0.05)


def test_more_episodes_narrow_the_interval():
    widths = []
    for episodes in (50, 200, 800):
        (found,), _ = estimate_bias(totals_of("2 groups, far apart", episodes))
        widths.append((found.high or 0) - (found.low or 0))
    assert widths[0] / widths[1] == pytest.approx(2, rel=0.3)
    assert widths[1] / widths[2] == pytest.approx(2, rel=0.3)


def test_a_group_without_demand_leaves_the_others_compared():
    totals = totals_of("5 groups, four equal")
    supply, demand = totals.supply.copy(), totals.demand.copy()
    supply[..., 4] = demand[..., 4] = 0
    (found,), unknown = estimate_bias(EpisodeTotals.of(supply, demand))
    (without,), _ = estimate_bias(EpisodeTotals.of(supply[..., :4], demand[..., :4]))
    assert not unknown
    assert found.left_out == ("4",)
    assert replace(found, left_out=()) == without


def test_fewer_than_two_groups_with_demand():
    totals = totals_of("2 equal groups", groups=["a", "b"])
    supply, demand = totals.supply.copy(), totals.demand.copy()
    supply[..., 1] = demand[..., 1] = 0
    lone = EpisodeTotals.of(supply, demand, groups=["a", "b"])
    (found,), (entry,) = estimate_bias(lone)
    assert found.estimate is None
    assert entry.what == "bias"
    assert "1 of 2 groups (a) had enough demand" in entry.reason
    (ratio,), (entry,) = estimate_impact_ratio(lone)
    assert ratio.estimate is None
    with pytest.raises(NotEstimableError, match="cannot be tested"):
        bias_limit_test(lone, 0.1)


def test_one_episode_gives_an_estimate_without_interval():
    totals = EpisodeTotals.of([[1.0, 3.0]], [[4.0, 4.0]])
    (found,), (entry,) = estimate_bias(totals)
    assert found.estimate == 0.5
    assert found.low is found.debiased is found.noise_floor is None
    assert "1 episode" in entry.reason
    (ratio,), _ = estimate_impact_ratio(totals)
    assert ratio.estimate == pytest.approx(1 / 3)
    with pytest.raises(NotEstimableError, match="1 episode"):
        bias_limit_test(totals, 0.1)


def test_impact_ratio_where_somebody_or_everybody_gets_nothing():
    demand = np.full((4, 2), 5.0)
    (ratio,), (entry,) = estimate_impact_ratio(EpisodeTotals.of([[0, 1]] * 4, demand))
    assert (ratio.estimate, ratio.low) == (0.0, None)
    assert "group 0 never received anything" in entry.reason
    (ratio,), (entry,) = estimate_impact_ratio(EpisodeTotals.of(np.zeros((4, 2)), demand))
    assert ratio.estimate is None
    assert "no group received anything" in entry.reason


def test_verdicts():
    totals = totals_of("2 groups, far apart")
    assert bias_limit_test(totals, 0.1).verdict == "refuted"
    assert bias_limit_test(totals, 0.3).verdict == "not refuted"
    assert bias_limit_test(totals, 0.5).verdict == "confirmed"
    assert "bias <= 0.5: confirmed" in str(bias_limit_test(totals, 0.5))
    equal = totals_of("2 equal groups")
    assert bias_limit_test(equal, 0.0).verdict == "not refuted"


@pytest.mark.parametrize("rates", [[1.0, 1.0], [0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
@pytest.mark.parametrize("episodes", [2, 50])
def test_equality_is_never_confirmed_and_never_refuted_by_rounding(rates, episodes):
    demand = np.random.default_rng(0).poisson(20, (episodes, len(rates))) + 1.0
    assert bias_limit_test(EpisodeTotals.of(demand * rates, demand), 0.0).verdict == "not refuted"


def test_two_lucky_people_refute_nothing():
    """Demand of 1 in 2 of 50 episodes, both accepted: the rate is 1, and next to nothing is known of it."""
    totals = totals_of("2 equal groups")
    supply, demand = totals.supply.copy(), totals.demand.copy()
    supply[..., 1] = demand[..., 1] = 0
    supply[:2, :, 1] = demand[:2, :, 1] = 1
    small = EpisodeTotals.of(supply, demand)
    (found,), _ = estimate_bias(small)
    assert found.low == 0
    assert (found.high or 0) > 0.5
    assert bias_limit_test(small, 0.0).verdict == "not refuted"


@pytest.mark.parametrize("episodes", [2, 3])
def test_few_episodes_of_many_equal_groups_refute_nothing(episodes):
    rng = np.random.default_rng(0)
    demand = rng.poisson(20, (episodes, 100)) + 1
    for _ in range(20):
        assert bias_limit_test(EpisodeTotals.of(rng.binomial(demand, 0.5), demand), 0.0).verdict == "not refuted"


def test_high_confidence_has_enough_draws_behind_it():
    totals = totals_of("2 groups, far apart")
    assert bias_limit_test(totals, 0.1, confidence=0.999).verdict == "refuted"
    many = EpisodeTotals.of(np.repeat(totals.supply, 60, axis=1), np.repeat(totals.demand, 60, axis=1))
    assert bias_limit_test(many, 0.1).verdict == "refuted"


def test_one_bad_criterion_refutes_and_all_must_pass_to_confirm():
    good, bad = totals_of("2 equal groups"), totals_of("2 groups, far apart")
    both = EpisodeTotals.of(
        np.concatenate([good.supply, bad.supply], axis=1), np.concatenate([good.demand, bad.demand], axis=1)
    )
    assert bias_limit_test(both, 0.1).verdict == "refuted"
    assert bias_limit_test(both, 0.5).verdict == "confirmed"
    alone = bias_limit_test(bad, 0.1).p_refute
    assert alone is not None
    assert bias_limit_test(both, 0.1).p_refute == pytest.approx(2 * alone)


def test_the_same_seed_gives_the_same_numbers():
    totals = totals_of("5 groups, evenly spaced")
    assert estimate_bias(totals, seed=3) == estimate_bias(totals, seed=3)
    assert estimate_bias(totals, seed=3) != estimate_bias(totals, seed=4)


@pytest.mark.parametrize("limit", [-0.1, np.nan, np.inf, None, "0.1"])
def test_limits_that_make_no_sense_are_refused(limit):
    with pytest.raises(InvalidInputError, match="max_bias is"):
        bias_limit_test(totals_of("2 equal groups"), limit)


def sparse_third_group(rng, episodes, chance):
    """Rates 0.8, 0.8, 0.3: the third group has demand in few episodes, in one at least."""
    demand = np.full((episodes, 3), 25)
    present = rng.random(episodes) < chance
    present[rng.integers(episodes)] = True
    demand[:, 2] = np.where(present, 25, 0)
    return EpisodeTotals.of(rng.binomial(demand, [0.8, 0.8, 0.3]), demand, groups=["a", "b", "c"])


def test_nothing_is_confirmed_without_a_group_that_had_demand():
    """The true bias is 0.5. Where the third group was seen once, 0.05 was confirmed from the two others."""
    rng = np.random.default_rng(0)
    verdicts = [bias_limit_test(sparse_third_group(rng, 50, 0.01), 0.05).verdict for _ in range(60)]
    assert "confirmed" not in verdicts


def test_a_group_left_out_is_named_and_does_not_undo_a_refutation():
    demand = np.full((50, 3), 25)
    demand[1:, 2] = 0
    supply = np.random.default_rng(0).binomial(demand, [0.8, 0.8, 0.3])
    totals = EpisodeTotals.of(supply, demand, groups=["a", "b", "c"])
    test = bias_limit_test(totals, 0.5)
    assert (test.verdict, test.p_confirm, test.left_out) == ("not refuted", 1.0, ("c, benefit rate",))
    assert "without c" in str(test)
    assert estimate_bias(totals)[0][0].left_out == ("c",)
    supply[:, 0] = 24
    assert bias_limit_test(EpisodeTotals.of(supply, demand), 0.05).verdict == "refuted"


def test_a_group_that_never_had_demand_does_not_stand_in_the_way():
    totals = totals_of("5 groups, four equal", 500)
    supply, demand = totals.supply.copy(), totals.demand.copy()
    supply[..., 4] = demand[..., 4] = 0
    assert bias_limit_test(EpisodeTotals.of(supply, demand), 0.2).verdict == "confirmed"


@pytest.mark.slow
def test_heavy_tails_do_not_refute_equality():
    """Log-normal demand: with degrees of freedom that count episodes, 11 to 17 % of equal groups were refuted."""
    for episodes in (30, 100):
        refuted = verdict_errors(BY_NAME["2 equal groups, heavy tails"], episodes=episodes, replications=400)["refuted"]
        assert refuted <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400), (episodes, refuted)


def test_one_episode_that_carries_a_group_makes_the_result_unreliable():
    even = totals_of("2 groups, far apart")
    supply, demand = even.supply.copy(), even.demand.copy()
    assert estimate_bias(even)[0][0].reliable
    assert bias_limit_test(even, 0.5).reliable
    demand[0, :, 1] = supply[0, :, 1] = 3 * demand[:, 0, 1].sum()
    uneven = EpisodeTotals.of(supply, demand)
    assert not estimate_bias(uneven)[0][0].reliable
    assert not bias_limit_test(uneven, 0.5).reliable
    assert "unreliable" in str(bias_limit_test(uneven, 0.5))


@pytest.mark.slow
@pytest.mark.parametrize(("episodes", "error"), [(30, 0.0036), (100, 0.0019)])
def test_nothing_is_taken_off_for_a_group_that_never_varied(episodes, error):
    """Rates 1 and 0.98: the bound for what was not seen of the first was subtracted as if it were noise."""
    values = bias_coverage(BY_NAME["one never refused"], episodes=episodes, replications=60)
    assert values["debiased"] == pytest.approx(0.02, abs=error)
    assert values["debiased"] == pytest.approx(values["naive"], abs=0.001)


@pytest.mark.parametrize("groups", [2, 5, 10, 30])
@pytest.mark.parametrize("episodes", [2, 48])
def test_interval_and_test_agree_on_groups_that_never_varied(groups, episodes):
    demand = np.random.default_rng(groups).poisson(20, (episodes, groups)) + 1.0
    totals = EpisodeTotals.of(demand, demand, notion="equal-opportunity")
    (found,), _ = estimate_bias(totals)
    assert found.high is not None
    assert found.high >= 1 - 0.05 ** (1 / episodes)  # as far as the interval of each rate reaches
    assert bias_limit_test(totals, found.high * 0.99).verdict == "not refuted"
    assert bias_limit_test(totals, found.high * 1.01).verdict == "confirmed"
