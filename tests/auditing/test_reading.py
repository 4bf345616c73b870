"""What real files look like, and what is said about those that cannot be read."""
# pyright: reportOptionalMemberAccess=false, reportArgumentType=false

import csv
import datetime as dt
import gzip

import numpy as np
import polars as pl
import pytest

import elbert
from elbert.auditing.times import FORMATS
from elbert.errors import ElbertError, InvalidInputError
from elbert.files import FileError

HEAD = "date,group,decision\n"
BODY = "".join(f"2020-0{1 + i % 9}-1{i % 10},{'ab'[i % 2]},{('yes', 'no', 'no')[i % 3]}\n" for i in range(180))
ASKED = {"time": "date", "group": "group", "decision": "decision", "period": "month", "progress": None}


def written(folder, content, name="log.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rates(log, **asked):
    answer = elbert.audit(log, **(ASKED | asked))
    return {each.group: each.rate for each in answer.report.criteria[0].groups}


EXPECTED = {"a": 30 / 90, "b": 30 / 90}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("plain", lambda text: text),
        ("byte-order mark", lambda text: "\ufeff" + text),
        ("semicolons", lambda text: text.replace(",", ";")),
        ("tabs", lambda text: text.replace(",", "\t")),
        ("bars", lambda text: text.replace(",", "|")),
        ("line ends of Windows", lambda text: text.replace("\n", "\r\n")),
        ("quotes", lambda text: text.replace("yes", '"yes"').replace(",a,", ',"a",')),
        ("blanks around", lambda text: text.replace("yes", " yes ").replace(",a,", ", a ,")),
        ("capitals", lambda text: text.replace("yes", "YES").replace("no\n", "No\n")),
        ("numbers", lambda text: text.replace("yes", "1").replace("no\n", "0\n")),
        ("no line end at the end", lambda text: text.rstrip("\n")),
    ],
)
def test_csv_files_of_all_kinds(tmp_path, name, change):
    assert rates(written(tmp_path, change(HEAD + BODY))) == pytest.approx(EXPECTED), name


def test_gzip_parquet_folders_and_patterns(tmp_path):
    lines = BODY.splitlines(keepends=True)
    for number, part in enumerate((lines[:60], lines[60:120], lines[120:])):
        written(tmp_path, HEAD + "".join(part), f"part-{number}.csv")
    (tmp_path / "zipped").mkdir()
    (tmp_path / "zipped" / "log.csv.gz").write_bytes(gzip.compress((HEAD + BODY).encode()))
    frame = pl.read_csv((HEAD + BODY).encode())
    frame.write_parquet(tmp_path / "log.parquet")
    for source in (
        tmp_path / "part-*.csv",
        str(tmp_path / "part-?.csv"),
        [tmp_path / f"part-{number}.csv" for number in range(3)],
        tmp_path / "zipped",
        tmp_path / "zipped" / "log.csv.gz",
        tmp_path / "log.parquet",
        frame,
        frame.lazy(),
    ):
        assert rates(source) == pytest.approx(EXPECTED), source


def test_text_that_is_not_utf8_is_read_and_said(tmp_path):
    path = written(tmp_path, (HEAD + BODY).replace(",a,", ",españa,").encode("cp1252"))
    answer = elbert.audit(path, **ASKED)
    assert set(answer.comparison.rows) == {"españa", "b"}
    assert any("Windows-1252" in note for note in answer.notes)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        ((HEAD).encode(), "no rows"),
        (("date,group,group\n" + BODY).encode(), "more than one column called 'group'"),
        ((HEAD + BODY + "2020-01-01,a,yes,too much\n").encode(), "line 182 has 4 columns and the header has 3"),
        ((HEAD + '2020-01-01,"a,yes\n' + BODY).encode(), "never closed"),
        ((HEAD + BODY).encode("utf-16"), "UTF-16"),
        (b"PK\x03\x04" + bytes(100), "no text file"),
        (b"PAR1 this is no parquet", "cannot be read as Parquet"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, content, words):
    usual = csv.field_size_limit()
    with pytest.raises(ElbertError, match=words):
        elbert.audit(written(tmp_path, content), **ASKED)
    assert csv.field_size_limit() == usual, "the limit is the process's, and not ours to change"


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(tmp_path):
    path = tmp_path / "long.csv"
    with path.open("wb") as file:
        file.write(HEAD.encode())
        file.truncate(2**31)  # two gigabytes, and no line end: nothing of it takes room on the disk
    with pytest.raises(FileError, match="a line of more than 16 MB"):
        elbert.audit(path, **ASKED)


def test_files_with_other_columns_are_named(tmp_path):
    one, two = written(tmp_path, HEAD + BODY, "one.csv"), written(tmp_path, "date,sex,decision\n" + BODY, "two.csv")
    with pytest.raises(InvalidInputError, match=r"two\.csv has the columns date, sex, decision"):
        elbert.audit([one, two], **ASKED)
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "three.parquet")
    with pytest.raises(InvalidInputError, match="CSV and Parquet"):
        elbert.audit([one, tmp_path / "three.parquet"], **ASKED)


def test_names_that_are_nearly_right(tmp_path):
    path = written(tmp_path, HEAD + BODY)
    with pytest.raises(
        InvalidInputError, match=r"no column 'grup'. Did you mean 'group'\? It has date \(2020-01-10\), group"
    ):
        elbert.audit(path, **(ASKED | {"group": "grup"}))
    with pytest.raises(FileError, match=r"Did you mean 'log\.csv'"):
        elbert.audit(tmp_path / "lok.csv", **ASKED)
    with pytest.raises(InvalidInputError, match="The log is of type int"):
        elbert.audit(3, **ASKED)


def test_values_that_are_not_yes_or_no(tmp_path):
    path = written(tmp_path, HEAD + BODY.replace("yes", "granted in part"))
    with pytest.raises(
        InvalidInputError, match=r"holds no \(120\), granted in part \(60\). Say which of them counts: --favourable"
    ):
        elbert.audit(path, **ASKED)
    assert rates(path, favourable="Granted in part") == pytest.approx(EXPECTED)
    with pytest.raises(
        InvalidInputError, match=r"favourable is 'granted', which column 'decision' does not hold\. Did you mean"
    ):
        rates(path, favourable="granted")
    three = written(tmp_path, HEAD + BODY + "2020-01-01,a,perhaps\n", "three.csv")
    with pytest.raises(InvalidInputError, match="Say which of them counts"):
        rates(three)
    assert rates(three, missing="perhaps") == pytest.approx(EXPECTED)


def test_one_group_and_too_many(tmp_path):
    with pytest.raises(InvalidInputError, match=r"holds one group only \(a\)"):
        rates(written(tmp_path, HEAD + BODY.replace(",b,", ",a,")))
    many = HEAD + "".join(f"2020-01-01,person {i},yes\n" for i in range(1500))
    with pytest.raises(InvalidInputError, match="more than 1000 different values"):
        rates(written(tmp_path, many))


def test_markup_and_control_characters_are_shown_for_what_they_are(tmp_path):
    text = (HEAD + BODY).replace(",a,", ",[bold]\x1b[31m<b>a</b>,").replace("group", "gr\x07oup", 1)
    answer = elbert.audit(written(tmp_path, text), **(ASKED | {"group": "gr\x07oup"}))
    shown = str(answer)
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert r"[bold]\x1b[31m<b>a</b>" in shown
    assert "<b>" not in answer._repr_html_()


@pytest.mark.parametrize("time_format", [*FORMATS, "%Y-%m", "%d/%m/%Y", "%m/%d/%Y %H:%M", "%m-%d-%y"])
def test_times_are_recognised(time_format):
    days = [dt.datetime(2019, 12, 25, 13, 45, 10, tzinfo=dt.UTC) + dt.timedelta(days=7 * i) for i in range(60)]
    texts = [day.strftime(time_format.replace("%.f", ".%f")) for day in days]
    frame = pl.DataFrame({"date": texts, "group": ["a", "b"] * 30, "decision": ["yes", "no", "no"] * 20})
    answer = elbert.audit(frame, **ASKED)
    assert answer.periods[0] == "2019-12"
    assert len(answer.periods) == 15, "to February 2021"
    assert answer.reasons == {"counted": 60}


def test_a_day_that_may_be_a_month_is_refused():
    frame = pl.DataFrame({"date": ["03/04/2020", "05/06/2020"] * 40, "group": ["a", "b"] * 40, "decision": [1, 0] * 40})
    with pytest.raises(InvalidInputError, match="may have the day or the month first"):
        elbert.audit(frame, **ASKED)
    first = [elbert.audit(frame, **ASKED, time_format=how).periods[0] for how in ("%d/%m/%Y", "%m/%d/%Y")]
    assert first == ["2020-04", "2020-03"]


def test_dates_timestamps_years_steps_and_eight_digits():
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=13 * i) for i in range(60)]
    kinds = {
        "date": days,
        "timestamp": [dt.datetime.combine(day, dt.time(23, 30)) for day in days],
        "zoned": [dt.datetime.combine(day, dt.time(23, 30), dt.timezone(dt.timedelta(hours=-6))) for day in days],
        "digits": [int(day.strftime("%Y%m%d")) for day in days],
    }
    for name, values in kinds.items():
        frame = pl.DataFrame({"date": values, "group": ["a", "b"] * 30, "decision": [1, 0, 0] * 20})
        if name == "zoned":
            frame = frame.with_columns(pl.col("date").dt.convert_time_zone("America/Chicago"))
        asked = ASKED | ({"time_format": "%Y%m%d"} if name == "digits" else {})
        assert elbert.audit(frame, **asked).periods[:2] == ("2020-01", "2020-02"), name
    steps = pl.DataFrame({"date": np.arange(600) * 10, "group": ["a", "b"] * 300, "decision": [1, 0, 0] * 200})
    with pytest.raises(InvalidInputError, match="--period 119"):
        elbert.audit(steps, **(ASKED | {"period": None}))
    assert elbert.audit(steps, **(ASKED | {"period": 1000})).periods[:2] == ("0 .. 999", "1000 .. 1999")
    years = steps.with_columns(pl.Series("date", [1990.0 + i % 30 for i in range(600)]))
    assert elbert.audit(years, **(ASKED | {"period": None})).periods[-1] == "2019"


def test_times_that_cannot_be_read_say_where(tmp_path):
    lines = (HEAD + BODY).splitlines(keepends=True)
    lines[7] = lines[7].replace("2020", "MMXX")
    answer = elbert.audit(written(tmp_path, "".join(lines)), **ASKED)
    assert answer.reasons["time cannot be read"] == 1
    assert f"row 7 of {tmp_path / 'log.csv'} holds 'MMXX" in answer.examples["time cannot be read"]
    words = "which is not recognised as a time"
    with pytest.raises(InvalidInputError, match=words):
        elbert.audit(written(tmp_path, HEAD + BODY.replace("2020-", "some day ")), **ASKED)


def test_numbers_that_are_none_are_counted(tmp_path):
    rows = [
        f"{'ab'[i % 2]},{value}"
        for i, value in enumerate(["700", "600", "650", "nan", "inf", "12,5", "high", "", "-3"] * 20)
    ]
    text = "group,score\n" + "\n".join(row.replace("12,5", '"12,5"') for row in rows) + "\n"
    asked = {"group": "group", "decision": "score", "threshold": 640, "unit": "row", "progress": None}
    answer = elbert.audit(written(tmp_path, text), **asked)
    assert answer.reasons == {"counted": 80, "decision is not known": 40, "decision cannot be read": 60}
    assert "holds 'inf'" in answer.examples["decision cannot be read"]
