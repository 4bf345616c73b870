"""What is shown while something is computed: few lines in a file, everything in a narrow terminal."""

import io

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


def test_a_narrow_terminal_shows_title_count_time_and_facts_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    rates = " ".join(f"0.{i}23" for i in range(8))
    with ProgressDisplay("elbert-po on attention-harder, a long title", stream) as display:
        display(Progress("training", 3, 230, "iterations", facts=f"reward -1.9782  bias 0.0123  rates {rates}"))
    shown = stream.getvalue()
    for text in ("elbert-po on attention-harder, a long title", "3/230 iterations", "reward -1.9782", *rates.split()):
        assert text in shown
    assert "None" not in shown
