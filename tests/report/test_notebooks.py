"""Who sees a display by default, and what notebooks show."""

import io
import sys
import types

import numpy as np
import pytest

import elbert
from elbert.errors import InvalidInputError
from elbert.exact.rules import get_rule
from elbert.experiments.compare import Compared, Comparison
from elbert.progress import Progress, tell_nobody, watched
from elbert.report import notebooks
from elbert.report.live import ProgressDisplay

EVENT = Progress("training", 3, 12, "iterations", facts="reward <b>1</b>")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def notebook(monkeypatch):
    """A kernel that writes down what its front end would show."""
    shown = []

    class Handle:
        def update(self, content, *, raw):
            assert raw
            shown.append(content)

    def display(content, *, raw, display_id):
        Handle().update(content, raw=raw)
        return Handle()

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())  # pyright: ignore[reportAttributeAccessIssue]
    inner = types.ModuleType("IPython.display")
    inner.display = display  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", inner)
    return shown


def test_a_pipe_sees_nothing_by_default_and_lines_on_request(monkeypatch):
    monkeypatch.setattr(sys, "stderr", pipe := io.StringIO())
    with watched("auto", "a title") as tell:
        tell(EVENT)
    assert tell is tell_nobody
    assert not pipe.getvalue()
    with watched(True, "a title") as tell:
        tell(EVENT)
    assert "a title: training, 3/12 iterations" in pipe.getvalue()


def test_a_terminal_sees_a_display_by_default(monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with watched("auto", "a title") as tell:
        assert isinstance(tell, ProgressDisplay)
        tell(EVENT)
    assert "a title" in terminal.getvalue()
    monkeypatch.setattr(sys, "stderr", None)  # as under pythonw
    with watched("auto", "a title") as tell:
        assert tell is tell_nobody


@pytest.mark.parametrize("nobody", [None, False])
def test_nobody_is_told_where_that_is_asked_for(nobody, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with watched(nobody, "a title") as tell:
        assert tell is tell_nobody


def test_a_function_is_told_itself_and_anything_else_refused():
    told = []
    with watched(told.append, "a title") as tell:
        tell(EVENT)
    assert told == [EVENT]
    with pytest.raises(InvalidInputError, match=r"progress is 'always'\. Give 'auto'"), watched("always", ""):  # pyright: ignore[reportArgumentType]
        pass


def test_a_notebook_replaces_one_output_and_escapes_it(notebook, monkeypatch):
    """Red if every event adds an output, if the last state is not shown, or if facts could hold markup."""
    monkeypatch.setattr(notebooks, "SECONDS_BETWEEN_UPDATES", 3600.0)
    with watched("auto", "a title") as tell:
        for _ in range(5):
            tell(EVENT)
    assert len(notebook) == 2, "the first and the last state"
    assert "3/12 iterations" in notebook[-1]["text/plain"]
    assert "reward &lt;b&gt;1&lt;/b&gt;" in notebook[-1]["text/html"]
    monkeypatch.setattr(notebooks, "SECONDS_BETWEEN_UPDATES", 0.0)
    with watched("auto", "a title") as tell:
        tell(EVENT)
    assert len(notebook) == 5


def test_training_and_evaluation_are_shown_where_somebody_looks(monkeypatch):
    """Red if one of them does not pass its display on, or evaluates silently."""
    titles = []

    class Display(ProgressDisplay):
        def __init__(self, title):
            titles.append(title)
            super().__init__(title, io.StringIO())

    monkeypatch.setattr(notebooks, "ProgressDisplay", Display)
    monkeypatch.setattr(sys, "stderr", Terminal())
    rule = get_rule("rule:lending/thresholds-2-1")
    elbert.evaluate(rule, episodes=2, horizon=20)
    elbert.frontier("lending", max_bias=[None], horizon=5, rules=False)
    assert titles == ["rule:lending/thresholds-2-1", "frontier of lending"]


@pytest.mark.slow
def test_notebooks_show_results_as_tables_without_markup_from_data():
    names = ["<script>alert(1)</script>", "a & b"]
    report = elbert.benefit_report(np.full((20, 2), 1.0), np.full((20, 2), 2.0), groups=names)
    result = elbert.evaluate(get_rule("rule:lending/thresholds-2-1"), episodes=4, horizon=20)
    comparison = Comparison("lending", (Compared(name="<i>mine</i>", result=result, best=None, run=None),))
    shown = [each._repr_html_() for each in (report, result, comparison)]
    assert not any("<script" in text or "<i>" in text for text in shown)
    for part in ("&lt;script&gt;alert(1)&lt;/script&gt;", "a &amp; b", "<caption>benefit rate</caption>"):
        assert part in shown[0]
    assert "<caption>true positive rate" in shown[1]
    assert "&lt;i&gt;mine&lt;/i&gt;" in shown[2]
