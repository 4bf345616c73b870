"""No verdict goes beyond what is known: unknown outcomes and groups, rows that were lost, few outcomes, few units."""
# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportOptionalSubscript=false
# pyright: reportOptionalOperand=false

import numpy as np
import polars as pl
import pytest

import elbert
from elbert.auditing.unknown import share_limits
from elbert.errors import InvalidInputError, NotEstimableError
from elbert.files import FileError

ROWS = {"group": "group", "decision": "decision", "unit": "row", "progress": None}


def decisions(*cells):
    """Rows from (group, decision, outcome, number)."""
    kinds = dict.fromkeys(("group", "decision", "outcome"), pl.String)
    return pl.DataFrame([cell[:3] for cell in cells for _ in range(cell[3])], schema=kinds, orient="row")


def even(number=1000):
    """Two groups of which half is accepted."""
    return decisions(*((group, decision, None, number // 2) for group in "AB" for decision in "01"))


def verdict(log, **asked):
    return elbert.audit(log, **(ROWS | asked)).verdict


def test_acceptance_does_not_depend_on_outcomes():
    """Rows of unknown outcome were counted twice, once with each outcome."""
    log = decisions(("A", "1", "1", 100), ("A", "1", None, 400), ("A", "0", None, 500), ("B", "1", None, 505))
    log = pl.concat([log, decisions(("B", "0", None, 495))])
    answer = elbert.audit(log, **ROWS, outcome="outcome", notion="demographic-parity", max_bias=0.1)
    assert answer.verdict == "confirmed"
    assert {group.group: group.rate for group in answer.report.criteria[0].groups} == {"A": 0.5, "B": 0.505}
    assert any("do not depend on them" in note for note in answer.comparison.notes)


@pytest.mark.parametrize(
    ("cells", "limit", "possible"),
    [  # the 960 may be good, and the 60 of group A: 40 / 100 against 1
        ((("A", "1", "0", 40), ("A", "1", None, 960), (None, "0", "0", 60), ("B", "1", "0", 1000)), 0.3, 0.6),
        # the 900 may be good, and the 200 of group A: 200 / 300 against 0.9
        (
            (("A", "0", "0", 100), ("A", "0", None, 900), (None, "1", "0", 200), ("B", "1", "0", 900)),
            0.7,
            0.9 - 2 / 3,
        ),
    ],
)
def test_bounds_of_groups_hold_whatever_the_outcomes(cells, limit, possible):
    """Which corner is extreme may change when people of unknown group are added."""
    more = (("B", "0", "0", 100), ("A", "1", "1", 500), ("B", "1", "1", 500)) if limit == 0.7 else ()
    more = more or (("A", "1", "1", 500), ("B", "1", "1", 500))
    answer = elbert.audit(decisions(*cells, *more), **ROWS, outcome="outcome", notion="equalized-odds", max_bias=limit)
    assert answer.verdict == "undetermined"
    (bounds,) = [
        each
        for each in answer.comparison.unknown.bounds
        if (each.assumption, each.criterion) == ("groups", "false positive rate")
    ]
    assert bounds.least - 1e-9 <= possible <= bounds.most + 1e-9


def test_lost_rows_of_unknown_group_may_belong_to_any():
    assert verdict(even(), max_bias=0.1) == "confirmed"
    log = pl.concat([even(), decisions((None, None, None, 5000))])
    assert verdict(log, max_bias=0.1) == "undetermined"
    assert verdict(log, max_bias=0.1, unknown_groups="leave-out") == "confirmed"


@pytest.mark.parametrize("number", ["100000", None])
def test_lost_rows_weigh_what_they_stand_for(number):
    """One row whose decision, or count, is not known may stand for any number of decisions."""
    log = even().select("group", "decision", pl.lit("1").alias("n")).with_columns(step=pl.int_range(pl.len()) % 50)
    assert verdict(log, max_bias=0.2, count="n", unit=None, time="step") == "confirmed"
    lost = {"group": "B", "decision": None if number else "0", "n": number, "step": 3}
    log = pl.concat([log, pl.DataFrame([lost], schema=log.schema)])
    assert verdict(log, max_bias=0.2, count="n", unit=None, time="step") == "undetermined"


def test_lost_rows_can_undo_a_refutation():
    """Of group B nearly all refusals lack their decision: its rate may be that of A."""
    log = decisions(("A", "1", None, 500), ("A", "0", None, 500), ("B", "1", None, 500), ("B", "0", None, 50))
    assert verdict(log, max_bias=0.1) == "refuted"
    answer = elbert.audit(pl.concat([log, decisions(("B", None, None, 450))]), **ROWS, max_bias=0.1)
    assert answer.verdict == "undetermined"
    assert "rows that could be read" in answer.comparison.limit.words


def test_others_can_refute_next_to_a_group_in_one_unit():
    rng = np.random.default_rng(0)
    rows = [
        (str(unit), group, str(int(rng.random() < rate)))
        for unit in range(100)
        for group, rate in (("B", 0.9), ("C", 0.2))
        for _ in range(5)
    ]
    rows += [("0", "A", "1")] * 40
    log = pl.DataFrame(rows, schema=["unit", "group", "decision"], orient="row")
    answer = elbert.audit(log, **(ROWS | {"unit": "unit"}), max_bias=0.1)
    assert answer.verdict == "refuted"
    kept = elbert.audit(log, **(ROWS | {"unit": "unit"}), max_bias=0.9)
    assert kept.verdict == "undetermined"
    assert kept.comparison.limit.words == "a group has demand in one unit only"


@pytest.mark.slow
@pytest.mark.parametrize("assume", ["odds:2", "odds:1", "no-better"])
def test_few_outcomes_of_the_accepted_say_little(assume):
    """With ten accepted people, all alike, a share of good people of exactly 0 was taken for known."""
    refuted, held = 0, 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        group = rng.choice(["A", "B"], 1000)
        accepted = rng.random(1000) < np.where(group == "A", 0.5, 0.02)
        good = rng.random(1000) < 0.1
        log = pl.DataFrame(
            {
                "group": group,
                "decision": accepted.astype(int),
                "outcome": [str(int(g)) if a else None for g, a in zip(good, accepted, strict=True)],
            }
        )
        answer = elbert.audit(log, **ROWS, outcome="outcome", notion="accuracy-parity", assume=assume, max_bias=0.39)
        refuted += answer.verdict == "refuted"
        (bounds,) = [each for each in answer.comparison.unknown.bounds if each.used]
        held += bounds.ci[0] <= 0.384 <= bounds.ci[1]
    assert refuted <= 2
    assert held >= 17


def test_a_share_is_a_point_only_where_enough_is_known():
    low, high = share_limits(np.array([0.0, 3.0, 50.0, 0.0]), np.array([10.0, 10.0, 100.0, 0.0]), np.inf, 0.95)
    # Clopper and Pearson for 0 of 10 and 3 of 10; a point; nothing known
    np.testing.assert_allclose(low, [0.0, 0.0667, 0.5, 0.0], atol=1e-4)
    np.testing.assert_allclose(high, [0.3085, 0.6525, 0.5, 1.0], atol=1e-4)
    fewer = share_limits(np.array([0.0]), np.array([100.0]), np.array([10.0]), 0.95)
    assert fewer[1][0] == pytest.approx(0.3085, abs=1e-4)  # in ten units that are each of one mind


def test_a_still_group_against_all_has_few_degrees_of_freedom():
    rows = [(u, g, d) for u in range(3) for g, d in (("A", "1"), ("B", str(u % 2)), ("C", "0")) for _ in range(40)]
    log = pl.DataFrame(rows, schema=["unit", "group", "decision"], orient="row").with_columns(
        time=pl.int_range(pl.len()) % 4
    )
    answer = elbert.audit(log, **(ROWS | {"unit": "unit"}), time="time")
    (split,) = [each for each in answer.comparison.splits if (each.first, each.second) == ("A", "all")]
    whole = np.array([0.0, 1.0, 0.0]) / 3  # the rate of all in each unit deviates by what B does
    error = np.sqrt((((whole - whole.mean()) / 3) ** 2 / (1 - 1 / 3)).sum())
    assert split.difference.high - split.difference.value == pytest.approx(4.3027 * error, rel=1e-3)


def test_cells_whose_demand_may_be_0():
    steps = np.repeat(np.arange(30), 2)
    log = pl.DataFrame({"t": steps, "group": ["A", "B"] * 30, "s": ["12", "0"] * 30, "d": ["40", "<10"] * 30})
    asked = {"time": "t", "group": "group", "supply": "s", "demand": "d", "progress": None}
    answer = elbert.audit(log, **asked, max_bias=0.3)
    rates = {each.group: (each.low, each.high) for each in answer.comparison.unknown.bounds[0].rates}
    assert rates == {"A": (0.3, 0.3), "B": (0.0, 0.0)}
    with pytest.raises(NotEstimableError, match="demand of group B may be 0"):
        elbert.audit(log.with_columns(s=pl.Series(["50", "0"] * 30)), **asked)


def test_one_hidden_cell_among_many_does_not_hide_the_rates():
    demand = ["40"] * 479 + ["<10"]
    log = pl.DataFrame(
        {"t": [i // 2 % 24 for i in range(480)], "group": ["A", "B"] * 240, "s": ["4"] * 480, "d": demand}
    )
    answer = elbert.audit(log, time="t", group="group", supply="s", demand="d", max_bias=0.2, progress=None)
    assert answer.report is not None
    assert answer.verdict == "confirmed"


def test_reasons_speak_of_groups_only_where_some_are_unknown():
    rng = np.random.default_rng(55)
    log = pl.DataFrame(
        {
            "group": rng.choice(["A", "B"], 400),
            "sex": rng.choice(["F", "M"], 400),
            "decision": rng.integers(0, 2, 400),
        }
    )
    answer = elbert.audit(log, **(ROWS | {"group": ["group", "sex"]}), max_bias=0.0)
    assert all("whose group" not in each.limit.words for each in answer.comparisons)


def test_due_is_in_days():
    log = decisions(("A", "1", "1", 50), ("A", "0", "0", 50), ("B", "1", "1", 50), ("B", "0", "0", 50))
    log = log.with_columns(year=2000 + pl.int_range(pl.len()) % 10)
    with pytest.raises(InvalidInputError, match="due is a number of days, and column 'year' holds years or steps"):
        elbert.audit(log, **ROWS, outcome="outcome", notion="equal-opportunity", time="year", due=365)


def test_months_are_not_put_into_weeks():
    log = even().with_columns(month=pl.Series([f"2023-{1 + i % 12:02}" for i in range(2000)]))
    assert elbert.audit(log, **ROWS, time="month").period == "month"


def test_the_law_knows_neither_limits_nor_units():
    with pytest.raises(InvalidInputError, match="law is given next to unit, max_bias"):
        elbert.law_table(even(), group="group", decision="decision", max_bias=0.01, unit="row")


def test_the_law_asks_which_of_two_numbers_means_selected():
    log = even().with_columns(pl.col("decision").cast(pl.Int64) + 1)
    with pytest.raises(InvalidInputError, match=r"holds 1 and 2 only\. Say which of them means selected"):
        elbert.law_table(log, group="group", decision="decision", progress=None)
    thirds = pl.DataFrame({"group": ["A", "B"] * 30, "decision": [0.0, 0.5, 1.0] * 20})
    assert elbert.law_table(thirds, group="group", decision="decision", progress=None).rate == "scoring rate"


def test_a_column_has_one_role():
    with pytest.raises(InvalidInputError, match="Column 'group' is given as group and as decision"):
        elbert.audit(even(), **(ROWS | {"decision": "group"}), favourable="A")


@pytest.fixture
def watched(tmp_path):
    """A function that adds a log to a state and gives the verdict."""

    def look(log, name="state.json", **asked):
        asked = {"time": "step", "group": "group", "decision": "decision", "unit": "row", "max_bias": 0.2} | asked
        return elbert.monitor(log, state=tmp_path / name, progress=None, **asked)

    return look


def in_steps(log):
    return log.with_columns(step=pl.int_range(pl.len()) % 30)


def test_a_monitor_weighs_what_does_not_count(watched):
    """90 % of a group without a decision, a group without demand, late rows: each was confirmed."""
    log = in_steps(even(20_000))
    assert watched(log).verdict == "confirmed"
    blank = log.with_columns(
        decision=pl.when((pl.col("group") == "B") & (pl.int_range(pl.len()) % 10 > 0)).then(None).otherwise("decision")
    )
    assert watched(blank, "blank.json").verdict == "undetermined"
    late = pl.concat([log.head(19_000), log.tail(1)])
    watched(late.filter((pl.col("group") == "A") | (pl.int_range(pl.len()) % 20 == 0)), "late.json")
    refused = in_steps(decisions(("B", "0", None, 900))).with_columns(step=pl.lit(1, pl.Int64))
    assert watched(refused, "late.json").verdict == "undetermined"


def test_a_monitor_counts_decisions_of_unknown_group(watched):
    log = in_steps(even(20_000)).with_columns(n=pl.lit(1.0))
    assert watched(log, count="n", unit=None).verdict == "confirmed"
    row = pl.DataFrame([{"group": None, "decision": "1", "outcome": None, "step": 3, "n": 1e6}], schema=log.schema)
    assert watched(pl.concat([log, row]), "more.json", count="n", unit=None).verdict == "undetermined"


def test_a_monitor_confirms_nothing_about_a_group_without_demand(watched):
    cells = [(g, d, "1", 5000) for g in "AB" for d in "01"] + [("C", "0", "0", 500)]
    asked = {"notion": "equal-opportunity", "outcome": "outcome"}
    seen = watched(in_steps(decisions(*cells).sample(fraction=1.0, shuffle=True, seed=1)), **asked)
    assert seen.verdict == "undetermined"
    assert seen.criteria[0].left_out == ("C",)


def test_a_monitor_does_not_need_outcomes_for_acceptance(watched):
    log = in_steps(even(20_000))
    assert watched(log, outcome="outcome", good="1", notion="demographic-parity").verdict == "confirmed"


def test_a_state_that_somebody_else_writes(watched, tmp_path, monkeypatch):
    from filelock import FileLock

    monkeypatch.setattr("elbert.auditing.monitor_state.LONGEST_WAIT", 0.1)
    with FileLock(tmp_path / ".state.json.lock"), pytest.raises(FileError, match="Another process is writing"):
        watched(in_steps(even()))
