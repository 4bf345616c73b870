"""Logs that nobody should have to read: an answer in which every row has its place, or a refusal that says why."""
# pyright: reportOptionalMemberAccess=false, reportArgumentType=false, reportOptionalSubscript=false

import csv
import gzip
import io
import json
import math
import re
import time

import numpy as np
import polars as pl
import pytest

import elbert
from elbert.auditing.columns import MISSING, NO, YES
from elbert.auditing.monitor_state import UNKNOWN_GROUP, UNKNOWN_OUTCOME, State
from elbert.errors import ElbertError
from elbert.files import FileError, read_sealed, write_sealed
from elbert.tables import visible
from tests.auditing.hostile_logs import file_case, frame_case, table
from tests.command_line import cli
from tests.parameters import slow_after

LONGEST = 30.0
"""Seconds that one log may take on a machine that has other things to do; alone, none takes one."""
PLAIN = {"group", "decision", "unit", "max_bias", "smallest", "seed", "burden", "key"}


def printable(text):
    return all(char.isprintable() or char == "\n" for char in text)


def put(case, folder):
    """The log of a case: a file that was written, or the frame."""
    if not isinstance(case.source, bytes):
        return case.source
    path = folder / case.name
    path.write_bytes(case.source)
    return path


def check_answer(answer, asked):
    """Every row has its place, and nothing raw is shown."""
    shown, content = str(answer), json.dumps(answer.to_dict(), allow_nan=False)
    assert printable(shown)
    assert printable(content)
    if asked.get("law"):
        assert sum(answer.reasons.values()) <= answer.rows
        return
    assert sum(answer.reasons.values()) == answer.rows
    for comparison in answer.comparisons:
        known, unknown = sum(comparison.rows.values()), comparison.unknown.groups
        assert known <= answer.reasons["counted"]
        if "count" not in asked and asked.get("decision") and asked.get("notion") != "discovery-probability":
            assert known + unknown == answer.reasons["counted"]
        rates = (
            [group.rate for part in comparison.report.criteria for group in part.groups] if comparison.report else []
        )
        assert all(rate is None or math.isfinite(rate) for rate in rates)


def check_refusal(error):
    assert str(error).strip()
    assert printable(str(error))


def records(content):
    """The records of a CSV file as Python reads them, in the strictest way; None if it cannot."""
    if re.search(rb"\r(?!\n)", content):
        return None  # which Python takes for the end of a line
    try:
        text = content.decode("utf-8-sig").lstrip("\r\n")
        separator = max(",;\t|", key=text.split("\n", 1)[0].count)
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    except (UnicodeDecodeError, csv.Error):
        return None


def check_against_python(case, answer):
    """The same rows, and the same counts and rates by group, as a plain program gets from the file."""
    lines = records(case.source)
    if lines is None or "count" in case.asked:
        return
    header, rows = lines[0], [[*line, *[""] * len(lines[0])] for line in lines[1:]]
    assert answer.rows == len(rows)
    if not set(case.asked) <= PLAIN or not isinstance(case.asked["group"], str):
        return
    counts = {}
    unit = case.asked["unit"]
    for row in rows:
        group, decision = (" ".join(row[header.index(case.asked[name])].split()) for name in ("group", "decision"))
        known_unit = unit == "row" or row[header.index(unit)].strip().lower() not in MISSING
        if group.casefold() not in MISSING and decision.casefold() in YES | NO and known_unit:
            total = counts.setdefault(group, [0, 0])
            total[0] += decision.casefold() in YES
            total[1] += 1
    assert sorted(answer.comparison.rows.values()) == sorted(total for _, total in counts.values())
    for group in answer.report.criteria[0].groups if answer.report else ():
        likely = [yes / total for name, (yes, total) in counts.items() if group.group.startswith(visible(name))]
        assert any(group.rate == pytest.approx(rate) for rate in likely)


def audited(case, folder):
    """What an audit makes of it: an answer or a refusal, in little time, and no file that was not there."""
    source = put(case, folder)
    begun = time.monotonic()
    command = elbert.law_table if case.asked.get("law") == "ll144" else elbert.audit
    try:
        answer = command(source, progress=None, **case.asked)
        check_answer(answer, case.asked)
        if command is elbert.audit and case.name.startswith("l") and case.kind.startswith("csv"):
            check_against_python(case._replace(source=unpacked(case.source)), answer)
        outcome = "answer"
    except ElbertError as error:
        check_refusal(error)
        outcome = type(error).__name__
    assert time.monotonic() - begun < LONGEST
    return outcome


def unpacked(content):
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def hostile(seed):
    return frame_case(seed) if seed % 3 == 2 else file_case(seed)


@pytest.mark.parametrize("first", slow_after(1, range(0, 1000, 100), pytest.mark.study))
def test_a_thousand_broken_logs(first, tmp_path):
    outcomes = set()
    for seed in range(first, first + 100):
        case = hostile(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            outcomes.add(audited(case, folder))
        except Exception as error:
            error.add_note(f"seed {seed}: {case.kind}, asked {case.asked}")
            raise
        assert len(list(folder.iterdir())) == isinstance(case.source, bytes), "an audit writes nothing"
    assert {"answer", "InvalidInputError", "FileError"} <= outcomes, "not all of them are of one kind"


@pytest.mark.study
@pytest.mark.parametrize("first", range(10_000, 15_000, 1000))
def test_many_thousand_broken_logs(first, tmp_path):
    for seed in range(first, first + 1000):
        case = hostile(seed)
        try:
            audited(case, tmp_path)
        except Exception as error:
            error.add_note(f"seed {seed}: {case.kind}, asked {case.asked}")
            raise


@pytest.mark.slow
def test_a_monitor_keeps_what_it_has(tmp_path):
    """Fed twice with the same log: all rows are accounted for, and a refusal leaves the state as it was."""
    taken = 0
    for seed in range(2000, 2070):
        case, folder = hostile(seed), tmp_path / str(seed)
        folder.mkdir()
        source, state = put(case, folder), folder / "state.json"
        asked = {"time": "date", "period": "month"} | case.asked
        for name in ("control", "due", "outcome_time", "smallest", "seed", "law", "assume", "unknown_groups"):
            asked.pop(name, None)
        before = None
        for options in (asked, {}):
            try:
                seen = elbert.monitor(source, state=state, progress=None, **options)
                assert printable(str(seen))
                json.dumps(seen.to_dict(), allow_nan=False)
                within = (UNKNOWN_GROUP, UNKNOWN_OUTCOME)
                rows = sum(number for reason, number in seen.reasons.items() if reason not in within)
                assert rows == State.read(state).rows
                assert before is None or (seen.added, rows) == (before, 2 * before)
                before, taken = seen.added, taken + 1
            except ElbertError as error:
                check_refusal(error)
                assert state.exists() == (before is not None)
                break
        assert not [path for path in folder.iterdir() if path.name not in (case.name, "state.json", ".state.json.lock")]
    assert taken > 10


@pytest.mark.parametrize("unit", ["row", "officer"])
def test_states_that_were_damaged_or_forged(unit, tmp_path):
    path, rng = tmp_path / "state.json", np.random.default_rng(0)
    frame = pl.DataFrame(table(rng)).with_row_index("step").with_columns(pl.col("step") // 10)
    asked = {"group": "group", "decision": "decision", "time": "step", "unit": unit, "exact": True, "largest": 9}
    elbert.monitor(frame, state=path, progress=None, **asked)
    whole = path.read_bytes()
    for _ in range(60):
        damaged = bytearray(whole)
        place = int(rng.integers(len(damaged)))
        damaged[place] = (damaged[place] + int(rng.integers(1, 256))) % 256
        path.write_bytes(damaged)
        with pytest.raises(FileError):
            elbert.monitor(None, state=path, progress=None)
    for name in json.loads(whole):
        for value in (None, "x", [1], {"a": 1}, -1, 1e300, True):
            content = json.loads(whole)
            content.pop("digest")
            write_sealed(path, content | {name: value})
            try:
                elbert.monitor(None, state=path, progress=None)
            except ElbertError as error:
                check_refusal(error)


def test_the_command_line_never_crashes(tmp_path):
    codes = set()
    for seed in range(3000, 3025):
        case = file_case(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        options = []
        for name, value in case.asked.items():
            for each in value if isinstance(value, list) else [value]:
                flag = f"--{name.replace('_', '-')}"
                options += [flag] if each is True else [] if each in (None, False) else [f"{flag}={each}"]
        done = cli("audit", put(case, folder), *options, "--json", "--out", folder / "out")
        assert done.returncode in (0, 1, 2, 3), (seed, done.stderr)
        assert printable(done.stderr), seed
        codes.add(done.returncode)
        if done.returncode == 2:
            assert not (folder / "out").exists()
        else:
            content = json.loads(done.stdout)
            assert read_sealed(folder / "out" / "audit.json", remedy="") == content
    assert {0, 2} <= codes
