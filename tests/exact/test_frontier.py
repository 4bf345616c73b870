"""The frontier as people meet it: Python, the command line, tables and pictures."""

import io
import json
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

import elbert
from elbert.envs import ENTRIES, Entry
from elbert.envs.lending import Lending
from elbert.errors import InvalidInputError
from elbert.exact import world_frontiers
from elbert.exact.frontier import best_reward_at, frontier_for_picture
from elbert.exact.world_frontiers import FrontierPoint, WorldFrontier, register_frontier
from elbert.progress import Progress
from elbert.report.charts import Point
from elbert.report.frontier import draw_frontier_line, frontier_page, write_frontier


@pytest.fixture(scope="module")
def short():
    return elbert.frontier("lending", max_bias=[0.0, 0.02, None], horizon=200)


def test_it_tells_how_many_limits_are_solved():
    told = []
    elbert.frontier("lending", max_bias=[0.0, 0.1, None], horizon=20, rules=False, progress=told.append)
    assert told == [Progress("solving", done, 3, "limits") for done in (1, 2, 3)]


def test_the_object_for_programs(short):
    content = json.loads(json.dumps(short.to_dict(), allow_nan=False))
    assert (content["env"], content["horizon"], content["exact"]) == ("lending", 200, True)
    assert [point["max_bias"] for point in content["points"]] == [0.0, 0.02, None]
    for point in content["points"]:
        assert {"max_bias", "reward", "rates", "price"} <= set(point)
        assert len(point["rates"]) == 2
        assert point["reward"] <= point["bound"] <= point["reward"] + 1e-6
    rewards = [point["reward"] for point in content["points"]]
    assert rewards == sorted(rewards)
    prices = [point["price"] for point in content["points"]]
    assert prices[-1] == 0.0
    assert all(price > 0 for price in prices[:-1])


def test_worlds_without_an_exact_frontier_say_so():
    found = elbert.frontier("attention", max_bias=0.1, rules=False)
    assert not found.exact
    assert found.points[0].rates is None
    assert elbert.frontier("infectious", max_bias=0.1, rules=False).points == ()
    assert best_reward_at("infectious", None, 0.1) is None
    assert best_reward_at("attention", 20, 0.1, units=7) is None  # known only where prices are stored
    assert not elbert.frontier("lending", max_bias=0.0, horizon=5, shift=0.03).exact
    with pytest.raises(InvalidInputError, match="max_bias is -1"):
        elbert.frontier("lending", max_bias=-1)
    with pytest.raises(InvalidInputError, match="No limit"):
        elbert.frontier("lending", max_bias=[])


def test_a_world_without_stored_prices_is_refused_with_what_to_do():
    """Red if the package searches for prices by itself, which takes minutes."""
    with pytest.raises(InvalidInputError, match=r"No prices are stored.*bound_at.*benchmarks/attention_bounds"):
        elbert.frontier("attention", max_bias=0.1, horizon=20, units=7)


def test_a_frontier_can_be_registered_for_a_class_of_worlds(monkeypatch):
    """Red if the frontier knows its worlds by name or by a fixed list of classes."""

    class Bank(Lending):
        """A world of somebody else's."""

    entry = Entry("bank", "mine/Bank-v0", Bank, {}, "A bank.")
    monkeypatch.setitem(ENTRIES, "bank", entry)
    limits = [0.0, None]
    as_lending = elbert.frontier("bank", max_bias=limits, horizon=20)
    usual = elbert.frontier("lending", max_bias=limits, horizon=20)
    assert as_lending.points == usual.points
    assert [rule.reward for rule in as_lending.rules] == [rule.reward for rule in usual.rules]

    monkeypatch.setattr(world_frontiers, "_FRONTIERS", dict(world_frontiers._FRONTIERS))
    register_frontier(
        Bank,
        lambda world: WorldFrontier(
            world,
            point=lambda limit: FrontierPoint(limit, reward=0.5, bound=0.5 + int(world.horizon)),
            note="Made up.",
            rules=lambda limits: ("thresholds-1-1",),
        ),
        horizon=7,
    )
    found = elbert.frontier("bank", max_bias=limits)
    assert [point.bound for point in found.points] == [7.5, 7.5]
    assert [rule.rule for rule in found.rules] == ["rule:bank/thresholds-1-1"]
    assert (found.horizon, found.exact, found.note) == (7, False, "Made up.")
    best = best_reward_at("bank", None, 0.1)
    assert best is not None
    assert (best.reward, best.exact) == (0.5, False)
    assert elbert.frontier("lending", max_bias=limits, horizon=20).points == usual.points


def test_table_and_picture(short, tmp_path):
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(frontier_page(short))
    text = console.export_text()
    assert "no limit" in text
    assert "thresholds-2-1" in text
    agents = [Point("ours", 0.02, 0.2, [0.01, 0.03], [0.19, 0.21])]
    theirs = [Point("ours", 0.03, 0.19), Point("published", 0.1, 0.15)]
    written = write_frontier(short, tmp_path, points=agents, theirs=theirs)
    assert [path.name for path in written] == [f"frontier-lending.{end}" for end in ("html", "json", "png", "svg")]
    assert json.loads(written[1].read_text()) == json.loads(json.dumps(short.to_dict()))
    drawn = written[3].read_text()
    assert all(label in drawn for label in ("best possible", "hollow: published"))


@pytest.mark.slow
def test_command_line(tmp_path):
    def run(*words):
        return subprocess.run([sys.executable, "-m", "elbert", *words], capture_output=True, text=True, cwd=tmp_path)

    done = run("frontier", "lending", "--max-bias", "0", "0.05", "--horizon", "100", "--json")
    assert done.returncode == 0, done.stderr
    assert [point["max_bias"] for point in json.loads(done.stdout)["points"]] == [0.0, 0.05]
    assert (tmp_path / "frontier" / "frontier-lending.svg").exists()
    done = run("evaluate", "rule:infectious/degree", "--episodes", "20", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["method"] == "rule:infectious/degree"


def test_the_best_reward_rises_with_the_bias():
    rewards = [best_reward_at("lending", 50, bias) for bias in (-0.01, 0.0, 0.01, 0.5)]
    values = [best.reward for best in rewards if best is not None]
    assert len(values) == 4
    assert values[0] == values[1]
    assert (np.diff(values) >= -1e-9).all()


@pytest.mark.parametrize("right", [0.04, 0.5])
def test_the_line_of_stored_bounds_only_rises(right):
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    axes.set_xlim(0, right)
    draw_frontier_line(axes, frontier_for_picture("attention-harder", None, [0.03]))
    x, y = np.asarray(axes.lines[-1].get_data())
    assert (np.diff(x) >= 0).all()
    assert (np.diff(y) >= 0).all()
    assert x[-1] >= right
