"""The report: what it holds, how it prints, what it hands to programs and analysts."""

import json
import sys

import numpy as np
import pytest

from elbert import BenefitReport, benefit_report
from elbert.errors import ElbertError, InvalidInputError
from elbert.fairness import EQUAL_OPPORTUNITY, EQUALIZED_ODDS
from elbert.fairness.rate_intervals import INTERVAL_METHODS, pool


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
        "[red]west[/red]  not estimable",  # names are text, never markup
        "observed bias",
        "bias, debiased",
        "expected from noise alone",
        "impact ratio",
        "From 50 episodes.",
        "It does not say",
        "rate not estimable: no demand in any of 50 episodes",
    ):
        assert expected in text
    assert max(map(len, text.splitlines())) <= 100
    assert "nan" not in text.lower()


def test_the_interval_stands_next_to_the_debiased_value_that_it_belongs_to():
    report = example()
    bias = report.criteria[0].bias
    assert bias.ci == (bias.low, bias.high)
    row = next(line for line in str(report).splitlines() if line.startswith("bias, debiased")).split()
    assert row[2:6] == [f"{bias.debiased:.4f}", f"{bias.low:.4f}", "..", f"{bias.high:.4f}"]
    assert report.criteria[0].groups[2].ci is None, "a group without demand has no interval"


def test_the_dict_is_plain_json_without_nan():
    report = example()
    data = json.loads(report.to_json())
    assert data == json.loads(json.dumps(report.to_dict(), allow_nan=False))
    part = data["criteria"][0]
    assert data["episodes"] == 50
    assert part["criterion"] == "true positive rate"
    assert part["groups"][2] == {
        "group": "[red]west[/red]",
        "rate": None,
        "ci": None,
        "supply": 0,
        "demand": 0,
        "effective_episodes": 0,
        "reliable": False,
    }
    assert part["bias"]["left_out"] == ["[red]west[/red]"]
    assert part["bias"]["reliable"] is True
    assert part["groups"][0]["rate"] == pytest.approx(part["groups"][0]["supply"] / part["groups"][0]["demand"])
    assert part["bias"]["ci"][0] <= part["bias"]["debiased"] <= part["bias"]["ci"][1]
    assert data["not_estimable"][0]["group"] == "[red]west[/red]"


def test_the_frame_has_a_row_per_criterion_and_group():
    frame = example().to_frame()
    numbers = ["rate", "low", "high", "supply", "demand", "effective_episodes"]
    assert frame.columns == ["criterion", "group", *numbers, "reliable", "reason"]
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
    unreliable, still, apart, few = report.notes
    assert "unreliable for group 0 (5.0, 20 %), 1 (5.0, 20 %)" in unreliable
    assert "group 0: the rate was the same in all 5 episodes with demand" in still
    assert "Up to 45 % of episodes could differ" in still  # 1 - 0.05 ** (1 / 5)
    assert "group 2: left out of bias" in apart
    assert "5 episodes are few" in few
    assert report.criteria[0].groups[2].rate == 0.5


def test_groups_that_never_varied_share_a_note():
    demand = np.full((30, 4), 4.0)
    notes = benefit_report(demand * 0.5, demand).notes
    assert [note for note in notes if "group 0, 1, 2, 3: the rate was the same in all 30 episodes" in note]
    assert len(notes) == 1


def test_a_group_left_out_is_named_where_the_bias_stands():
    demand = np.full((30, 3), 4.0)
    demand[1:, 2] = 0
    text = str(benefit_report(demand * 0.5, demand, groups=["a", "b", "c"]))
    assert "a - a, without c" in text
    assert "No limit can be confirmed without it." in " ".join(text.split())


def accepted_only(decisions):
    """Outcomes that are known for accepted people only and filled with 0: no rejected person is ever qualified."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, decisions.shape)
    decision = rng.random(decisions.shape) < np.where(group == 0, 0.6, 0.3)
    repaid = decision & (rng.random(decisions.shape) < 0.8)
    return group, decision * 1, repaid * 1


@pytest.mark.parametrize("notion", [EQUAL_OPPORTUNITY, EQUALIZED_ODDS])
def test_a_label_known_for_accepted_people_only_is_the_first_thing_said(notion):
    group, decision, repaid = accepted_only(np.empty((40, 100)))
    months = [notion.total(*month, groups=2) for month in zip(group, decision, repaid, strict=True)]
    supply, demand = (np.stack([getattr(month, name) for month in months]) for name in ("supply", "demand"))
    report = benefit_report(supply, demand, notion=notion)
    assert report.criteria[0].bias.estimate == 0
    assert report.notes[0].startswith("WARNING: true positive rate: every group received exactly what it was due")
    assert "1 by construction" in report.notes[0]
    assert sum("WARNING" in note for note in report.notes) == 1  # not of the false positive rate
    lines = [line for line in str(report).splitlines() if line.startswith("*")]
    assert lines[0].startswith("* WARNING")


def test_the_warning_is_not_given_without_a_reason():
    demand = np.full((30, 2), 4.0)
    supply = demand.copy()
    assert "WARNING" not in str(benefit_report(supply, demand, notion="demographic-parity"))  # it needs no label
    supply[3, 1] -= 1
    assert "WARNING" not in str(benefit_report(supply, demand, notion="equal-opportunity"))
    assert "WARNING" not in str(benefit_report(np.zeros((3, 2)), np.zeros((3, 2)), notion="equal-opportunity"))


@pytest.mark.parametrize("confidence", [np.float32(0.9), np.array(0.9), np.float16(0.9)])
def test_numbers_of_any_kind_become_plain_ones(confidence):
    report = example(confidence=confidence)
    assert json.loads(report.to_json())["confidence"] == pytest.approx(0.9, abs=1e-3)
    assert type(report.test(np.float32(0.5)).max_bias) is float  # pyright: ignore[reportArgumentType]


def test_a_frame_without_polars_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ElbertError, match="pip install polars"):
        example().to_frame()


def test_the_totals_are_pooled_once():
    """Each part of the report, and the test of a limit, once added the same totals up by itself."""
    before = pool.cache_info().misses
    example().test(max_bias=0.1)
    assert pool.cache_info().misses == before + 1


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
    assert "below 0, and so outside its interval, means" in " ".join(str(report).split())


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
