"""Where a difference comes from: by hand, slopes by finite differences, and against statsmodels."""
# pyright: reportArgumentType=false

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import StratifiedTable

from elbert.errors import InvalidInputError, NotEstimableError
from elbert.experiments.two_trajectories import TRAJECTORY_A, TRAJECTORY_B
from elbert.fairness.splits import (
    clustered_error,
    influences,
    pooled_difference,
    pooled_odds_ratio,
    split_difference,
)

BERKELEY = np.array(  # admitted men, men, admitted women, women: Bickel, Hammel, O'Connell, Science 187 (1975)
    [
        [512, 825, 89, 108],
        [353, 560, 17, 25],
        [120, 325, 202, 593],
        [138, 417, 131, 375],
        [53, 191, 94, 393],
        [22, 373, 24, 341],
    ],
    dtype=float,
)
SUPPLY, DEMAND = BERKELEY[:, [0, 2]], BERKELEY[:, [1, 3]]


def test_the_two_trajectories_of_the_paper():
    a, b = (split_difference(each.supply, each.demand) for each in (TRAJECTORY_A, TRAJECTORY_B))
    assert (a.treatment.value, a.timing.value) == pytest.approx((0.0, 99 / 101), abs=1e-15)
    assert (b.treatment.value, b.timing.value) == pytest.approx((0.495, 99 / 101 - 0.495), abs=1e-15)


def test_berkeley_over_departments():
    split = split_difference(SUPPLY, DEMAND)
    assert split.difference.value == pytest.approx(1198 / 2691 - 557 / 1835)
    assert [round(part.value, 3) for part in (split.difference, split.treatment, split.timing)] == [
        0.142,
        -0.036,
        0.178,
    ]


totals = st.lists(st.tuples(*[st.integers(0, 5)] * 4), min_size=1, max_size=6)


def of_cells(cells):
    """Supply at most demand, at each of a few places; a group may have none there."""
    numbers = np.array(cells, float).reshape(-1, 2, 2)
    return np.minimum(numbers[..., 0], numbers[..., 1]), numbers[..., 1]


@given(totals)
def test_the_parts_add_up_and_an_exchange_turns_their_signs(cells):
    supply, demand = of_cells(cells)
    if not (demand.sum(axis=0) > 0).all():
        with pytest.raises(NotEstimableError):
            split_difference(supply, demand)
        return
    there, back = split_difference(supply, demand), split_difference(supply[:, ::-1], demand[:, ::-1])
    for split in (there, back):
        whole = split.treatment.value + split.timing.value
        assert whole == pytest.approx(split.difference.value, abs=1e-12)
    assert there.treatment.value == pytest.approx(-back.treatment.value, abs=1e-12)
    only = demand[:, 0] * demand[:, 1] == 0
    if only.all():
        assert there.treatment.value == pytest.approx(0, abs=1e-12), "nobody is treated at the same place"


@given(totals, st.sampled_from(["difference", "treatment", "timing", "pooled"]))
def test_slopes_are_those_of_finite_differences(cells, which):
    supply, demand = of_cells(cells)
    if not (demand.sum(axis=0) > 0).all() or (which == "pooled" and not (demand > 0).all(axis=1).any()):
        return

    def number(s, d):
        return pooled_difference(s, d) if which == "pooled" else getattr(split_difference(s, d), which)

    slopes, step = number(supply, demand).slopes, 1e-6
    for place, group in np.argwhere(demand > 0):
        for which_total in range(2):
            up = [supply.copy(), demand.copy()]
            up[which_total][place, group] += step
            down = [supply + 0.0, demand + 0.0]
            rise = (number(*up).value - number(*down).value) / step
            assert slopes[which_total][place, group] == pytest.approx(rise, abs=1e-4)


def test_influences_of_all_units_add_up_to_nothing():
    rng = np.random.default_rng(0)
    demand = rng.integers(0, 5, (40, 6, 2)).astype(float)
    supply = np.floor(demand * rng.random((40, 6, 2)))
    for number in (
        *split_difference(supply.sum(0), demand.sum(0))[:3],
        pooled_difference(supply.sum(0), demand.sum(0)),
    ):
        assert influences(number, supply, demand).sum() == pytest.approx(0, abs=1e-12)


def decisions():
    rng = np.random.default_rng(3)
    unit = np.repeat(np.arange(60), 10)
    group = rng.integers(0, 2, 600)
    chance = np.clip(0.5 + 0.1 * group + 0.2 * rng.normal(size=60)[unit], 0, 1)
    return unit, group, (rng.random(600) < chance).astype(float)


def test_the_error_of_a_difference_is_that_of_a_regression_with_clusters():
    unit, group, decided = decisions()
    supply, demand = np.zeros((60, 1, 2)), np.zeros((60, 1, 2))
    np.add.at(supply, (unit, 0, group), decided)
    np.add.at(demand, (unit, 0, group), 1.0)
    difference = split_difference(supply.sum(0), demand.sum(0)).difference
    found = clustered_error(influences(difference, supply, demand), np.zeros((60, 2)))
    fitted = sm.OLS(decided, sm.add_constant(group.astype(float))).fit(
        cov_type="cluster", cov_kwds={"groups": unit, "use_correction": False}
    )
    assert difference.value == pytest.approx(-fitted.params[1], rel=1e-10)
    assert found == pytest.approx(fitted.bse[1], rel=1e-10)
    assert clustered_error(influences(difference, supply, demand), np.full((60, 2), 0.19)) == pytest.approx(found / 0.9)


def test_strata_are_pooled_as_statsmodels_does():
    tables = [[[s[0], d[0] - s[0]], [s[1], d[1] - s[1]]] for s, d in zip(SUPPLY, DEMAND, strict=True)]
    assert pooled_odds_ratio(SUPPLY, DEMAND) == pytest.approx(StratifiedTable(tables).oddsratio_pooled, rel=1e-12)
    weight = DEMAND.prod(axis=1) / DEMAND.sum(axis=1)
    apart = (SUPPLY / DEMAND) @ [1, -1]
    assert pooled_difference(SUPPLY, DEMAND).value == pytest.approx(weight @ apart / weight.sum(), rel=1e-12)
    assert pooled_odds_ratio([[1, 0]], [[1, 2]]) is None, "all of one group, none of the other"


def test_what_makes_no_sense_is_refused():
    with pytest.raises(InvalidInputError, match="two groups to compare"):
        split_difference(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(NotEstimableError, match="no demand at any place"):
        split_difference([[1.0, 0.0]], [[1.0, 0.0]])
    with pytest.raises(NotEstimableError, match="In no stratum"):
        pooled_difference([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])
