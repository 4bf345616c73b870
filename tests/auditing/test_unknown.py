"""What is not known: bounds by hand, whether they hold the truth, and when a verdict changes."""
# pyright: reportOptionalMemberAccess=false, reportOptionalOperand=false, reportOperatorIssue=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportOptionalIterable=false

import datetime as dt

import numpy as np
import polars as pl
import pytest

import elbert
from elbert.errors import InvalidInputError
from tests.auditing.logs import clustered, lending


def loans(cells):
    """Rows from {group: (good, bad among the approved, refused)}; outcomes of the refused are not known."""
    rows = []
    for group, (good, bad, refused) in cells.items():
        rows += [(group, "yes", "1")] * good + [(group, "yes", "0")] * bad + [(group, "no", None)] * refused
    return pl.DataFrame(rows, schema=["group", "approved", "repaid"], orient="row").with_row_index("id")


CELLS = {"a": (60, 20, 20), "b": (30, 20, 50)}


def bounded(frame, notion="equal-opportunity", **asked):
    asked = {"group": "group", "decision": "approved", "outcome": "repaid", "unit": "row"} | asked
    return elbert.audit(frame, notion=notion, progress=None, **asked)


def rates_of(answer, assumption, criterion=0):
    names = list(dict.fromkeys(bounds.criterion for bounds in answer.comparison.unknown.bounds))
    (found,) = [
        bounds
        for bounds in answer.comparison.unknown.bounds
        if bounds.assumption == assumption and bounds.criterion == names[criterion]
    ]
    return ends_of(found)


def ends_of(bounds):
    """The lowest and highest rate of each group, in the order of their names."""
    return [end for each in sorted(bounds.rates, key=lambda each: each.group) for end in (each.low, each.high)]


def test_true_positive_rates_by_hand():
    """a: 60 good of 80 accepted, 20 refused. Level 0: 60 / (60 + 20) to 1; level 1: at least 80 / 100."""
    answer = bounded(loans(CELLS), assume="odds:3")
    assert rates_of(answer, "none") == pytest.approx([60 / 80, 1.0, 30 / 80, 1.0])
    assert rates_of(answer, "no-better") == pytest.approx([80 / 100, 1.0, 50 / 100, 1.0])
    a = [60 / (60 + 20 * share) for share in (0.75, 1 / 2)]  # odds of 3, and of 1
    b = [30 / (30 + 50 * share) for share in (0.6, 1 / 3)]  # odds of 1.5, and of 0.5
    assert rates_of(answer, "odds:3") == pytest.approx([*a, *b])
    bounds = {each.assumption: each for each in answer.comparison.unknown.bounds}
    assert bounds["none"].least == 0
    assert bounds["none"].most == pytest.approx(1 - 30 / 80)
    assert bounds["odds:3"].used
    assert bounds["odds:3"].least == pytest.approx(a[0] - b[1])
    assert bounds["odds:3"].low < bounds["odds:3"].least < bounds["odds:3"].most < bounds["odds:3"].high


def test_false_positive_rates_and_accuracy_by_hand():
    odds = bounded(loans(CELLS), "equalized-odds")
    assert rates_of(odds, "none", 1) == pytest.approx([20 / 40, 1.0, 20 / 70, 1.0])
    assert rates_of(odds, "no-better", 1) == pytest.approx([20 / 40, 0.8, 20 / 70, 0.5])
    right = bounded(loans(CELLS), "accuracy-parity")
    assert rates_of(right, "none") == pytest.approx([60 / 100, 80 / 100, 30 / 100, 80 / 100])


def test_no_report_of_rates_that_are_1_by_construction():
    answer = bounded(loans(CELLS), max_bias=0.05)
    assert answer.report is None
    assert not answer.comparison.courses
    assert (answer.verdict, answer.code) == ("undetermined", 3)
    assert "outcome of 70 decisions (35.0 %) is not known" in str(answer)
    assert "nothing is assumed" in " ".join(str(answer).split())


def test_demographic_parity_needs_no_outcome():
    answer = elbert.audit(loans(CELLS), group="group", decision="approved", unit="row", progress=None)
    assert {each.group: each.rate for each in answer.report.criteria[0].groups} == {"a": 0.8, "b": 0.5}
    assert answer.comparison.unknown.outcomes == 0


def test_random_within_the_group_is_refused_by_name():
    with pytest.raises(InvalidInputError, match="demographic parity under another name"):
        bounded(loans(CELLS), assume="random")


def test_the_verdict_says_where_it_changes():
    frame = loans({"a": (600, 200, 200), "b": (300, 100, 600)})
    refuted = bounded(frame, max_bias=0.05, assume="odds:1")
    assert refuted.verdict == "refuted", "0.8 and 0.4 if the refused are as good as the accepted"
    (flip,) = refuted.comparison.unknown.flips
    assert "as good as the accepted, the limit would be refuted; from odds:" in flip
    gamma = float(flip.split("from odds:")[1].split(" ")[0])
    assert bounded(frame, max_bias=0.05, assume=f"odds:{0.8 * gamma}").verdict == "refuted"
    assert bounded(frame, max_bias=0.05, assume=f"odds:{1.2 * gamma}").verdict == "undetermined"


@pytest.mark.study
@pytest.mark.parametrize("assume", ["none", "no-better", "odds:20", "random"])
def test_bounds_hold_the_truth_where_their_assumption_does(assume):
    """Refused people are worse here, and alike given the grade; 40 logs, intervals of 95 %."""
    large, held = lending(n=200_000, seed=999), []
    truth = {group: large.filter(pl.col("would") & (pl.col("group") == group))["approved"].mean() for group in "ab"}
    for seed in range(40):
        asked = {"unit": "branch", "control": "grade", "assume": assume}
        (bounds,) = [each for each in bounded(lending(seed=seed), **asked).comparison.unknown.bounds if each.used]
        held.append(bounds.low <= truth["a"] - truth["b"] <= bounds.high)
    assert np.mean(held) >= 0.9


def test_controls_give_a_point_and_say_where_they_cannot():
    frame = lending(n=20_000, seed=3)
    answer = bounded(frame, unit="branch", control="grade", assume="random")
    (given,) = [each for each in answer.comparison.unknown.bounds if each.used]
    truth = {g: frame.filter(pl.col("would") & (pl.col("group") == g))["approved"].mean() for g in "ab"}
    for each in given.rates:
        assert each.low == each.high == pytest.approx(truth[each.group], abs=0.03)
    nobody = frame.with_columns(pl.col("approved") & (pl.col("grade") != 0)).with_columns(
        pl.when(pl.col("approved")).then(pl.col("repaid")).alias("repaid")
    )
    apart = bounded(nobody, unit="branch", control="grade", assume="random")
    assert any("no outcome of the accepted is known" in note for note in apart.comparison.notes)
    (wide,) = [each for each in apart.comparison.unknown.bounds if each.used]
    assert all(each.high > each.low for each in wide.rates)


def test_outcomes_that_are_not_due_are_not_known():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "date": [dt.date(2020, 1, 1) + dt.timedelta(days=int(d)) for d in np.arange(1000)],
            "group": rng.choice(["a", "b"], 1000),
            "approved": rng.integers(0, 2, 1000),
            "repaid": rng.integers(0, 2, 1000),
        }
    )
    asked = {"unit": None, "time": "date", "period": "month"}
    everything = bounded(frame, **asked)
    assert everything.comparison.unknown.outcomes == 0
    late = bounded(frame, due=99, **asked)
    assert late.comparison.unknown.outcomes == 99, "the last 99 days"
    told = frame.with_columns((pl.col("date") + pl.duration(days=30)).alias("known"))
    early = told.with_columns(
        pl.when(pl.col("date") < dt.date(2020, 1, 11)).then(dt.date(2019, 1, 1)).otherwise("known").alias("known")
    )
    answer = bounded(early, outcome_time="known", **asked)
    assert answer.reasons["outcome is before its decision"] == 10


def with_unknown(share, seed=0):
    frame = clustered(units=300, spread=0.02, rates=(0.5, 0.5), seed=seed)
    lost = np.random.default_rng(1).random(frame.height) < share
    return frame.with_columns(pl.when(pl.Series(lost)).then(pl.lit("Unknown")).otherwise("group").alias("group"))


def test_people_of_unknown_group_by_hand():
    """a: 60 of 100, b: 40 of 100, unknown: 5 of 20. a may be 65 / 105 or 60 / 115, b 45 / 105 or 40 / 115."""
    rows = []
    for group, yes, total in (("a", 60, 100), ("b", 40, 100), ("", 5, 20)):
        rows += [(group, i < yes) for i in range(total)]
    frame = pl.DataFrame(rows, schema=["group", "approved"], orient="row")
    answer = elbert.audit(frame, group="group", decision="approved", unit="row", max_bias=0.05, progress=None)
    (bounds,) = answer.comparison.unknown.bounds
    assert ends_of(bounds) == pytest.approx([60 / 115, 65 / 105, 40 / 115, 45 / 105])
    assert (bounds.least, bounds.most) == pytest.approx((60 / 115 - 45 / 105, 65 / 105 - 40 / 115))
    assert answer.comparison.unknown.groups_share == pytest.approx(20 / 220)
    assert answer.verdict == "undetermined", "the others may belong where they make the groups alike"
    assert "refuted among people whose group is known" in answer.comparison.limit.words
    (flip,) = answer.comparison.unknown.flips
    assert "the limit is refuted among known groups; if" in flip
    known = elbert.audit(
        frame, group="group", decision="approved", unit="row", max_bias=0.05, unknown_groups="leave-out", progress=None
    )
    assert known.verdict == "refuted"


def test_a_limit_must_hold_wherever_they_belong():
    asked = {"group": "group", "decision": "decision", "unit": "officer", "max_bias": 0.05, "progress": None}
    assert elbert.audit(with_unknown(0.0), **asked).verdict == "confirmed"
    assert elbert.audit(with_unknown(0.01), **asked).verdict == "confirmed", "one in a hundred changes little"
    many = elbert.audit(with_unknown(0.3), **asked)
    assert many.verdict == "undetermined"
    assert "if everybody's group were known" in many.comparison.limit.words
    assert elbert.audit(with_unknown(0.3), unknown_groups="leave-out", **asked).verdict == "confirmed"


def test_cells_such_as_less_than_10():
    """b: 3 and "<10" of 20 and 30: from 3 / 50 to 12 / 50."""
    frame = pl.DataFrame(
        {
            "group": ["a", "a", "b", "b"],
            "month": ["2020-01", "2020-02"] * 2,
            "given": ["15", "20", "3", "<10"],
            "due": ["30", "30", "20", "30"],
        }
    )
    asked = {"group": "group", "supply": "given", "demand": "due", "time": "month", "period": "month", "progress": None}
    answer = elbert.audit(frame, smallest=0, max_bias=0.1, **asked)
    (bounds,) = answer.comparison.unknown.bounds
    assert ends_of(bounds) == pytest.approx([35 / 60, 35 / 60, 3 / 50, 12 / 50])
    assert (bounds.least, bounds.most) == pytest.approx((35 / 60 - 12 / 50, 35 / 60 - 3 / 50))
    assert answer.report is None


def test_rates_of_nobody_are_anything():
    """No accepted person of a is good: nothing is known about those who would be."""
    answer = bounded(loans({"a": (0, 20, 50), "b": (30, 20, 50)}), max_bias=0.05)
    assert rates_of(answer, "odds:2")[:2] == [0.0, 1.0]
    assert answer.verdict == "undetermined"


def labelled(cells):
    """Rows from {(unit, group): (accepted and good, good)}; everybody's outcome is known and good."""
    rows = []
    for (unit, group), (accepted, good) in cells.items():
        rows += [(unit, group, "yes" if i < accepted else "no", "1") for i in range(good)]
    return pl.DataFrame(rows, schema=["unit", "group", "approved", "repaid"], orient="row")


def hidden(frame, number):
    """The same with so many outcomes unknown, at the end."""
    return frame.with_columns(
        pl.when(pl.int_range(pl.len()) >= pl.len() - number).then(None).otherwise("repaid").alias("repaid")
    )


@pytest.mark.parametrize("number", [0, 1, 40])
def test_one_unknown_outcome_does_not_make_anything_surer(number):
    still = labelled(
        {(u, "a"): (3, 3) for u in range(12)} | {(u, "b"): (40, 40) for u in range(11)} | {(11, "b"): (40, 41)}
    )
    assert bounded(hidden(still, number), unit="unit", max_bias=0.05).verdict == "undetermined", (
        "36 of 36 may be chance"
    )
    two = {(u, g): (400, 500) for u in range(2) for g in "ab"} | {(2 + u, g): (1, 2) for u in range(20) for g in "ab"}
    carried = bounded(hidden(labelled(two), number), unit="unit", max_bias=0.2)
    assert carried.verdict == "undetermined", "two units carry everything"
    alone = labelled({(u, "a"): (25, 50) for u in range(30)} | {(0, "b"): (500, 1000)})
    assert bounded(hidden(alone, number), unit="unit", max_bias=0.2).verdict == "undetermined", "b is in one unit only"


def test_a_group_with_unknown_outcomes_is_not_hidden_by_large_ones():
    """Refused people of c have no outcome; they are few among all."""
    frame = loans({"a": (400, 0, 0), "b": (400, 0, 0), "c": (30, 0, 10)})
    rest = pl.DataFrame({"id": range(800), "group": ["a", "b"] * 400, "approved": ["no"] * 800, "repaid": ["1"] * 800})
    answer = bounded(pl.concat([frame, rest.cast({"id": pl.UInt32})]))
    assert answer.report is None, "c would be shown with a rate of 1"


def test_rows_that_could_not_be_read_keep_a_limit_from_being_confirmed():
    frame = clustered(units=300, spread=0.02, rates=(0.5, 0.5))
    asked = {"group": "group", "decision": "decision", "unit": "officer", "max_bias": 0.05, "progress": None}
    lost = np.random.default_rng(0).random(frame.height)

    def without(share):
        blank = pl.Series(lost < share) & (frame["group"] == "group a")
        return frame.with_columns(pl.when(blank).then(pl.lit("")).otherwise("decision").alias("decision"))

    assert elbert.audit(without(0.0), **asked).verdict == "confirmed"
    assert elbert.audit(without(0.005), **asked).verdict == "confirmed"
    many = elbert.audit(without(0.3), **asked)
    assert many.verdict == "undetermined"
    assert many.comparison.limit.words == "rows that could not be read might change it"


def test_groups_too_small_to_compare_keep_a_limit_from_being_confirmed():
    frame = clustered(units=300, spread=0.02, rates=(0.5, 0.5))
    few = pl.DataFrame({"officer": ["officer 000"] * 9, "date": [dt.date(2020, 1, 1)] * 9, "group": ["c"] * 9})
    frame = pl.concat([frame, few.with_columns(pl.lit("no").alias("decision"))])
    asked = {"group": "group", "decision": "decision", "unit": "officer", "max_bias": 0.05, "progress": None}
    answer = elbert.audit(frame, **asked)
    assert (answer.verdict, answer.code) == ("undetermined", 3)
    assert "too small: c;" in answer.comparison.limit.words
    chosen = elbert.audit(frame, smallest=30, **asked)
    assert chosen.verdict == "confirmed"
    assert "without c" in chosen.comparison.limit.words
    gone = frame.with_columns(pl.when(pl.col("group") == "c").then(pl.lit("")).otherwise("decision").alias("decision"))
    assert [each.group for each in elbert.audit(gone, **asked).comparison.not_compared] == ["c"], "and never dropped"


@pytest.mark.study
def test_intervals_around_bounds_hold_for_many_groups():
    """Five equal groups, and nothing but the outcome of the refused unknown that is assumed to be as good: 0."""
    rng, held = np.random.default_rng(3), []
    for _ in range(60):
        n = 1500
        approved, good = rng.random(n) < 0.6, rng.random(n) < 0.7
        frame = pl.DataFrame(
            {
                "group": rng.choice(list("abcde"), n),
                "approved": np.where(approved, "yes", "no"),
                "repaid": [str(int(g)) if a else None for g, a in zip(good, approved, strict=True)],
            }
        )
        (bounds,) = [each for each in bounded(frame, assume="odds:1").comparison.unknown.bounds if each.used]
        held.append(bounds.low <= 0.0)
    assert np.mean(held) >= 0.9


def test_cells_cut_off_where_more_is_given_than_due():
    """a: 60 of 30 and "<10" of 30, which may be 0 .. 9; b is known: 40 of 30. Known numbers are never changed."""
    frame = pl.DataFrame(
        {
            "group": ["a", "a", "b", "b"],
            "month": ["2020-01", "2020-02"] * 2,
            "given": ["60", "<10", "40", "40"],
            "due": ["30", "30", "30", "30"],
        }
    )
    asked = {"group": "group", "supply": "given", "demand": "due", "time": "month", "period": "month", "progress": None}
    (bounds,) = elbert.audit(frame, smallest=0, **asked).comparison.unknown.bounds
    assert ends_of(bounds) == pytest.approx([60 / 60, 69 / 60, 80 / 60, 80 / 60])


def test_refuting_is_corrected_for_the_number_of_comparisons():
    frame = clustered(units=80, spread=0.05, rates=(0.5, 0.5), seed=4)
    frame = frame.with_columns((pl.int_range(pl.len()) % 2).cast(pl.String).alias("half"))
    asked = {"decision": "decision", "unit": "officer", "max_bias": 0.0, "progress": None}
    one = elbert.audit(frame, group="group", **asked).comparison.limit.p_refute
    three = elbert.audit(frame, group=["group", "half"], **asked).comparisons[0].limit.p_refute
    assert three == pytest.approx(min(1.0, 3 * one))
