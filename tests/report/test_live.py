"""What is shown while something is computed: few lines in a file, everything in a narrow terminal."""

import io
import re
from dataclasses import replace

import pytest

from elbert.progress import Progress
from elbert.report import live
from elbert.report.live import ProgressDisplay


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 0.0

    monkeypatch.setattr(live.time, "monotonic", lambda: Clock.now)
    return Clock


def test_lines_come_at_the_start_and_end_of_an_activity_and_now_and_then(clock):
    stream = io.StringIO()
    with ProgressDisplay("frontier", stream) as display:
        for done, clock.now in ((1, 4.0), (2, 5.0), (3, 10.0), (4, 11.0)):
            display(Progress("solving", done, 4, "limits", facts=f"reward {done}"))
        display(Progress("evaluating", 7, None, "episodes"))
    assert stream.getvalue().splitlines() == [
        "frontier: starting ...",
        "frontier: solving, 1/4 limits, 4 s, reward 1",
        "frontier: solving, 3/4 limits, 10 s, 3 s left, reward 3",
        "frontier: solving, 4/4 limits, 11 s, reward 4",
        "frontier: evaluating, 7 episodes, 11 s",
    ]


def test_long_work_writes_ever_fewer_lines(clock):
    stream = io.StringIO()
    with ProgressDisplay("reproduce", stream) as display:
        for second in range(4 * 3600):
            clock.now = float(second)
            display(Progress("training", 0, 50, "trainings", left=60.0))
    lines = stream.getvalue().splitlines()
    assert 100 < len(lines) < 200, "one every 5 seconds would be 2880"
    assert lines[-1].endswith("1 min left") or lines[-1].endswith("60 s left"), "what the worker says counts"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(params=[60, 80])
def terminal(request, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(request.param))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def shown(terminal):
    """Everything that was on the screen, without what moves the cursor or sets colours."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue()).replace("\r", "\n")


def test_a_narrow_terminal_shows_title_count_time_and_facts_whole(terminal):
    rates = " ".join(f"0.{i}23" for i in range(8))
    event = Progress("training", 3, 230, "iterations", facts=f"reward -1.9782  bias 0.0123  rates {rates}", left=600.0)
    with ProgressDisplay("elbert-po on attention-harder, a long title", terminal) as display:
        display(event)
        display(replace(event, activity="evaluating attention-harder-elbert-po-12"))
    text = " ".join(shown(terminal).split())
    words = ("elbert-po on attention-harder, a long title", "3/230 iterations", "reward -1.9782", "10 min left")
    for word in (*words, *rates.split(), "attention-harder-elbert-po-12"):
        assert word in text
    assert "None" not in text
    assert "\u2026" not in text


def test_there_is_something_to_see_before_anything_is_done(terminal, clock):
    with ProgressDisplay("elbert-po on lending", terminal, at_first="compiling") as display:
        clock.now = 12.0
        display._live.refresh()
        assert "elbert-po on lending: compiling" in shown(terminal)
        assert "  12 s" in shown(terminal)
        assert "None" not in shown(terminal)
    assert terminal.getvalue().endswith("\x1b[2K"), "an error stands alone"
    stream = io.StringIO()
    with ProgressDisplay("elbert-po on lending", stream, at_first="compiling"):
        pass
    assert stream.getvalue() == "elbert-po on lending: compiling ...\n"
