"""Limits on the bias side by side: prices by hand, runs that go on, commands, pages, what is refused."""
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false
# pyright: reportOptionalOperand=false, reportOperatorIssue=false

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

import elbert
from elbert.envs import ENTRIES, Entry
from elbert.errors import InvalidInputError
from elbert.exact import world_frontiers
from elbert.exact.world_frontiers import FrontierPoint, WorldFrontier, register_frontier
from elbert.experiments.results import BestPossible, over_seeds
from elbert.experiments.run_folder import RunFolder, find_runs
from elbert.experiments.sources import open_sources
from elbert.experiments.tradeoff import LIMITS, Tradeoff, TradeoffRow, checked_limits, price_between
from elbert.fairness.bias_inference import BiasTest
from elbert.files import FileError
from elbert.learning.result import Bias, CriterionResult, GroupRate, Mean, Result
from elbert.report.tradeoff import tradeoff_page, write_tradeoff
from elbert.report.web.subjects import document_of
from elbert.tables import as_text
from tests.command_line import cli
from tests.experiments.small_runs import TINY, StopError, same_policy, stop_after
from tests.learning.tiny import Probe, ProbeEnv

SMALL: dict[str, Any] = TINY | {"steps": 4 * 64 * 5, "progress": None}
OPTIONS = [
    *("--steps", "1280", "--set", "copies=4", "--set", "rollout=64", "--set", "minibatch=64"),
    *("--set", "hidden=[4]", "--set", "epochs=1"),
]


def row(limit, rewards, biases, *, verdicts=(), best=None, env="mine", horizon=16):
    """Results of one limit, a seed for each reward."""
    groups = tuple(GroupRate(name, 0.5, None, 0.5, 1.0) for name in "ab")
    singles = []
    for reward, bias, verdict in zip(rewards, biases, verdicts or [None] * len(rewards), strict=True):
        part = CriterionResult("rate", Bias(bias, bias, None, 0.001), groups)
        tested = None if verdict is None else BiasTest(max_bias=limit, verdict=verdict)
        singles.append(Result(env, "elbert-po", 9, horizon, Mean(reward, None), (part,), 1.0, limit=tested))
    return TradeoffRow(limit, over_seeds(singles, range(len(singles))), best)


@pytest.fixture(scope="module")
def probe():
    """The world "probe", whose best reward is 0.9 + 0.1 * bias."""
    patch = pytest.MonkeyPatch()
    patch.setitem(ENTRIES, "probe", Entry("probe", "mine/Probe-v0", Probe, {}, "Two groups."))
    patch.setattr(world_frontiers, "_FRONTIERS", dict(world_frontiers._FRONTIERS))

    def point(limit):
        most = 0.9 + 0.1 * (1.0 if limit is None else min(limit, 1.0))
        return FrontierPoint(limit, reward=most, bound=most, rates=((0.5, 0.5),), bias=limit)

    register_frontier(Probe, lambda world: WorldFrontier(world, point=point, exact=True, note="By hand."))
    yield "probe"
    patch.undo()


@pytest.fixture(scope="module")
def found(probe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "probe"
    return elbert.tradeoff(probe, max_bias=[None, 0.1, 0.4], seeds=[3, 5], out=folder, **SMALL), folder


def test_a_price_by_hand():
    """Rewards rise by 0.010, 0.012 and 0.014, biases by 0.1 each: 0.012 +- 4.3027 * 0.002 / sqrt(3), over 10."""
    lower = row(0.1, [1.0, 2.0, 3.0], [0.05, 0.02, 0.03])
    price = price_between(lower, row(None, [1.010, 2.012, 3.014], [0.15, 0.12, 0.13]))
    assert price.limits == (0.1, None)
    assert price.gain == pytest.approx(0.0012)
    assert price.ci == pytest.approx((0.000703, 0.001697), abs=1e-6)
    assert price.exact is None


@pytest.mark.parametrize(
    ("gains", "biases", "has_ends"),
    [
        ([0.001, 0.012, 0.023], [0.1, 0.1, 0.1], True),  # the interval reaches 0
        ([0.008, 0.012, 0.016], [0.1, 0.1, 0.1], True),  # the ends are 0.0002 and 0.0022
        ([0.010, 0.012, 0.014], [0.1, -0.1, 0.1], False),  # the biases may not differ at all
        ([0.010, 0.012, 0.014], [0.0, 0.0, 0.0], False),
        ([0.012], [0.1], False),  # one seed
        ([0.010, 0.012], [0.1, None], False),
    ],
)
def test_a_price_that_the_seeds_do_not_tell_is_not_known(gains, biases, has_ends):
    lower = row(0.1, [1.0] * len(gains), [0.0] * len(gains))
    upper = row(0.2, [1.0 + gain for gain in gains], biases)
    price = price_between(lower, upper)
    assert price.gain is None
    assert (price.ci is not None) == has_ends
    assert "not known" in str(Tradeoff("mine", (lower, upper), (price,)))


def test_the_exact_price_is_that_of_the_same_biases():
    """Along a frontier that bends down, the gain between two biases lies between the prices at both."""
    best = BestPossible(reward=0.2, exact=True, share=1.0, short=0.0, parameters={})
    place = {"best": best, "env": "lending", "horizon": 200}
    lower, upper = row(0.02, [0.1, 0.1], [0.005, 0.015], **place), row(0.1, [0.2, 0.2], [0.03, 0.05], **place)
    first, second = elbert.frontier("lending", max_bias=[0.01, 0.04], horizon=200, rules=False, progress=None).points
    exact = price_between(lower, upper).exact
    assert exact == pytest.approx(0.01 * (second.reward - first.reward) / 0.03)
    assert 0.01 * second.price <= exact <= 0.01 * first.price
    assert price_between(lower, dataclasses.replace(upper, best=None)).exact is None
    bound = dataclasses.replace(best, exact=False)
    assert price_between(dataclasses.replace(lower, best=bound), upper).exact is None
    assert price_between(lower, lower).exact is None


def test_verdicts_are_counted():
    several = row(0.1, [1.0] * 3, [0.1] * 3, verdicts=["refuted", "confirmed", "refuted"])
    assert several.verdicts == {"confirmed": 1, "refuted": 2}
    assert "1 confirmed, 2 refuted" in str(Tradeoff("mine", (several, several), (price_between(several, several),)))


@pytest.mark.slow
def test_limits_come_by_size_and_no_limit_last(found):
    assert checked_limits(LIMITS) == LIMITS
    assert checked_limits([float("inf"), np.float64(0.3), 0.1]) == (0.1, 0.3, None)
    tradeoff, folder = found
    assert [each.max_bias for each in tradeoff.rows] == [0.1, 0.4, None]
    assert [single.seed for single in tradeoff.rows[0].result.seeds] == [3, 5]
    assert [each.result.limit and each.result.limit.max_bias for each in tradeoff.rows] == [0.1, 0.4, None]
    assert not tradeoff.rows[2].verdicts
    parts = RunFolder(folder).parts()
    assert list(parts) == ["max_bias=0.1", "max_bias=0.4", "no limit"]
    assert all(run.evaluated for run in find_runs(folder))
    assert tradeoff.rows[1].result.reward == parts["max_bias=0.4"].evaluation().reward


@pytest.mark.slow
def test_it_is_read_back_as_it_was(found, tmp_path):
    """Red if a number is lost or changes its type on the way through a file."""
    tradeoff, folder = found
    assert tradeoff.rows[0].best.exact
    assert Tradeoff.from_dict(json.loads(json.dumps(tradeoff.to_dict(), allow_nan=False))) == tradeoff
    assert open_sources([str(folder)]) == open_sources([str(folder / "tradeoff.json")]) == tradeoff
    edited = tmp_path / "tradeoff.json"
    edited.write_text((folder / "tradeoff.json").read_text().replace("0.4", "0.3"))
    with pytest.raises(FileError, match="was changed since it was written"):
        open_sources([str(tmp_path)])


@pytest.mark.slow
def test_tables_figure_and_page(found, tmp_path):
    tradeoff, _ = found
    text = as_text(tradeoff_page(tradeoff), 140)
    assert text == str(tradeoff).rstrip()
    for words in ("no limit", "of best", "debiased bias per seed", "0.1 to 0.4", "0.4 to no limit", "exact"):
        assert words in text
    names = {path.name for path in write_tradeoff(tradeoff, tmp_path)}
    assert names == {f"tradeoff.{ending}" for ending in ("html", "md", "json", "png", "svg")}
    assert "| 0.1 | " in (tmp_path / "tradeoff.md").read_text()
    axes = tradeoff.plot().axes[0]
    labels = axes.get_legend_handles_labels()[1]
    assert {"bias <= 0.1", "bias <= 0.4", "no limit", "best possible"} <= set(labels)
    document = document_of(tradeoff)
    assert document.kind == "tradeoff"
    assert "for a bias of at most 0.1" in document.answer
    assert document.result == tradeoff.to_dict()


def test_one_seed_says_why_there_is_no_price():
    lower, upper = row(0.1, [1.0], [0.05]), row(0.2, [1.1], [0.15])
    assert "One seed gives no intervals" in str(Tradeoff("mine", (lower, upper), (price_between(lower, upper),)))


@pytest.mark.slow
def test_an_interrupted_one_goes_on_to_the_same_policies(found, probe, tmp_path):
    tradeoff, folder = found
    ask: dict[str, Any] = {"max_bias": [0.1, 0.4, None], "seeds": [3, 5], "out": tmp_path / "run"}
    with pytest.raises(StopError):
        elbert.tradeoff(probe, **ask, callbacks=[stop_after(2)], **SMALL)
    assert not (tmp_path / "run" / "tradeoff.json").exists()
    with pytest.raises(InvalidInputError, match="is not empty"):
        elbert.tradeoff(probe, **ask, **SMALL)
    with pytest.raises(InvalidInputError, match="Give the same settings to go on"):
        elbert.tradeoff(probe, **ask | {"max_bias": [0.1, 0.5, None]}, resume=True, **SMALL)
    again = elbert.tradeoff(probe, **ask, resume=True, **SMALL)
    pairs = zip(RunFolder(folder).agents(), RunFolder(tmp_path / "run").agents(), strict=True)
    assert all(same_policy(one, other) for one, other in pairs)
    assert [each.biases for each in again.rows] == [each.biases for each in tradeoff.rows]


def short_probe():
    return ProbeEnv(horizon=4)


@pytest.mark.slow
def test_a_users_environment_is_trained_one_policy_at_a_time(tmp_path):
    told = []
    ask: dict[str, Any] = {"max_bias": [0.2, None], "seeds": 2, "out": tmp_path, **SMALL, "copies": 2, "steps": 128}
    tradeoff = elbert.tradeoff(short_probe, **ask | {"progress": told.append})
    names = [f"max-bias-{limit}-seed-{seed}" for limit in ("0.2", "1e+06") for seed in (0, 1)]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*names, "tradeoff.json"]
    assert any(event.activity == "training max_bias=0.2, seed 1" for event in told)
    assert [len(each.result.seeds) for each in tradeoff.rows] == [2, 2]
    assert tradeoff.rows[0].best is None
    (tmp_path / "tradeoff.json").unlink()
    again = elbert.tradeoff(short_probe, resume=True, **ask)
    assert again.to_dict() == tradeoff.to_dict()
    assert isinstance(open_sources([str(tmp_path)]), Tradeoff)


@pytest.mark.slow
def test_in_memory_it_is_the_same_and_nothing_is_written(found, probe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tradeoff = elbert.tradeoff(probe, max_bias=[0.1, 0.4, None], seeds=[3, 5], **SMALL)
    assert [each.biases for each in tradeoff.rows] == [each.biases for each in found[0].rows]
    assert tradeoff.prices == found[0].prices
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_command(probe, tmp_path):
    asked = ["tradeoff", probe, "--max-bias", "0.1", "0.4", "inf", "--seeds", "2", *OPTIONS]
    done = cli(*asked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no limit" in done.stdout
    folder = tmp_path / "runs" / "probe-tradeoff-1"
    assert {f"tradeoff.{ending}" for ending in ("html", "md", "json", "png", "svg")} <= {
        p.name for p in folder.iterdir()
    }
    done = cli(*asked, "--out", folder, "--resume", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    stored = json.loads((folder / "tradeoff.json").read_text())
    assert json.loads(done.stdout) == {name: value for name, value in stored.items() if name != "digest"}
    done = cli("report", folder, "--out", tmp_path / "page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "In probe, policies for a bias of at most 0.1" in done.stdout
    listed = json.loads(cli("runs", tmp_path / "runs", "--json").stdout)
    assert [run["coefficients"] for run in listed] == [{"max_bias": limit} for limit in (0.1, 0.4, 1e6)]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"max_bias": [-0.1, 0.2]}, r"max_bias is -0.1. Give numbers above 0 and below 1e\+06, or None for no limit"),
        ({"max_bias": [0, 0.2]}, "max_bias is 0. Give numbers above 0"),
        ({"max_bias": [0.1, float("nan")]}, "max_bias is nan. Give numbers above 0"),
        ({"max_bias": ["0.1", 0.2]}, "max_bias is '0.1'. Give numbers above 0"),
        ({"max_bias": [1e6, 0.2]}, "max_bias is 1000000.0. Give numbers above 0"),
        ({"max_bias": [0.1, 0.2, 0.1]}, "max_bias has 0.1 twice"),
        ({"max_bias": [None, float("inf")]}, "max_bias has no limit twice"),
        ({"max_bias": [0.1]}, r"Give two or more limits .* For one limit, use elbert.train\(max_bias=...\)"),
        ({"max_bias": 0.1}, "max_bias is 0.1. Give two or more limits"),
        ({"max_bias": "0.1"}, "max_bias is '0.1'. Give two or more limits"),
        ({"env": "lendign"}, "Did you mean 'lending'"),
        ({"seeds": 0}, "seeds is 0. Give a whole number"),
        ({"seed": 1}, "Here several are given: seeds is how many"),
        ({"limit": 0.1}, "It is 'max_bias' here"),
        ({"alpha": 3.0}, "alpha has no effect with elbert-po under max_bias"),
        ({"method": "g-ppo"}, "max_bias has no effect with g-ppo"),
        ({"stesp": 100}, "Did you mean 'steps'"),
    ],
)
def test_what_makes_no_sense_is_refused(given, says):
    with pytest.raises(InvalidInputError, match=says):
        elbert.tradeoff(**{"env": "lending", "progress": None} | given)


def test_the_command_refuses_before_it_trains(tmp_path):
    for arguments, says in (
        (["lending", "--max-bias", "0.1", "0.1"], "max_bias has 0.1 twice"),
        (["lending", "--max-bias", "0.1", "-0.2"], "max_bias is -0.2"),
        (["lendign"], "Did you mean 'lending'"),
        (["lending", "--set", "max_bias=0.1"], "gives max_bias a second time"),
        (["lending", "--set", "out=here"], "No setting is called 'out'"),
        (["lending", "--resume"], "No unfinished run of tradeoff on lending"),
    ):
        done = cli("tradeoff", *arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert says in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_frontier_of_a_probe_is_found(probe):
    """Reward is 0.9 + 0.1 * bias per step, so 0.01 of bias gains 0.001 everywhere; without a limit the bias is 1."""
    small: dict[str, Any] = {"copies": 16, "rollout": 64, "minibatch": 128, "hidden": [8], "learning_rate": 5e-3}
    tradeoff = elbert.tradeoff(probe, max_bias=[0.1, 0.4, None], steps=16 * 64 * 40, progress=None, **small)
    assert tradeoff.rows[2].result.worst.bias.estimate > 0.9
    assert tradeoff.rows[0].result.worst.bias.estimate < 0.25
    for price in tradeoff.prices:
        assert price.gain == pytest.approx(0.001, rel=0.01)
        assert price.low <= price.exact * 1.001
        assert price.high >= price.exact * 0.999
        assert price.exact == pytest.approx(0.001, rel=1e-3)
