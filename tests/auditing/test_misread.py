"""What could be read wrongly and look right: hidden lines, moved columns, confused groups and units, other dates."""
# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportOptionalSubscript=false

import datetime as dt
import gzip
import os
import time

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import elbert
from elbert.auditing.csv_bytes import look_at
from elbert.errors import ElbertError, InvalidInputError, NotEstimableError
from elbert.files import FileError
from tests.auditing.logs import clustered
from tests.parameters import slow_after

HEAD = "officer,group,decision,score,note\n"
LINES = [f"o{i % 12},{'ab'[i % 2]},{('yes', 'no', 'no')[i % 3]},{i % 10},fine\n" for i in range(120)]


def log(n=120, **columns):
    """Rows that alternate between groups; a third of the decisions are yes."""
    standard = {
        "officer": [f"o{i % 12}" for i in range(n)],
        "group": ["ab"[i % 2] for i in range(n)],
        "decision": [("yes", "no", "no")[i % 3] for i in range(n)],
    }
    return pl.DataFrame(standard | columns)


def audited(source, **asked):
    asked = {"group": "group", "decision": "decision", "unit": "officer"} | asked
    return elbert.audit(source, progress=None, **{name: value for name, value in asked.items() if value is not None})


def numbers(answer):
    content = answer.to_dict()
    return {name: content[name] for name in ("rows", "reasons", "units", "periods", "verdict")} | {
        "rows by group": list(answer.comparison.rows.values()),
        "rates": [[group.rate for group in part.groups] for part in answer.report.criteria] if answer.report else None,
    }


def cycled(*values, n=120):
    return [values[i % len(values)] for i in range(n)]


def written(folder, text, name="log.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# Files


def test_stray_quotes_do_not_hide_lines(tmp_path):
    """In a column that is not asked for, a parser takes all between two stray quotes for one field."""
    lines = list(LINES)
    lines[9], lines[49] = (line.replace("fine", '5" pipe') for line in (lines[9], lines[49]))
    with pytest.raises(FileError, match="line 11 has a quote that neither opens nor closes a field"):
        audited(written(tmp_path, HEAD + "".join(lines)))
    within_a_line = [line.replace("fine", 'he said "hi" twice') for line in LINES]
    assert audited(written(tmp_path, HEAD + "".join(within_a_line))).rows == 120
    quoted = [line.replace("fine", '"5"" pipe,\nsecond line"') for line in LINES]
    assert audited(written(tmp_path, HEAD + "".join(quoted))).rows == 120


def test_quotes_that_are_cut_by_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr("elbert.auditing.csv_bytes.BLOCK", 128)
    good = HEAD + "".join(line.replace("fine", '"a ""b"" c\nd"') for line in LINES[:20])
    for shift in range(60):
        assert look_at(written(tmp_path, "x" * shift + good)).separator == ","
        wrong = "x" * shift + good.replace('c\nd"', 'c\nd"e', 9).replace('d"e', 'd"', 8)
        with pytest.raises(FileError, match=r"line 19 has a quote"):
            look_at(written(tmp_path, wrong))


def test_a_line_with_too_many_columns_is_named_whatever_is_asked_for(tmp_path):
    lines = list(LINES)
    lines[4] = "Smith, John,a,yes,3,fine\n"
    with pytest.raises(ElbertError, match="line 6 has 6 columns and the header has 5"):
        audited(written(tmp_path, HEAD + "".join(lines)))


def test_names_of_files_are_no_patterns(tmp_path):
    written(tmp_path, HEAD + "".join(LINES[:60]), "log1.csv")
    log().write_parquet(tmp_path / "log1.parquet")
    log(60).write_parquet(tmp_path / "log[1].parquet")
    assert audited(written(tmp_path, HEAD + "".join(LINES), "log[1].csv")).rows == 120
    assert audited(tmp_path / "log[1].parquet").rows == 60


def test_a_file_that_is_named_twice_counts_once(tmp_path):
    path = written(tmp_path, HEAD + "".join(LINES))
    answer = audited([path, tmp_path / "*.csv"])
    assert answer.rows == 120
    assert f"{path} is named twice and was read once." in answer.notes


def test_files_in_different_encodings_hold_the_same_groups(tmp_path):
    text = HEAD + "".join(LINES).replace(",a,", ",né,")
    paths = [written(tmp_path, text.encode(code), f"{code}.csv") for code in ("utf-8-sig", "cp1252")]
    answer = audited(paths, unit="row")
    assert answer.comparison.rows == {"né": 120, "b": 120}
    assert answer.units == 240, "rows of different files are different units"


def test_packed_files(tmp_path):
    text = (HEAD + "".join(LINES)).encode()
    packed = gzip.compress(text)
    assert audited(written(tmp_path, packed, "log.csv")).rows == 120, "whatever it is called"
    assert audited(written(tmp_path, text, "log.csv.gz")).rows == 120
    twice = gzip.compress(text[:900]) + gzip.compress(text[900:])
    assert audited(written(tmp_path, twice, "log.csv.gz")).rows == 120
    for broken in (packed[:-9], packed[:50] + b"\xff" * 9 + packed[60:], packed + b"more"):
        with pytest.raises(FileError, match="Cannot read"):
            audited(written(tmp_path, broken, "log.csv.gz"))


def test_lines_that_end_as_on_old_macintoshes(tmp_path):
    with pytest.raises(FileError, match="a carriage return alone"):
        audited(written(tmp_path, (HEAD + "".join(LINES)).replace("\n", "\r")))


@pytest.mark.skipif(os.name == "nt", reason="names of files are text there")
def test_names_of_files_that_are_no_text(tmp_path):
    path = os.path.join(os.fsencode(tmp_path), b"\xff.csv")  # noqa: PTH118 (of bytes)
    with open(path, "wb") as file:  # noqa: PTH123
        file.write((HEAD + "".join(LINES)).encode())
    with pytest.raises(FileError, match=r"is not UTF-8"):
        audited(os.fsdecode(path))
    named = written(tmp_path, HEAD + "".join(LINES), "l\x1b[31m\nog.csv")
    assert "\x1b" not in str(audited(named))
    with pytest.raises(InvalidInputError, match=r"l\\x1b\[31m\\nog.csv has no column"):
        audited(named, group="nobody")


# Names of columns


@pytest.mark.parametrize(
    "name",
    slow_after(
        3,
        [
            *("unit of a row", "a\nb", "\x1b[31m", "rows", "\u202ex", "x" * 10_000),
            *("status", "unit", "time", "period", "measure 0", "value", "key", "held", "label", "score as number"),
            *("copies of a row", "unit of the log", "date as time"),
        ],
    ),
)
def test_columns_may_be_called_anything(name, tmp_path):
    frame = log(score=[str(i % 10) for i in range(120)], date=[f"2020-0{1 + i % 9}-01" for i in range(120)])
    asked = {"group": "group", "decision": "score", "threshold": 5, "key": "score", "time": "date", "period": "month"}
    wanted = numbers(audited(frame, **asked))
    for old in ("group", "score", "date", "officer"):
        other = {each: name if value == old else value for each, value in (asked | {"unit": "officer"}).items()}
        renamed = frame.rename({old: name})
        assert numbers(audited(renamed, **other)) == wanted, old
    frame.rename({"group": name}).write_csv(tmp_path / "log.csv")
    assert numbers(audited(tmp_path / "log.csv", **(asked | {"group": name}))) == wanted


@pytest.mark.parametrize("name", ["*", "^gr.*$", "elbert row", "elbert file"])
def test_names_that_mean_something_else_are_refused(name, tmp_path):
    frame = log().rename({"group": name})
    frame.write_csv(tmp_path / "log.csv")
    frame.write_parquet(tmp_path / "log.parquet")
    for source in (frame, tmp_path / "log.csv", tmp_path / "log.parquet"):
        with pytest.raises(InvalidInputError, match=r"has a column called"):
            audited(source, group=name)
    with pytest.raises(InvalidInputError, match="name is empty"):
        audited(frame, group="")


# Groups and units


def test_values_of_several_types_are_told_apart_as_people_do():
    frame = log().to_pandas()
    frame["group"] = pd.Series(cycled(1, 1.0, "1", " 1 ", True, "true", np.int8(2), None, np.nan, pd.NA), dtype=object)
    assert audited(frame).comparison.rows == {"1": 48, "true": 24, "2": 12}
    frame["other"] = pd.Series(cycled([1], {2: 3}, np.zeros(2), 2**100), dtype=object)
    assert audited(frame).comparison.rows == {"1": 48, "true": 24, "2": 12}, "what is not asked for does not matter"
    with pytest.raises(InvalidInputError, match="column 'other' holds Object"):
        audited(frame, group="other")


def test_units_are_told_apart_as_people_do():
    kinds = {
        "text": (cycled("x", " x", "y ", "", "NA", "unknown"), 60, 2),
        "numbers": (cycled(1.0, 2.0, float("nan"), None), 60, 2),
        "times": (pl.Series(cycled(1, 2, 3)).cast(pl.Datetime("ns")), 120, 3),
        "long": (pl.Series(cycled(2**64 - 1, 2**64 - 2), dtype=pl.UInt64), 120, 2),
    }
    for name, (values, rows, units) in kinds.items():
        answer = audited(log().with_columns(pl.Series("officer", values)))
        assert (answer.reasons["counted"], answer.units) == (rows, units), name
    assert audited(log().with_columns(pl.Series("officer", cycled(1, 2, -9))), missing=-9).units == 2
    ids = duckdb.from_arrow(log().to_arrow()).project('"group", decision, uuid() as officer')
    assert audited(ids).units == 120


def test_groups_whose_names_begin_alike_stay_apart():
    long = "x" * 90
    answer = audited(log(group=cycled(f"{long} one", f"{long} two")))
    assert list(answer.comparison.rows.values()) == [60, 60]
    both = log(group=cycled("a, b", "a"), sex=cycled("c", "b, c"))
    answer = audited(both, group=["group", "sex"])
    assert sorted(answer.comparisons[2].rows.values()) == [60, 60]


def test_groups_that_differ_by_nanoseconds():
    for kind in (pl.Datetime("ns"), pl.Time):
        answer = audited(log().with_columns(pl.Series("group", cycled(1, 2)).cast(kind)))
        assert list(answer.comparison.rows.values()) == [60, 60]


def test_many_groups_and_many_combinations():
    n = 1800
    frame = log(n).with_columns(pl.Series("group", [f"g{i % 900}" for i in range(n)]))
    assert len(audited(frame).comparison.rows) == 900
    values = {f"c{place}": [str((i // 2 + place) % 300) for i in range(n)] for place in range(4)}
    answer = audited(log(n, **values), control=list(values))
    assert answer.comparison.standardised[0].strata == 300, "300**4 does not fit into 32 bits"
    more = {f"c{place}": cycled(*map(str, range(300)), n=n) for place in range(8)}
    with pytest.raises(InvalidInputError, match=r"combinations of values"):
        audited(log(n, **more), control=list(more))


def test_groups_that_are_too_many_to_follow_are_compared_all_the_same(monkeypatch):
    frame = log(step=[i // 40 for i in range(120)])
    followed = audited(frame, time="step")
    monkeypatch.setattr("elbert.auditing.audit.MOST_FOLLOWED", 10)
    answer = audited(frame, time="step")
    assert (len(followed.comparison.courses), len(answer.comparison.courses)) == (1, 0)
    assert numbers(answer) == numbers(followed)
    assert any("2 groups of group in 3 periods are too many to follow" in note for note in answer.notes)


def test_combinations_of_which_different_parts_are_unknown():
    frame = log(group=cycled("a", "b", None, "a"), sex=cycled("f", "m", "f", None))
    assert [len(each.rows) for each in audited(frame, group=["group", "sex"]).comparisons] == [2, 2, 2]


# Times


@pytest.mark.parametrize("text", ["25/06/20", "05/06/20", "20-01-02", "1/2/03"])
def test_years_of_two_digits_are_not_read_as_the_first_century(text):
    frame = log(date=[text] * 120)
    with pytest.raises(InvalidInputError, match="may have the day or the month first"):
        audited(frame, time="date", period="year")
    mark = "/" if "/" in text else "-"
    answer = audited(frame, time="date", period="year", time_format=f"%y{mark}%m{mark}%d")
    assert answer.periods[0].startswith("20")


def test_years_of_two_digits_that_can_be_read_in_one_way():
    answer = audited(log(date=cycled("12/31/19", "01/05/20")), time="date", period="year")
    assert answer.periods == ("2019", "2020")


def test_logs_that_write_the_day_first_in_one_row_and_the_month_in_another():
    dates = cycled("31/12/2019", "05/06/2020", "12/31/2019", "13/06/2020")
    with pytest.raises(InvalidInputError, match="may have the day or the month first"):
        audited(log(date=dates), time="date", period="year")
    answer = audited(log(date=dates), time="date", period="year", time_format="%d/%m/%Y")
    assert answer.reasons == {"counted": 90, "time cannot be read": 30}


@pytest.mark.parametrize(
    "text", ["0000-00-00", "0001-01-01", "9999-12-31", "99999-01-01", "+99999-01-01", "-0005-01-01"]
)
def test_times_out_of_range_are_rows_that_cannot_be_read(text):
    days = ["2020-01-15", "2020-02-15"] * 59
    answer = audited(log(date=[*days, text, text]), time="date")
    assert answer.reasons == {"counted": 118, "time cannot be read": 2}
    assert answer.periods[0] == "2020-01-15"


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([18_000, 18_030] * 59 + [10**7, -(10**7)]).cast(pl.Date),
        pl.Series([18_000, 18_030] * 59 + [2**31 - 1, -(2**31)]).cast(pl.Date),
        (pl.Series([1_577_000_000_000, 1_580_000_000_000] * 59 + [2**62, -(2**62)])).cast(pl.Datetime("ms")),
        pl.Series([2000.0, 2001.0] * 59 + [float("inf"), 1e300]),
        pl.Series([2000, 2001] * 59 + [2**64 - 1] * 2, dtype=pl.UInt64),
    ],
)
def test_typed_times_out_of_range(values, tmp_path):
    frame = log().with_columns(values.alias("date"))
    frame.write_parquet(tmp_path / "log.parquet")
    for source in (frame, tmp_path / "log.parquet"):
        assert audited(source, time="date").reasons == {"counted": 118, "time cannot be read": 2}


def test_times_with_a_zone(tmp_path):
    frame = log(date=cycled("2020-01-01T10:00:00Z", "2020-02-01T10:00:00+05:30"))
    assert audited(frame, time="date", period="month").periods == ("2020-01", "2020-02")


def test_an_outcome_of_the_same_day_is_not_before_its_decision():
    frame = log(
        date=[dt.datetime(2020, 1, 1 + i % 28, 15) for i in range(120)],
        known=[dt.date(2020, 1, 1 + i % 28) for i in range(120)],
        repaid=cycled(1, 0),
    )
    asked = {"time": "date", "outcome": "repaid", "notion": "equal-opportunity", "outcome_time": "known"}
    assert audited(frame, **asked).reasons == {"counted": 120}
    earlier = frame.with_columns(pl.col("known") - pl.duration(days=1))
    with pytest.raises(NotEstimableError, match="outcome is before its decision"):
        audited(earlier, **asked)
    zoned = frame.with_columns(pl.col("date").dt.replace_time_zone("UTC"))
    with pytest.raises(InvalidInputError, match="cannot be compared"):
        audited(zoned, **asked)
    assert audited(frame, **(asked | {"due": 1e300})).comparison.unknown.outcomes == 120


# Conditions and values that are not known


def test_a_day_in_a_condition_is_the_whole_day():
    moments = [dt.datetime(2020, 1, 1 + i % 4, 15) for i in range(120)]
    for values in (moments, [str(moment) for moment in moments], [moment.date().isoformat() for moment in moments]):
        frame = log(date=values, group=cycled(*"aaaabbbb"))
        assert audited(frame, where="date<=2020-01-02").reasons["counted"] == 60
        assert audited(frame, where=["date>2020-01-01", "date<2020-01-03"]).reasons["counted"] == 30


def test_conditions_that_have_no_order_are_refused():
    for column, values, condition in (
        ("date", cycled("31.12.2019", "01.01.2020"), "date>=2020-01-01"),
        ("size", cycled("small", "large"), "size>medium"),
        ("flag", cycled(True, False), "flag=banana"),
    ):
        with pytest.raises(InvalidInputError, match=f"where (puts|compares) column '{column}'|: where puts column"):
            audited(log(**{column: values}), where=condition)


def test_conditions_on_long_numbers_are_exact():
    frame = log(number=cycled(2**53, 2**53 + 1), side=["xy"[i // 2 % 2] for i in range(120)])
    assert audited(frame, where=f"number={2**53 + 1}", group="side").reasons["counted"] == 60


def test_what_means_not_known_does_so_in_every_column():
    frame = log(
        score=cycled(3, 7, -99, n=120),
        people=cycled(1, 2, 1, -99),
        date=cycled("2020-01-01", "1900-01-01", "2020-05-01"),
    )
    for kind in (pl.Int64, pl.Float64, pl.String):
        scores = frame.with_columns(pl.col("score", "people").cast(kind))
        answer = audited(scores, decision="score", threshold=5, missing=-99)
        assert answer.reasons == {"counted": 80, "decision is not known": 40}
        counted = audited(scores, count="people", missing="-99")
        assert counted.reasons == {"counted": 90, "count is not known, or below 0": 30}
    for values in (frame["date"], frame["date"].str.to_date(), frame["date"].str.to_datetime()):
        answer = audited(frame.with_columns(values), time="date", missing="1900-01-01", period="year")
        assert answer.periods == ("2020",)


def test_numbers_that_are_nan_are_not_known_and_infinite_ones_cannot_be_read():
    answer = audited(log(score=cycled(3.0, float("nan"), float("inf"), None)), decision="score", threshold=1)
    assert answer.reasons == {"counted": 30, "decision is not known": 60, "decision cannot be read": 30}


# Counts and amounts


def test_counts_where_every_decision_is_a_unit():
    answer = audited(log(people=cycled(0, 2, 1)), count="people", unit="row")
    assert (answer.rows, answer.reasons, answer.units) == (120, {"counted": 120}, 120)
    with pytest.raises(InvalidInputError, match=r"no whole number \(one row holds '2.5'\)"):
        audited(log(people=cycled(1.0, 2.5)), count="people", unit="row")
    unknown = audited(log(people=cycled(1.0, None, -3.0)), count="people", unit="row")
    assert unknown.reasons == {"counted": 40, "count is not known, or below 0": 80}
    begun = time.monotonic()
    with pytest.raises(InvalidInputError, match="too many to take each as a unit"):
        audited(log(people=cycled(-(10**9), 10**9)), count="people", unit="row")
    assert time.monotonic() - begun < 5, "though they add up to 0"


def test_columns_of_counts_may_be_called_anything():
    wanted = numbers(audited(log(people=cycled(1, 2)), count="people", unit="row", key="officer"))
    for name in ("copies of a row", "unit of a row", "people as number"):
        answer = audited(log(**{name: cycled("1", "2")}), count=name, unit="row", key="officer")
        assert numbers(answer) == wanted
        assert len(answer.notes) == 1, "the copies of a row are not taken for repetitions"


def test_numbers_that_are_too_large_do_not_drown_the_others():
    answer = audited(log(people=[1.0] * 119 + [1e300]), count="people")
    assert answer.reasons == {"counted": 119, "count is not known, or below 0": 1}
    assert "1e+300" in answer.examples["count is not known, or below 0"]


@pytest.mark.parametrize(("given", "most"), [("8", 9 / 14), ("12", 14 / 14)])
def test_amounts_next_to_amounts_that_are_held_back(given, most):
    """Known amounts stay what they are: `given` of 10 for a; 5 of 10, and less than 10 of 4, for b.

    No more than 4 of 4, unless the log itself says that more is given than is due.
    """
    frame = pl.DataFrame(
        {
            "group": ["a", "b", "b", *"abababab"],
            "given": [given, "5", "<10", "<0", "inf", "nan", "<\u0663", "-5", "< 1e9", "<", "1e300"],
            "due": ["10", "10", "4", *["5"] * 8],
            "month": ["2020-01", "2020-02", "2020-03", *["2020-04"] * 8],
        }
    )
    asked = {"decision": None, "unit": None, "supply": "given", "demand": "due", "time": "month", "period": "month"}
    answer = audited(frame, smallest=0, **asked)
    assert answer.reasons == {"counted": 3, "amount is not known, or below 0": 8}
    (bounds,) = answer.comparison.unknown.bounds
    known = int(given) / 10
    assert {each.group: (each.low, each.high) for each in bounds.rates} == {
        "a": pytest.approx((known, known)),
        "b": pytest.approx((5 / 14, most)),
    }


def test_amounts_and_counts_that_are_all_0():
    nothing = log(given=[0] * 120, due=[0] * 120)
    amounts = audited(nothing, decision=None, supply="given", demand="due", max_bias=0.1)
    counts = audited(nothing, count="due", max_bias=0.1)
    for answer in (amounts, counts):
        assert (answer.reasons, answer.verdict, answer.report) == ({"counted": 120}, "undetermined", None)
        assert "No two groups can be compared" in str(answer)


# The question, the law, the monitor


def test_questions_that_are_no_question():
    frame = log()
    for asked, words in (
        ({"unknown_groups": "forget"}, "Give bound or leave-out"),
        ({"law": "gdpr"}, "Give ll144"),
        ({"where": " " * 100_000}, "where is"),
        ({"threshold": "1e999"}, "threshold is"),
        ({"favourable": "\udcff"}, "no text that can be in a log"),
        ({"group": 10**5000}, "no text that can be in a log"),
        ({"max_bias": float("inf")}, "max_bias is inf"),
        ({"time_format": "%H", "time": "decision"}, "--time-format is '%H'"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            audited(frame, **asked)
    with pytest.raises(InvalidInputError, match="question is a dict"):
        elbert.audit(frame, {"group": "group"})


def test_zero_is_an_answer():
    asked = elbert.Question(group=("group",), smallest=0, max_bias=0.0, seed=0).to_dict()
    assert asked == {"group": ["group"], "smallest": 0, "max_bias": 0.0, "seed": 0}
    answer = audited(log(), smallest=np.int64(0), max_bias=np.float32(0.0))
    assert (answer.question["smallest"], answer.question["max_bias"]) == (0, 0.0)


def test_a_question_may_name_one_column_as_text():
    question = elbert.Question(group="group", decision="decision", unit="officer")
    assert elbert.audit(log(), question, progress=None).comparison.rows == {"a": 60, "b": 60}


def test_the_median_of_the_law_is_that_of_the_rows_asked_for():
    frame = log(
        score=[i if i < 60 else 10_000 for i in range(120)], year=[2020 if i < 60 else 2021 for i in range(120)]
    )
    asked = {"group": "group", "decision": "score", "progress": None}
    assert elbert.law_table(frame, where="year=2020", **asked).median == 29.5
    words = log(score=[*cycled("yes", "no", n=119), "7"])
    with pytest.raises(InvalidInputError, match="Say which of them counts"):
        elbert.law_table(words, **asked)
    with pytest.raises(InvalidInputError, match="Give a row per person"):
        elbert.law_table(frame, count="year", **asked)
    nobody = log(people=[0] * 120)
    (section,) = elbert.law_table(nobody, count="people", **(asked | {"decision": "decision"})).sections
    assert [(each.people, each.rate, each.impact_ratio) for each in section.categories] == [(0, None, None)] * 2


def monitored(frame, state, **asked):
    return elbert.monitor(frame, state=state, progress=None, **asked)


ASKED = {"group": "group", "decision": "decision", "time": "step"}


def test_a_monitor_counts_every_row_once(tmp_path):
    frame = log(step=[i // 10 for i in range(120)]).with_columns(pl.Series("group", cycled("a", "b", None)))
    seen = monitored(frame, tmp_path / "state.json", unit="row", **ASKED)
    assert (seen.added, seen.reasons["counted"]) == (120, 120)


def test_a_monitor_knows_its_units_again(tmp_path):
    pieces = [log(20, step=[step] * 20) for step in (1, 2)]
    first, second = (
        piece.with_columns(pl.Series("officer", values))
        for piece, values in zip(pieces, ([1.0] * 20, [" 1"] * 19 + ["x"]), strict=True)
    )
    monitored(first, tmp_path / "state.json", unit="officer", **ASKED)
    seen = monitored(second, tmp_path / "state.json")
    assert seen.reasons == {"counted": 21, "unit came back in a later period": 19}


def test_a_monitor_refuses_what_it_cannot_do(tmp_path):
    frame = log(step=[1] * 120, given=[1] * 120, due=[2] * 120)
    amounts = {"group": "group", "supply": "given", "demand": "due", "time": "step", "unit": "row"}
    with pytest.raises(InvalidInputError, match="rows that hold amounts cannot be its units"):
        monitored(frame, tmp_path / "state.json", **amounts)
    for best_at in (-5, 0, float("nan"), "soon"):
        with pytest.raises(InvalidInputError, match="best_at is"):
            monitored(frame, tmp_path / "state.json", best_at=best_at, **ASKED)
    (tmp_path / "file").write_text("")
    for state, words in (
        ("", "state is"),
        ("/", "state is"),
        (tmp_path / "file" / "x", "Cannot write"),
        (tmp_path, "Cannot"),
    ):
        with pytest.raises(ElbertError, match=words):
            monitored(frame, state, **ASKED)
    assert {path.name for path in tmp_path.iterdir()} <= {"file", ".state.json.lock", f".{tmp_path.name}.lock"}


def test_a_limit_of_zero_is_remembered(tmp_path):
    frame = clustered(units=20).with_columns(pl.col("date").dt.year().alias("step"))
    monitored(frame, tmp_path / "state.json", max_bias=0.0, unit="row", **ASKED)
    assert monitored(None, tmp_path / "state.json").verdict is not None
