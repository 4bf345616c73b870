"""The report: what it holds, how it prints, what it hands to programs and analysts."""

import json

import numpy as np
import pytest

from elbert import BenefitReport, benefit_report
from elbert.errors import InvalidInputError
from elbert.fairness.rate_intervals import INTERVAL_METHODS


def example(**arguments) -> BenefitReport:
    rng = np.random.default_rng(0)
    demand = rng.poisson(40, (50, 3))
    supply = rng.binomial(demand, [0.6, 0.62, 0.4])
    demand[:, 2] = supply[:, 2] = 0
    arguments = {"groups": ["north", "south", "[red]west[/red]"], "notion": "equal-opportunity"} | arguments
    return benefit_report(supply, demand, **arguments)


def test_the_table_says_it_all():
    text = str(example())
    for expected in (
        "true positive rate",
        "north",
        "south",
        "[red]west[/red]   not estimable",  # names are text, never markup
        "bias, as seen",
        "bias, debiased",
        "equal groups would show",
        "impact ratio",
        "From 50 episodes.",
        "It does not say",
        "rate not estimable: no demand in any of 50 episodes",
    ):
        assert expected in text
    assert max(map(len, text.splitlines())) <= 100
    assert "nan" not in text.lower()


def test_the_dict_is_plain_json_without_nan():
    report = example()
    data = json.loads(report.to_json())
    assert data == json.loads(json.dumps(report.to_dict(), allow_nan=False))
    part = data["criteria"][0]
    assert data["episodes"] == 50
    assert part["criterion"] == "true positive rate"
    assert part["groups"][2] == {"group": "[red]west[/red]", "rate": None, "ci": None, "supply": 0, "demand": 0}
    assert part["groups"][0]["rate"] == pytest.approx(part["groups"][0]["supply"] / part["groups"][0]["demand"])
    assert part["bias"]["ci"][0] <= part["bias"]["debiased"] <= part["bias"]["ci"][1]
    assert data["not_estimable"][0]["group"] == "[red]west[/red]"


def test_the_frame_has_a_row_per_criterion_and_group():
    frame = example().to_frame()
    assert frame.columns == ["criterion", "group", "rate", "low", "high", "supply", "demand", "reason"]
    assert frame.height == 3
    assert frame["rate"].null_count() == 1
    assert frame["reason"].to_list() == [None, None, "no demand in any of 50 episodes"]


def test_two_criteria_two_tables():
    rng = np.random.default_rng(0)
    demand = rng.poisson(40, (30, 2, 2))
    report = benefit_report(rng.binomial(demand, 0.5), demand, notion="equalized-odds")
    assert [part.criterion for part in report.criteria] == ["true positive rate", "false positive rate"]
    assert "false positive rate" in str(report)
    assert report.to_frame().height == 4
    assert report.test(0.5).verdict == "confirmed"


def test_notes_say_what_the_numbers_do_not_show():
    demand = np.full((5, 3), 4.0)
    supply = demand * [1.0, 0.5, 0.5]
    supply[0, 1] = 1.0
    demand[1:, 2] = supply[1:, 2] = 0.0
    report = benefit_report(supply, demand)
    still, apart, few = report.notes
    assert "group 0: the rate was the same in all 5 episodes with demand" in still
    assert "Up to 45 % of episodes could differ" in still  # 1 - 0.05 ** (1 / 5)
    assert "group 2: left out of bias" in apart
    assert "5 episodes are few" in few
    assert report.criteria[0].groups[2].rate == 0.5


def test_one_episode_prints():
    text = str(benefit_report([[1.0, 3.0]], [[4.0, 4.0]]))
    assert "0.5000" in text
    assert "From 1 episode." in text


def test_all_without_demand_prints():
    text = str(benefit_report(np.zeros((3, 2)), np.zeros((3, 2))))
    assert text.count("not estimable") >= 4


def test_methods_are_used():
    ends = {method: example(method=method).criteria[0].groups[0].low for method in INTERVAL_METHODS}
    assert len(set(ends.values())) == 3


def test_reports_can_be_compared():
    assert example() == example()
    assert example() != example(confidence=0.9)
    assert hash(example()) == hash(example())


def test_a_debiased_bias_below_zero_is_explained():
    demand = np.full((40, 2), 30)
    supply = np.random.default_rng(0).binomial(demand, 0.5)
    supply[:, 1] = supply[::-1, 0]
    report = benefit_report(supply, demand)
    assert (report.criteria[0].bias.debiased or 0) < 0
    assert "below 0 means" in str(report)


def test_settings_have_an_effect():
    wide, narrow = example(confidence=0.99), example(confidence=0.5)

    def width(report):
        row = report.criteria[0].groups[0]
        return row.high - row.low

    assert width(wide) > 2 * width(narrow)
    assert "99 % interval" in str(wide)
    bootstrap = [example(method="bootstrap", resamples=200, seed=s) for s in (1, 2)]
    assert width(bootstrap[0]) != width(bootstrap[1])


def test_bad_input_is_refused_before_anything_runs():
    with pytest.raises(InvalidInputError, match="one group only"):
        benefit_report([[1.0]], [[1.0]])
    with pytest.raises(InvalidInputError, match="supply exceeds demand"):
        benefit_report([[2.0, 1.0]], [[1.0, 1.0]], notion="demographic-parity")
