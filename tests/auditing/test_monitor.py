"""A monitor: the same state however the rows come, bounds by hand, alarms, and what it refuses."""
# pyright: reportOptionalOperand=false, reportOperatorIssue=false, reportPossiblyUnboundVariable=false

import datetime as dt
import itertools
import json

import numpy as np
import polars as pl
import pytest

import elbert
from elbert.auditing.monitor_state import State
from elbert.auditing.question import Question
from elbert.errors import InvalidInputError
from elbert.fairness.confidence_sequences import sequence_radius
from elbert.files import FileError
from tests.auditing.logs import clustered
from tests.command_line import cli
from tests.parameters import slow_after

ASKED = {"time": "date", "group": "group", "decision": "decision", "period": "week"}


def log(units=150, **options):
    return clustered(units=units, spread=0.05, mean=20, **({"rates": (0.6, 0.6), "seed": 3} | options)).sort("date")


def looked(frame, state, **asked):
    return elbert.monitor(frame, state=state, progress=None, **asked)


def in_pieces(frame, state, number, **asked):
    cuts = np.linspace(0, frame.height, number + 1).round().astype(int)
    for first, last in itertools.pairwise(cuts):
        seen = looked(frame[first:last], state, **asked)
    return seen


@pytest.mark.parametrize(
    "asked",
    slow_after(
        1,
        [
            pytest.param(ASKED | {"unit": "row", "exact": True}, id="exact rows"),
            pytest.param(ASKED, id="weeks"),
            pytest.param(ASKED | {"period": "day", "unit": "visit"}, id="units"),
            pytest.param(ASKED | {"unit": "row"}, id="rows"),
            pytest.param(ASKED | {"key": "id", "max_bias": 0.05}, id="keys"),
            pytest.param(ASKED | {"exact": True, "largest": 1000}, id="exact weeks"),
        ],
    ),
)
def test_one_piece_and_many_give_the_same_state(tmp_path, asked):
    frame = log(units=60).with_row_index("id")
    visit = pl.col("date").cast(pl.String) + pl.col("officer")
    frame = frame.with_columns(visit.alias("visit"))
    whole = looked(frame, tmp_path / "whole.json", **asked)
    for number in (2, 13):
        pieces = in_pieces(frame, tmp_path / f"{number}.json", number, **asked)
        assert (tmp_path / f"{number}.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
        assert pieces.criteria == whole.criteria
    assert whole.reasons == {"counted": frame.height}


@pytest.mark.study
def test_a_thousand_pieces_give_the_same_state(tmp_path):
    frame = log(units=300)
    looked(frame, tmp_path / "whole.json", **ASKED)
    in_pieces(frame, tmp_path / "pieces.json", 1000, **ASKED)
    assert (tmp_path / "pieces.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


def test_rates_and_bounds_by_hand(tmp_path):
    frame = log(rates=(0.7, 0.6))
    seen = looked(frame, tmp_path / "state.json", **ASKED)
    week = frame["date"].dt.truncate("1w")
    totals = (
        frame.with_columns(week.alias("week"), (pl.col("decision") == "yes").cast(int).alias("yes"))
        .filter(pl.col("week") < week.max())  # the last week is not over
        .group_by("week")
        .agg(
            *(pl.col("yes").filter(pl.col("group") == g).sum().alias(f"S {g}") for g in ("group a", "group b")),
            *((pl.col("group") == g).sum().alias(f"D {g}") for g in ("group a", "group b")),
        )
    )
    supply, demand = (totals.select(rf"^{kind} .*$").to_numpy().astype(float) for kind in "SD")
    rates = supply.sum(axis=0) / demand.sum(axis=0)
    units = len(totals)
    (part,) = seen.criteria
    assert seen.units == units
    assert [each.rate for each in part.groups] == pytest.approx(rates)
    assert part.bias == pytest.approx(rates[0] - rates[1])
    influence = (supply - rates * demand) / demand.mean(axis=0)
    deviation = np.sqrt(np.mean((influence[:, 0] - influence[:, 1]) ** 2))
    freedom = (demand.sum(axis=0) ** 2 / (demand**2).sum(axis=0)).min() - 1
    half = float(sequence_radius(deviation, units, level=0.8 * 0.05, freedom=freedom))  # 0.2 is for groups to come
    assert (part.low, part.high) == pytest.approx((part.bias - half, part.bias + half), rel=1e-6)


def test_verdicts_and_codes(tmp_path):
    asked = ASKED | {"max_bias": 0.05, "unit": "row"}
    apart, alike = log(units=300, rates=(0.75, 0.55)), log(units=600)
    few = looked(apart[:30], tmp_path / "apart.json", **asked)
    assert (few.verdict, few.code) == ("undetermined", 3)
    many = looked(apart[30:], tmp_path / "apart.json")
    assert (many.verdict, many.code) == ("refuted", 1)
    fair = looked(alike, tmp_path / "alike.json", **asked)
    assert (fair.verdict, fair.code) == ("confirmed", 0)
    only_a_look = looked(None, tmp_path / "alike.json")
    assert (only_a_look.verdict, only_a_look.added) == ("confirmed", 0)
    lost = alike.with_columns(pl.when(pl.int_range(pl.len()) % 50 == 0).then(None).otherwise("group").alias("group"))
    unknown = looked(lost, tmp_path / "unknown.json", **asked)
    assert (unknown.verdict, unknown.words[:11]) == ("undetermined", "some groups")


def test_repeated_and_late_rows_and_units_that_come_back_are_counted(tmp_path):
    frame = log().with_row_index("id")
    looked(frame[:1000], tmp_path / "keys.json", key="id", **ASKED)
    again = looked(frame[500:1500], tmp_path / "keys.json")
    assert again.reasons == {"counted": 1500, "key was seen before": 500}
    looked(frame[1500:], tmp_path / "late.json", **ASKED)
    late = looked(frame[:100], tmp_path / "late.json")
    assert late.reasons == {"counted": frame.height - 1500, "came after its period was over": 100}
    officers = looked(frame, tmp_path / "officers.json", unit="officer", **ASKED)
    first = frame.with_columns(pl.col("date").dt.truncate("1w").alias("week"))
    own = first.filter(pl.col("week") == pl.col("week").min().over("officer")).height
    assert officers.reasons == {"counted": own, "unit came back in a later period": frame.height - own}


def test_a_group_that_comes_late_is_taken_in(tmp_path):
    early, late = log(), log(rates=(0.6, 0.6, 0.6), seed=5)
    late = late.with_columns(pl.col("date") + dt.timedelta(days=730))
    seen = looked(pl.concat([early, late]), tmp_path / "state.json", **ASKED)
    assert [each.group for each in seen.criteria[0].groups] == ["group a", "group b", "group c"]
    pieces = in_pieces(pl.concat([early, late]), tmp_path / "pieces.json", 9, **ASKED)
    assert pieces.criteria == seen.criteria
    third = next(each for each in seen.criteria[0].groups if each.group == "group c")
    assert third.demand < seen.criteria[0].groups[0].demand


def test_exact_bounds_hold_the_rates(tmp_path):
    frame = log(units=300, rates=(0.8, 0.5))
    seen = looked(frame, tmp_path / "state.json", unit="row", exact=True, max_bias=0.1, **ASKED)
    (part,) = seen.criteria
    for each, rate in zip(part.groups, (0.8, 0.5), strict=True):
        assert each.low < rate < each.high
        assert each.high - each.low < 0.2
    assert part.low < 0.3 < part.high
    assert seen.verdict == "refuted"
    with pytest.raises(InvalidInputError, match="largest demand that a unit can have"):
        looked(frame, tmp_path / "weeks.json", exact=True, **ASKED)
    with pytest.raises(InvalidInputError, match=r"A unit has a demand of \d+, and exact bounds were asked for with"):
        looked(frame, tmp_path / "weeks.json", exact=True, largest=2, **ASKED)
    assert not (tmp_path / "weeks.json").exists(), "nothing half-written"


def test_what_does_not_fit_is_refused_and_the_state_kept(tmp_path):
    path = tmp_path / "state.json"
    frame = log()
    looked(frame[:1000], path, **ASKED)
    before = path.read_bytes()
    for asked, words in (
        ({"group": "officer"}, r"was begun with group = \['group'\], and now \['officer'\] is given"),
        ({"max_bias": 0.1}, "was begun with max_bias = None"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            looked(frame[1000:], path, **asked)
    with pytest.raises(InvalidInputError, match="has no column 'date'"):
        looked(frame[1000:].drop("date"), path)
    assert path.read_bytes() == before
    for asked, words in (
        ({"time": None, "unit": "officer", "period": None}, "needs to know when decisions were made"),
        ({"control": "officer"}, "A monitor cannot be asked for control"),
        ({"period": None}, "Say how long a period is"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            looked(frame, tmp_path / "other.json", **(ASKED | asked))
    with pytest.raises(InvalidInputError, match="There is no state"):
        looked(None, tmp_path / "other.json", **ASKED)
    content = json.loads(before)
    content["units"] += 1
    path.write_text(json.dumps(content))
    with pytest.raises(FileError, match="Start again with a new file"):
        looked(frame[1000:], path)


def test_the_command_line(tmp_path):
    frame = log(units=300, rates=(0.75, 0.55))
    frame[:3000].write_csv(tmp_path / "one.csv")
    frame[3000:].write_csv(tmp_path / "two.csv")
    state = ["--state", tmp_path / "state.json"]
    asked = [part for name, value in ASKED.items() for part in (f"--{name}", value)]
    first = cli("monitor", tmp_path / "one.csv", *state, *asked, "--max-bias", "0.05")
    assert first.returncode in (1, 3), first.stderr
    second = cli("monitor", tmp_path / "two.csv", *state, "--json")
    content = json.loads(second.stdout)
    assert second.returncode == content["code"] == 1
    assert content["verdict"] == "refuted"
    look = cli("monitor", *state)
    assert look.returncode == 1
    assert "Beyond the limit: a bias of at most 0.05 is refuted" in look.stdout
    assert cli("monitor", tmp_path / "none.csv", *state).returncode == 2


def test_unknown_outcomes_and_lost_rows_leave_no_verdict(tmp_path):
    """True positive rates are 1 for everybody if outcomes are known for the accepted only."""
    rng = np.random.default_rng(0)
    frame = log(units=600).with_columns(pl.Series("good", rng.integers(0, 2, log(units=600).height).astype(str)))
    seen = frame.with_columns(pl.when(pl.col("decision") == "yes").then("good").alias("good"))
    asked = ASKED | {"outcome": "good", "notion": "equal-opportunity", "max_bias": 0.05}
    answer = looked(seen, tmp_path / "outcomes.json", **asked)
    assert (answer.verdict, answer.code) == ("undetermined", 3)
    assert answer.reasons["of these, of unknown outcome"] == frame.filter(pl.col("decision") == "no").height
    assert "outcomes are not known" in answer.words
    back = looked(log(units=600), tmp_path / "back.json", unit="officer", max_bias=0.3, **ASKED)
    assert back.verdict == "undetermined", "most rows come from officers who came back"
    assert "came back" in back.words


def test_rows_of_unknown_group_may_belong_anywhere(tmp_path):
    frame = log(units=600)
    asked = ASKED | {"unit": "row", "max_bias": 0.1}
    for every, verdict in ((1000, "confirmed"), (10, "undetermined")):
        lost = pl.when(pl.int_range(pl.len()) % every == 0).then(None).otherwise("group")
        seen = looked(frame.with_columns(lost.alias("group")), tmp_path / f"{every}.json", **asked)
        assert seen.verdict == verdict
    apart = log(units=300, rates=(0.75, 0.55))
    lost = pl.when(pl.int_range(pl.len()) % 5 == 0).then(None).otherwise("group")
    seen = looked(apart.with_columns(lost.alias("group")), tmp_path / "apart.json", **(asked | {"max_bias": 0.05}))
    assert seen.verdict == "undetermined"


def test_a_rate_that_never_varied_confirms_nothing(tmp_path):
    frame = log().with_columns(pl.lit("yes").alias("decision"))
    seen = looked(frame, tmp_path / "state.json", favourable="yes", max_bias=0.05, unit="row", **ASKED)
    assert seen.verdict == "undetermined"
    assert seen.criteria[0].left_out == ("group a", "group b")


def test_levels_of_all_pairs_add_up_whenever_groups_come():
    state = State.empty(Question(), ["one", "two"], unit="unit")
    for batch, names in enumerate((("a", "b", "c"), ("d",), ("e", "f"))):
        for name in names:
            state.add_group(name, batch)
    pairs = [state.pair_level(i, j) for i, j in itertools.combinations(range(6), 2)]
    groups = [state.group_level(g) for g in range(6)]
    expected = 0.05 / 2 * (0.8 + 0.2 * 0.5 + 0.2 * 0.25)
    assert sum(pairs) == pytest.approx(expected)
    assert sum(groups) == pytest.approx(expected)
    assert 2 * sum(pairs) < 0.05
    assert state.pair_level(0, 1) == pytest.approx(0.8 * 0.05 / 2 / 3)


def test_groups_that_drift_together_are_not_told_apart(tmp_path):
    """Bets bound the rate so far; cutting the bounds of all looks with each other would refute what is true."""
    rng = np.random.default_rng(2)
    chance = np.linspace(0.2, 0.8, 2000)
    frame = pl.DataFrame(
        {
            "date": np.arange(2000) // 20,
            "group": rng.choice(["a", "b"], 2000),
            "decision": (rng.random(2000) < chance).astype(int),
        }
    )
    asked = {"time": "date", "group": "group", "decision": "decision", "unit": "row", "max_bias": 0.0, "exact": True}
    (part,) = looked(frame, tmp_path / "state.json", **asked).criteria
    assert part.low == 0.0
    assert all(each.low < each.rate < each.high for each in part.groups)


def test_a_row_that_did_not_count_may_be_sent_again(tmp_path):
    frame = log().with_row_index("id")
    blank = frame[:500].with_columns(
        pl.when(pl.col("id") == 7).then(pl.lit("")).otherwise("decision").alias("decision")
    )
    looked(blank, tmp_path / "state.json", key="id", **ASKED)
    last = frame[480:500].select("date").row(-1)[0]
    mended = frame[7:8].with_columns(pl.lit(last).alias("date"))
    again = looked(mended, tmp_path / "state.json")
    assert again.reasons == {"counted": 500, "decision is not known": 1}


def test_what_cannot_be_monitored_is_refused(tmp_path):
    frame = log()
    looked(frame, tmp_path / "state.json", **ASKED)
    for asked, words in (({"exact": True}, "begun with exact = False"), ({"best_at": 50}, "begun with best_at = 500")):
        with pytest.raises(InvalidInputError, match=words):
            looked(frame, tmp_path / "state.json", **asked)
    counted = frame.with_columns(pl.lit(3).alias("people"))
    with pytest.raises(InvalidInputError, match=r"unit is row, and rows stand for several decisions"):
        looked(counted, tmp_path / "counts.json", unit="row", count="people", **ASKED)
    paid = frame.with_columns(pl.lit(5).alias("paid"), pl.lit(3).alias("due"))
    amounts = {"time": "date", "period": "week", "group": "group", "supply": "paid", "demand": "due"}
    with pytest.raises(InvalidInputError, match="More was given than was due"):
        looked(paid, tmp_path / "amounts.json", exact=True, largest=1000, **amounts)


@pytest.mark.study
@pytest.mark.parametrize(("sigma", "groups"), [(0.0, 2), (1.0, 2), (0.0, 5)])
def test_few_false_alarms_when_looked_at_after_every_unit(sigma, groups):
    """At most 5 % of 200 runs, and twice its standard error for chance; `make bench` has longer and more runs."""
    from benchmarks.audits import false_alarms

    assert false_alarms(runs=200, units=300, sigma=sigma, groups=groups, seed=1) <= 0.05 + 2 * np.sqrt(
        0.05 * 0.95 / 200
    )
