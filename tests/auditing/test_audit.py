"""Audits of made-up logs: numbers by hand, against fairlearn and statsmodels, and what the answer says."""
# pyright: reportOptionalMemberAccess=false, reportOptionalOperand=false, reportOperatorIssue=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportOptionalIterable=false

import datetime as dt

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from fairlearn.metrics import MetricFrame, false_positive_rate, selection_rate, true_positive_rate

import elbert
from elbert.errors import InvalidInputError, NotEstimableError
from elbert.experiments.two_trajectories import TRAJECTORY_A, TRAJECTORY_B
from elbert.fairness import Criterion, Notion
from tests.auditing.logs import clustered, of_counts
from tests.fairness.test_splits import BERKELEY


def audited(log, **asked):
    return elbert.audit(log, progress=None, **({"group": "group", "decision": "decision"} | asked))


def trajectory(which):
    cells = {
        (2000 + step, group): (int(which.supply[step, g]), int(which.demand[step, g]))
        for step in range(2)
        for g, group in enumerate(("blue", "red"))
    }
    return of_counts(cells)


@pytest.mark.parametrize(("which", "treatment"), [(TRAJECTORY_A, 0.0), (TRAJECTORY_B, 0.495)])
def test_the_two_trajectories_as_logs(which, treatment):
    answer = audited(trajectory(which), time="time", unit="row", smallest=0)
    part = answer.report.criteria[0]
    assert [group.rate for group in part.groups] == pytest.approx([100 / 101, 1 / 101])
    assert part.bias.estimate == pytest.approx(99 / 101)
    (split,) = answer.comparison.splits
    assert (split.first, split.second, split.over) == ("blue", "red", "periods")
    assert (split.treatment.value, split.timing.value) == pytest.approx((treatment, 99 / 101 - treatment), abs=1e-12)
    assert [place.weight_first for place in split.places] == pytest.approx([1 / 101, 100 / 101])
    assert [place.stepwise_weight for place in split.places] == [0.5, 0.5], "what divides in every period sees"


def berkeley():
    rows = []
    for dept, (men, of_men, women, of_women) in zip("ABCDEF", BERKELEY, strict=True):
        for sex, yes, total in (("men", men, of_men), ("women", women, of_women)):
            rows += [(sex, dept, "admitted", yes), (sex, dept, "rejected", total - yes)]
    return pl.DataFrame(rows, schema=["group", "dept", "decision", "people"], orient="row")


def test_aggregated_cells_of_berkeley():
    answer = audited(berkeley(), count="people", unit="row", control="dept", max_bias=0.05)
    assert answer.rows == 4526
    assert (answer.verdict, answer.code) == ("refuted", 1)
    (split,) = answer.comparison.splits
    parts = [split.difference, split.treatment, split.timing]
    assert [round(part.value, 3) for part in parts] == [0.142, -0.036, 0.178]
    men, women = 1198 / 2691, 557 / 1835
    error = np.sqrt(men * (1 - men) / 2691 + women * (1 - women) / 1835)
    assert answer.comparison.errors[0].error == pytest.approx(error, rel=1e-3)
    assert parts[0].ci == answer.report.criteria[0].bias.ci, "one difference has one interval"
    (given,) = answer.comparison.standardised
    assert (given.shared, given.strata) == (6, 6)
    assert given.pooled.value == pytest.approx(-0.0184, abs=1e-4)
    assert given.pooled.low < 0 < given.pooled.high, "within departments nothing is shown"


def test_counts_can_be_given_as_supply_and_demand():
    decisions = berkeley()
    wide = decisions.group_by("group", "dept").agg(
        pl.col("people").filter(pl.col("decision") == "admitted").sum().alias("admitted"),
        pl.col("people").sum().alias("applied"),
    )
    amounts = elbert.audit(wide, group="group", supply="admitted", demand="applied", unit="dept", progress=None)
    as_rows = audited(decisions, count="people", unit="dept")
    for one, other in zip(amounts.report.criteria[0].groups, as_rows.report.criteria[0].groups, strict=True):
        assert (one.group, one.rate, one.low, one.high) == pytest.approx(
            (other.group, other.rate, other.low, other.high)
        )


def labelled(n=3000, seed=1):
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "id": np.arange(n),
            "group": rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2]),
            "decision": rng.integers(0, 2, n),
            "outcome": rng.integers(0, 2, n),
        }
    )
    return frame, frame["group"].to_numpy(), frame["decision"].to_numpy(), frame["outcome"].to_numpy()


@pytest.mark.parametrize(
    ("notion", "metrics"),
    [
        ("demographic-parity", [selection_rate]),
        ("equal-opportunity", [true_positive_rate]),
        ("equalized-odds", [true_positive_rate, false_positive_rate]),
        ("accuracy-parity", [lambda y_true, y_pred: np.mean(y_true == y_pred)]),
    ],
)
def test_static_numbers_are_those_of_fairlearn(notion, metrics):
    frame, group, decision, outcome = labelled()
    needs = {} if notion == "demographic-parity" else {"outcome": "outcome"}
    answer = audited(frame, notion=notion, unit="row", **needs)
    for part, metric in zip(answer.report.criteria, metrics, strict=True):
        known = MetricFrame(metrics=metric, y_true=outcome, y_pred=decision, sensitive_features=group)
        assert {each.group: each.rate for each in part.groups} == pytest.approx(known.by_group.to_dict())
        assert part.bias.estimate == pytest.approx(known.difference())
        assert part.impact_ratio.estimate == pytest.approx(known.ratio())


def test_discovery_counts_and_a_notion_of_ones_own():
    frame = pl.DataFrame(
        {
            "site": ["a", "a", "b", "b"] * 30,
            "units": [2, 0, 3, 1] * 30,
            "incidents": [3, 1, 2, 2] * 30,
            "day": list(range(120)),
        }
    )
    asked = {"group": "site", "decision": "units", "outcome": "incidents", "time": "day", "period": 4}
    answer = elbert.audit(frame, notion="discovery-probability", progress=None, **asked)
    rates = {each.group: each.rate for each in answer.report.criteria[0].groups}
    assert rates == pytest.approx({"a": 2 / 4, "b": 3 / 4}), "min(2, 3) + min(0, 1) of 3 + 1; 2 + 1 of 2 + 2"
    served = Notion(
        "served", Criterion("served in time", supply=lambda days, _: days <= 1, demand=lambda days, _: days >= 0)
    )
    own = elbert.audit(frame, notion=served, progress=None, **asked)
    assert {each.group: each.rate for each in own.report.criteria[0].groups} == {"a": 0.5, "b": 0.5}


def test_errors_by_row_unit_period_and_both_are_those_of_regressions():
    frame = clustered(units=150, own=0.15, monthly=0.1, seed=4)
    answer = audited(frame, time="date", period="month", unit="officer")
    found = {each.by: each for each in answer.comparison.errors}
    yes = (frame["decision"] == "yes").cast(float).to_numpy()
    b = (frame["group"] == "group b").cast(float).to_numpy()
    officer = frame["officer"].cast(pl.Categorical).to_physical().to_numpy().astype(int)
    month = (frame["date"].dt.year() * 12 + frame["date"].dt.month()).to_numpy().astype(int)
    model = sm.OLS(yes, sm.add_constant(b))

    def by(groups):
        return model.fit(cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False}).bse[1]

    assert found["row"].error == pytest.approx(model.fit(cov_type="HC0").bse[1], rel=1e-9)
    assert found["officer"].error == pytest.approx(by(officer), rel=0.01), "up to the shares of officers"
    assert found["month"].error == pytest.approx(by(month), rel=0.05), "24 months have shares of 4 %"
    assert found["officer and month"].error == pytest.approx(by(np.stack([officer, month], 1)), rel=0.05)
    assert found["officer"].used
    assert not found["row"].used
    assert found["officer"].design_effect == pytest.approx((found["officer"].error / found["row"].error) ** 2)
    assert found["officer"].design_effect > 1.5


def test_neighbouring_periods_are_those_of_newey_and_west():
    rng = np.random.default_rng(2)
    slow = np.convolve(rng.normal(size=80), np.ones(6) / 6, "valid")  # months that go up and down together
    cells = {}
    for month, drift in enumerate(slow[:60]):
        for g, group in enumerate("ab"):
            rate = np.clip(0.5 + 0.3 * drift * (-1) ** g, 0.05, 0.95)
            cells[dt.date(2015 + month // 12, month % 12 + 1, 1), group] = (round(40 * rate), 40)
    frame = of_counts(cells)
    answer = audited(frame, time="time", period="month")
    found = {each.by: each.error for each in answer.comparison.errors}
    yes = (frame["decision"] == "yes").cast(float).to_numpy()
    b = (frame["group"] == "b").cast(float).to_numpy()
    month = (frame["time"].dt.year() * 12 + frame["time"].dt.month()).to_numpy().astype(int)
    kinds = {"time": month, "maxlags": 3, "use_correction": False}
    known = sm.OLS(yes, sm.add_constant(b)).fit(cov_type="hac-groupsum", cov_kwds=kinds).bse[1]
    assert found["month and its neighbours"] == pytest.approx(known, rel=0.01)
    assert found["month and its neighbours"] > 1.2 * found["month"]


def test_the_course_over_time_by_hand():
    cells = {(2000, "a"): (8, 40), (2000, "b"): (20, 40), (2001, "a"): (36, 40), (2001, "b"): (20, 40)}
    answer = audited(of_counts(cells), time="time", unit="row")
    (course,) = answer.comparison.courses
    assert course.periods == ("2000", "2001")
    a, b = course.groups
    assert (a.rate, a.cumulative) == ((0.2, 0.9), (0.2, 0.55))
    assert (b.rate, b.cumulative, b.demand) == ((0.5, 0.5), (0.5, 0.5), (40.0, 40.0))
    assert course.bias == pytest.approx((0.3, 0.05))
    half = 1.99 * np.sqrt(0.2 * 0.8 / 39)
    assert (a.low[0], a.high[0]) == pytest.approx((0.2 - half, 0.2 + half), rel=0.03)
    assert 0 < course.noise_floor[1] < course.noise_floor[0]


def test_without_a_unit_blocks_of_time_stand_in_and_the_answer_says_so():
    answer = audited(clustered(), time="date")
    assert (answer.unit, answer.units, answer.period) == ("month", 24, "month"), "the longest of which there are 20"
    assert "No unit was given" in answer.unit_words
    weekly = audited(clustered(), time="date", period="week")
    assert (weekly.unit, weekly.units) == ("week", len(weekly.periods))
    assert weekly.periods[0] == "2019-12-30", "a Monday"


def test_several_columns_and_their_intersections():
    frame = clustered(units=60, seed=7)
    sex = np.random.default_rng(0).choice(["f", "m", "x"], frame.height, p=[0.495, 0.495, 0.01])
    frame = frame.with_columns(pl.Series("sex", sex))
    answer = audited(frame, group=["group", "sex"], unit="officer")
    assert [comparison.name for comparison in answer.comparisons] == ["group", "sex", "group and sex"]
    both = answer.comparisons[2]
    assert len(both.report.criteria[0].groups) == 4
    small = {each.group: each for each in both.not_compared}
    assert set(small) == {"group a, x", "group b, x"}
    rows = frame.filter((pl.col("group") == "group a") & (pl.col("sex") == "x")).height
    assert (small["group a, x"].rows, small["group a, x"].demand) == (rows, (rows,))
    shown = " ".join(str(answer).split())
    assert "Not compared, because their demand is below 30: group b, x (10 rows), group a, x (8 rows)" in shown
    assert both.rows["group a, x"] == rows


def test_every_row_that_does_not_count_is_counted_with_its_reason():
    frame = pl.DataFrame(
        {
            "group": ["a", "b"] * 40 + ["a", "b", "unknown", "a", "", "b"],
            "decision": ["yes", "no"] * 40 + ["", "yes", "no", "NA", "yes", "no"],
            "unit": [str(i % 10) for i in range(80)] + ["1", None, "2", "3", "4", "5"],
            "year": ["2000"] * 80 + ["2000", "2000", "2000", "x", "2001", None],
        }
    )
    answer = audited(frame, unit="unit", time="year")
    assert answer.reasons == {
        "counted": 82,
        "time is not known": 1,
        "time cannot be read": 1,
        "decision is not known": 1,
        "unit is not known": 1,
    }
    assert sum(answer.reasons.values()) == answer.rows == 86
    assert answer.comparison.unknown.groups == 2
    assert "holds 'x'" in answer.examples["time cannot be read"]


def test_rows_are_chosen_by_conditions():
    frame = of_counts({(year, group): (10 * (year - 1999), 40) for year in (2000, 2001, 2002) for group in "ab"})
    answer = audited(frame, time="time", where=["time>=2001", "group!=c"], unit="row")
    assert answer.reasons == {"counted": 160, "left out by where": 80}
    assert answer.report.criteria[0].groups[0].rate == pytest.approx(50 / 80)
    one = audited(frame, unit="row", where="time=2000,2002")
    assert one.report.criteria[0].groups[0].rate == pytest.approx(40 / 80)


def test_scores_are_cut():
    frame = pl.DataFrame({"group": ["a", "b"] * 50, "score": list(range(100)), "id": list(range(100))})
    asked = {"group": "group", "decision": "score", "unit": "row", "progress": None}
    rates = {
        cut: elbert.audit(frame, threshold=cut, **asked).report.criteria[0].groups[0].rate for cut in (60, "<60", ">60")
    }
    assert rates == {60: 20 / 50, "<60": 30 / 50, ">60": 19 / 50}, "a: the even numbers"


def test_verdicts_and_codes():
    near = clustered(units=300, spread=0.05, rates=(0.5, 0.5), seed=3)
    assert audited(near, unit="officer").code == 0, "no limit, no verdict"
    kinds = {limit: audited(near, unit="officer", max_bias=limit) for limit in (0.1, 0.005)}
    assert [(each.verdict, each.code) for each in kinds.values()] == [("confirmed", 0), ("undetermined", 3)]
    apart = clustered(units=300, spread=0.05, rates=(0.6, 0.4), seed=3)
    assert (
        audited(apart, unit="officer", max_bias=0.1).verdict,
        audited(apart, unit="officer", max_bias=0.1).code,
    ) == ("refuted", 1)


def test_what_is_unreliable_never_passes():
    """Two officers carry nearly all decisions: the numbers would confirm the limit, and are not to be relied on."""
    rng = np.random.default_rng(0)
    officer = np.repeat(["first", "second", *(f"small {i}" for i in range(8))], [5000, 5000, *[10] * 8])
    frame = pl.DataFrame(
        {
            "officer": officer,
            "group": rng.choice(["a", "b"], officer.size),
            "decision": rng.choice(["yes", "no"], officer.size),
        }
    )
    answer = audited(frame, unit="officer", max_bias=0.3)
    assert not answer.report.criteria[0].bias.reliable
    assert (answer.verdict, answer.code) == ("undetermined", 3)
    assert "too few units" in answer.comparison.limit.words
    assert "50 %" in str(answer), "the share of the largest"


def test_a_broken_stretch_is_flagged_by_itself():
    """As in a well-known file: from some month on, people are in it only if they were arrested again."""
    rng = np.random.default_rng(0)
    month = np.repeat(np.arange(24), 100)
    frame = pl.DataFrame(
        {
            "date": [dt.date(2013 + int(m) // 12, int(m) % 12 + 1, 5) for m in month],
            "group": rng.choice(["a", "b"], month.size),
            "decision": rng.choice(["yes", "no"], month.size),
            "outcome": np.where(rng.random(month.size) < np.where(month < 15, 0.35, 0.98), 1, 0),
        }
    )
    asked = {"time": "date", "period": "month", "outcome": "outcome", "notion": "equalized-odds"}
    (jump,) = audited(frame, **asked).jumps
    assert (jump.what, jump.first, jump.last) == ("share of outcome = 1", "2014-04", "2014-12")
    assert jump.inside > 0.9
    assert jump.outside < 0.4
    assert not audited(frame.filter(pl.col("date") < dt.date(2014, 4, 1)), **asked).jumps


def test_rows_that_come_and_go_are_flagged():
    rng = np.random.default_rng(1)
    numbers = [200] * 10 + [20] * 4 + [200] * 10
    month = np.repeat(np.arange(24), numbers)
    frame = pl.DataFrame(
        {"step": month, "group": rng.choice(["a", "b"], month.size), "decision": rng.choice([0, 1], month.size)}
    )
    (jump,) = audited(frame, time="step").jumps
    assert (jump.what, jump.first, jump.last) == ("rows per period", "10", "13")
    assert (jump.inside, jump.outside) == pytest.approx((20, 200), rel=0.05)


@pytest.mark.study
def test_a_fair_log_raises_no_flag():
    frames = [clustered(units=60, seed=seed) for seed in range(20)]
    assert not any(audited(frame, time="date", period="month").jumps for frame in frames)


def test_the_same_log_gives_the_same_bytes():
    frame = clustered(units=50, sigma=1.0)
    texts = {
        elbert.audit(
            frame.sample(fraction=1, shuffle=True, seed=s),
            group="group",
            decision="decision",
            time="date",
            unit="officer",
            progress=None,
        ).report.to_json()
        for s in range(3)
    }
    assert len(texts) == 1, "in whatever order the rows come"


def test_a_part_of_the_units_gives_nearly_the_same_errors(monkeypatch):
    frame = clustered(units=2000, mean=8, seed=5)
    asked = {"time": "date", "period": "quarter", "unit": "officer"}
    whole = audited(frame, **asked)
    monkeypatch.setattr("elbert.auditing.counting.MOST_CELLS", 4000)
    monkeypatch.setattr("elbert.auditing.counting.MOST_ROWS", 5000)
    part = audited(frame, **asked)
    assert any("drawn at random" in note for note in part.notes)
    rates = [[(each.rate, *each.ci) for each in answer.report.criteria[0].groups] for answer in (part, whole)]
    np.testing.assert_allclose(rates[0], rates[1], rtol=1e-9, err_msg="totals are of all units")
    for one, other in zip(part.comparison.errors, whole.comparison.errors, strict=True):
        assert one.error == pytest.approx(other.error, rel=0.15)
    for one, other in zip(part.comparison.splits, whole.comparison.splits, strict=True):
        assert one.treatment.value == other.treatment.value
        assert one.treatment.high - one.treatment.low == pytest.approx(
            other.treatment.high - other.treatment.low, rel=0.15
        )
    last = [answer.comparison.courses[0].groups[0] for answer in (part, whole)]
    assert last[0].high[-1] - last[0].low[-1] == pytest.approx(last[1].high[-1] - last[1].low[-1], rel=0.15)


def test_repeated_keys_are_named_and_counted():
    frame = clustered(units=20).with_row_index("id").with_columns((pl.col("id") // 2).alias("half"))
    assert not audited(frame, unit="officer", key="id").notes
    (note,) = audited(frame, unit="officer", key="half").notes
    two = frame.group_by("half").agg(pl.len().alias("rows"), pl.col("group").n_unique().alias("groups"))
    mixed = two.filter(pl.col("groups") > 1).height
    assert note.endswith(f"{mixed} of these values are in more than one group."), "one person in two groups"


def test_a_burden_changes_the_words_and_no_number():
    frame = clustered(units=60)
    benefit, burden = (audited(frame, unit="officer", burden=which) for which in (False, True))
    assert benefit.report.to_dict() == burden.report.to_dict()
    assert "affected" in str(burden)
    assert "four fifths" in str(benefit)
    assert "four fifths" not in str(burden)


def test_questions_that_make_no_sense_are_refused():
    frame = clustered(units=10)
    for asked, words in (
        ({}, "nothing says which rows are independent"),
        ({"unit": "officer", "grup": "x"}, "Did you mean 'group'"),
        ({"unit": "officer", "notion": "equal-opportunity"}, "needs to know who was due"),
        ({"unit": "officer", "outcome": "decision"}, "An outcome is given but no notion"),
        ({"unit": "officer", "max_bias": -1}, "max_bias is -1"),
        ({"unit": "officer", "confidence": 95}, "confidence is 95"),
        ({"unit": "officer", "where": "date"}, "where is 'date'"),
        ({"unit": "officer", "assume": "nothing"}, "assume is 'nothing'"),
        ({"unit": "officer", "threshold": "high"}, "threshold is 'high'"),
        ({"time": "date", "period": "fortnight"}, "period is 'fortnight'"),
        ({"unit": "officer", "supply": "x"}, "supply is given alone"),
        ({"unit": "oficer"}, "Did you mean 'officer'"),
        ({"unit": "officer", "law": "ll144"}, "elbert.law_table"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            audited(frame, **asked)


def test_rows_that_were_not_asked_for_leave_no_periods_groups_or_values():
    frame = clustered(units=60, seed=1).with_columns(
        pl.when(pl.col("date") >= dt.date(2021, 7, 1)).then(pl.lit("perhaps")).otherwise("decision").alias("decision")
    )
    answer = audited(frame, time="date", where="date<2021-07-01", period="month")
    assert answer.periods[-1] == "2021-06"
    assert not answer.jumps
    assert answer.reasons["left out by where"] == frame.filter(pl.col("decision") == "perhaps").height
    with pytest.raises(NotEstimableError, match=r"none of its 1,\d+ rows meets where \(date<2019-01-01\)"):
        audited(frame, time="date", where="date<2019-01-01")


def test_each_period_says_how_much_is_known():
    frame = pl.DataFrame(
        {
            "year": [2000] * 40 + [2002] * 40,
            "group": (["a", "b"] * 18 + ["", ""] + ["a", "b"]) * 2,
            "decision": [1, 0] * 40,
            "outcome": ["1"] * 40 + ["1"] * 38 + ["", ""],
        }
    )
    asked = {"time": "year", "outcome": "outcome", "notion": "equalized-odds", "smallest": 0}
    known = {
        each.name: (each.counted, each.known_groups, each.known_outcomes) for each in audited(frame, **asked).timeline
    }
    assert known == {"2000": (40, 0.95, 1.0), "2001": (0, None, None), "2002": (40, 0.95, 0.95)}


@pytest.mark.parametrize("order", [["group", "decision"], ["decision"], ["id"]])
def test_rows_of_a_sorted_log_are_as_independent_as_others(order):
    """Many rows are put together in units; those at equal distances in a sorted log would be alike."""
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(
        {"id": np.arange(40_000), "group": rng.choice(["a", "b"], 40_000), "decision": rng.integers(0, 2, 40_000)}
    ).sort(order)
    answer = audited(frame, unit="row")
    assert answer.units == 40_000
    (by_row,) = answer.comparison.errors
    part = answer.report.criteria[0]
    for each in part.groups:
        wide = 2 * 1.96 * np.sqrt(0.25 / (40_000 / 2))
        assert each.high - each.low == pytest.approx(wide, rel=0.05)
    assert by_row.error == pytest.approx(np.sqrt(0.25 / 20_000 * 2), rel=0.02)


def test_errors_of_unequal_units_are_those_of_matrices():
    """CR2 of Bell and McCaffrey, written out: residuals of a unit times (1 - H)**(-1/2) of its rows."""
    rng = np.random.default_rng(5)
    unit = np.repeat(np.arange(12), rng.integers(2, 40, 12))
    group = rng.integers(0, 2, unit.size)
    yes = (rng.random(unit.size) < 0.4 + 0.2 * rng.random(12)[unit] + 0.1 * group).astype(float)
    design = np.stack([group == 0, group == 1], axis=1).astype(float)
    inverse = np.linalg.inv(design.T @ design)
    residual = yes - design @ (inverse @ design.T @ yes)
    meat = np.zeros((2, 2))
    for each in range(12):
        mine = design[unit == each]
        values, vectors = np.linalg.eigh(np.eye(len(mine)) - mine @ inverse @ mine.T)
        score = mine.T @ (vectors * values**-0.5) @ vectors.T @ residual[unit == each]
        meat += np.outer(score, score)
    contrast = np.array([1.0, -1.0]) @ inverse
    frame = pl.DataFrame({"unit": unit, "group": np.array(["a", "b"])[group], "decision": yes.astype(int)})
    found = {each.by: each.error for each in audited(frame, unit="unit").comparison.errors}
    assert found["unit"] == pytest.approx(np.sqrt(contrast @ meat @ contrast), rel=1e-9)
