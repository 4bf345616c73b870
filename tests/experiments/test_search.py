"""A search: what it asks for, what it takes for the best, and what is refused."""
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false, reportGeneralTypeIssues=false

import sys

import numpy as np
import pytest

import elbert
from elbert.errors import ElbertError, InvalidInputError
from elbert.experiments import sweep as sweep_module
from elbert.experiments.search import Search, _beyond, _imported, check_search, do_search
from elbert.experiments.sweep import read_sweep
from elbert.learning.result import judged
from elbert.learning.simulators import Episodes
from tests.experiments.engines import Here
from tests.experiments.small_runs import TINY
from tests.learning.tiny import Probe

ASKED = {"env": "lending", "max_bias": 0.1, "seeds": 2, "trials": 6, "batch": 2, "seed": 3}
SPACE = {"gamma": {"low": 0.9, "high": 0.99}, "hidden": {"choices": [[4], [8, 8]]}, "epochs": {"low": 1, "high": 3}}


def result(reward, gap, max_bias=0.1):
    """An evaluation with this reward and a true difference of rates."""
    noise = np.random.default_rng(0).uniform(-0.02, 0.02, (60, 1, 2))
    supply = 8 * (0.5 + noise + np.asarray([gap / 2, -gap / 2]))
    sums = Episodes(np.full(60, 8 * reward), np.full(60, 8), supply, np.full((60, 1, 2), 8.0))
    return judged(sums, env="lending", method="elbert-po", criteria=("rate",), max_bias=max_bias)


def test_beyond_the_limit_unless_confirmed():
    assert _beyond(result(1.0, 0.01), 0.1) < 0
    assert result(1.0, 0.3).limit.verdict == "refuted"
    assert _beyond(result(1.0, 0.3), 0.1) == pytest.approx(0.2, abs=0.02)
    near = result(1.0, 0.1)
    assert near.limit.verdict == "not refuted"
    assert 0 < _beyond(near, 0.1) < 0.02


def searched(outcome, **changed):
    """The rows of a search whose trainings come out as `outcome` says, and the jobs that it asked for."""
    pytest.importorskip("optuna")
    asked = []

    def perform(jobs):
        asked.append([job.name for job in jobs])
        return {}

    search, noted = Search.of({**ASKED, "space": SPACE} | changed), []
    rows = do_search(search, perform, lambda row: outcome(row.settings), noted.append, most=4)
    assert noted[-1] == rows, "who follows it sees every row"
    return rows, asked


def test_the_best_that_holds_the_limit_is_trained_again_with_fresh_seeds():
    """Reward grows with gamma, but above 0.95 the limit is refuted."""
    rows, asked = searched(lambda s: result(s["gamma"], 0.3 if s["gamma"] > 0.95 else 0.01), trials=10)
    assert [row.note.split(" ")[0] for row in rows] == ["best", *["trial"] * 10]
    assert len(asked) == 6, "five batches of two, and the best again"
    best, tried = rows[0], rows[1:]
    within = [row.settings["gamma"] for row in tried if row.settings["gamma"] <= 0.95]
    assert best.settings["gamma"] == max(within)
    assert best.seeds == (2, 3)
    assert all(row.seeds == (0, 1) for row in tried)
    assert asked[-1] == [member.run for member in best.members]
    assert {tuple(row.settings["hidden"]) for row in tried} == {(4,), (8, 8)}, "a choice may be a list"
    assert all(type(row.settings["epochs"]) is int for row in tried)


def test_a_search_repeats_itself():
    """Red if proposals depended on anything but the seed and the results before them."""
    rows, asked = searched(lambda s: result(s["gamma"], 0.01))
    again, likewise = searched(lambda s: result(s["gamma"], 0.01))
    assert asked == likewise
    assert rows == again
    assert searched(lambda s: result(s["gamma"], 0.01), seed=4)[1] != asked


def test_trainings_that_fail_are_passed_over():
    rows, _ = searched(lambda s: None if s["epochs"] == 1 else result(s["gamma"], 0.01))
    assert rows[0].settings["epochs"] > 1
    rows, _ = searched(lambda _: None)
    assert len(rows) == 6, "nothing is the best of nothing"
    assert all(row.note.startswith("trial") for row in rows)


def test_where_no_limit_is_held_the_nearest_is_taken():
    rows, _ = searched(lambda s: result(1.0, s["gamma"] - 0.5))
    assert rows[0].note.startswith("nearest to the limit, which no trial held (trial")
    assert rows[0].settings["gamma"] == min(row.settings["gamma"] for row in rows[1:])


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"space": {}}, "The search has no space"),
        ({"space": {"gamma": 0.9}}, "The space of gamma is 0.9. Give {low"),
        ({"space": {"gamma": {"low": 1, "hihg": 2}}}, "Did you mean 'high'"),
        ({"space": {"gamma": {"low": 2, "high": 1}}}, "The space of gamma"),
        ({"space": {"gamma": {"low": 0, "high": 1, "log": True}}}, "The space of gamma"),
        ({"space": {"gamma": {"choices": []}}}, "The space of gamma"),
        ({"gamma": 0.9}, "gamma is given twice"),
        ({"space": {"gamma": {"low": 0.5, "high": float("inf")}}}, "The space of gamma"),
        ({"space": {"gamma": {"low": 0.5, "high": 0.9, "log": "false"}}}, "The space of gamma"),
        ({"world": {"horizon": [10, 20]}}, "Give one value for each"),
        ({"seeds": [2**31 - 1]}, "The last of the fresh seeds"),
        ({"max_bias": None}, "max_bias is None"),
        ({"method": ["elbert-po", "g-ppo"]}, "several values of method"),
        ({"trials": 0}, "trials is 0"),
        ({"batch": 0}, "batch is 0"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_searches_that_make_no_sense(changed, says):
    with pytest.raises(InvalidInputError) as caught:
        Search.of({**ASKED, "space": SPACE} | changed)
    assert says in str(caught.value)


def test_what_would_fail_later_is_refused_before():
    pytest.importorskip("optuna")
    for changed in ({"space": {"gama": {"low": 0.1, "high": 0.2}}}, {"steps": -1}):
        with pytest.raises(InvalidInputError):
            check_search(Search.of({**ASKED, "space": SPACE} | changed), 4)


def test_a_proposal_that_makes_no_sense_is_passed_over():
    """A gamma above 1 is refused: red if the search ends there."""
    rows, _ = searched(lambda s: result(s["gamma"], 0.01), space={"gamma": {"low": 0.9, "high": 1.2}}, trials=8)
    assert 0 < len(rows) - 1 < 8
    assert all(row.settings["gamma"] <= 1 for row in rows)


def test_without_optuna_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ElbertError, match=r"pip install 'elbert\[search\]'"):
        _imported()


def test_a_search_is_part_of_a_plan(tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    monkeypatch.setattr(sweep_module, "open_engine", lambda workers, ray, cores: Here())
    search = {
        "env": Probe(),
        "max_bias": 0.5,
        "seeds": 1,
        "trials": 2,
        "batch": 2,
        **TINY,
        "hidden": [[4]],
        "steps": 512,
    }
    search["space"] = {"gamma": {"low": 0.9, "high": 0.99}}
    done = elbert.sweep({"title": "found", "search": search}, out=tmp_path / "found", progress=None)
    assert [row.plan.note for row in done.rows][1:] == ["trial 0", "trial 1"]
    assert done.rows[0].plan.note.endswith("fresh seeds")
    assert done.rows[0].plan.seeds == (1,)
    assert "search" in str(done)
    assert read_sweep(tmp_path / "found") == done
