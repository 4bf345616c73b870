"""The paper's experiments: tables by hand-computed numbers, the pipeline end to end on a tiny budget, resumption."""
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pytest

from elbert.envs import ENTRIES
from elbert.errors import InvalidInputError
from elbert.exact.frontier import best_reward_at
from elbert.experiments import benchmark, jobs, paper
from elbert.experiments import reproduce as reproduce_module
from elbert.experiments.benchmark import Benchmark, BenchmarkOutcome
from elbert.experiments.jobs import Job
from elbert.experiments.paper import MAIN, Experiment, Panel, Series, plans_for
from elbert.experiments.reproduce import Verdicts, cell, experiment_outcome, published, reproduce, verdict
from elbert.experiments.sources import open_sources
from elbert.files import write_sealed
from elbert.learning import METHODS, DivergedError
from elbert.report.benchmark import method_table, verdicts_text
from elbert.report.charts import Point, extremes, pareto, smoothed
from elbert.report.paper import cells, markdown, write_reproduction
from tests.experiments.engines import Here

TINY = """
[defaults]
copies = 4
rollout = 60
minibatch = 60
hidden = [4]
epochs = 1
steps = 2400
[lending]
world = { horizon = 60 }
elbert-po = { alpha = 100.0 }
[infectious]
elbert-po = { alpha = 10.0 }
[infectious-harder]
elbert-po = { alpha = 10.0 }
[attention]
elbert-po = { alpha = 10.0 }
[attention-harder]
elbert-po = { alpha = 10.0 }
"""


@pytest.fixture
def here(monkeypatch):
    """Trainings in this process: other engines are tested where they live."""
    monkeypatch.setattr(reproduce_module, "open_engine", lambda workers, ray, cores: Here())


@pytest.fixture
def preset(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return str(path)


@pytest.mark.parametrize(
    ("ci", "theirs", "more_is_better", "word"),
    [
        ((0.2, 0.3), (0.1, 0.19), True, "better"),
        ((0.2, 0.3), (0.1, 0.19), False, "worse"),
        ((0.2, 0.3), (0.1, 0.2), True, "alike"),  # they touch
        ((0.0, 0.01), (0.02, 0.03), False, "better"),
        ((-0.3, -0.2), (-0.1, 0.0), True, "worse"),
        ((0.0, 1.0), (0.4, 0.5), True, "alike"),
    ],
)
def test_a_verdict_needs_intervals_apart(ci, theirs, more_is_better, word):
    assert verdict(ci, theirs, more_is_better=more_is_better) == word


def test_cells_are_judged_by_both_numbers():
    assert cell("alike", "better") == cell("better", "alike") == cell("better", "better") == "dominates"
    assert cell("alike", "worse") == cell("worse", "worse") == "dominated"
    assert cell("better", "worse") == cell("worse", "better") == "mixed"
    assert cell("alike", "alike") == "alike"


def test_the_published_numbers_are_those_of_the_main_figure():
    levels = published().levels
    assert set(levels) == set(MAIN)
    assert levels["lending"]["elbert-po"].reward == pytest.approx(0.182, abs=5e-4)
    assert levels["attention-harder"]["g-ppo"].bias == pytest.approx(0.314, abs=5e-4)
    assert all(level.bias_lo <= level.bias <= level.bias_hi for env in levels.values() for level in env.values())


def evaluation(reward, bias):
    part = {
        "bias": {"estimate": bias, "debiased": bias, "ci": [bias - 0.002, bias + 0.002], "noise_floor": 0.001},
        "groups": [{"group": "0", "rate": 0.5, "ci": None, "supply": 1.0, "demand": 2.0}] * 2,
        "criterion": "true positive rate",
    }
    return {
        "env": "lending",
        "method": "elbert-po",
        "episodes": 10,
        "horizon": 5,
        "reward": {"mean": reward, "ci": [reward - 0.001, reward + 0.001]},
        **part,
        "criteria": [part],
        "train_seconds": 61.4,
        "agents": hashlib.sha256().hexdigest(),
    }


def test_a_row_by_hand(tmp_path):
    job = Job("lending", "elbert-po")
    write_sealed(tmp_path / job.name / "config.json", {"parameters": {}})
    write_sealed(tmp_path / job.name / "evaluation.json", evaluation(0.186, 0.01))
    missing = Series("g-ppo", Job("lending", "g-ppo"), "g-ppo")
    panels = (Panel("lending", "lending", (Series("elbert-po", job, "elbert-po"), missing)),)
    shown = Experiment(name="main", title="T", figure="fig", question="Q?", base=job, panels=panels)
    outcome = experiment_outcome(shown, tmp_path)
    first, second = outcome.rows
    # published 0.18205 (0.1816 .. 0.1825) / 0.02449 (0.0231 .. 0.0259)
    assert first.verdicts == Verdicts("better", "better", "dominates")
    best = best_reward_at("lending", 5, 0.01)
    assert best is not None
    assert first.best.short == pytest.approx(best.reward - 0.186)
    assert cells(first) == (
        "lending",
        "elbert-po",
        "0.182 / 0.024",
        "0.1860",
        "0.1850 .. 0.1870",
        f"{100 * 0.186 / best.reward:.1f} %",
        "0.0100",
        "0.0080 .. 0.0120",
        "0.0010",
        "0.500 0.500",
        "2 2",
        "dominates",
        "better, better",
        "61",
    )
    assert second.result is None
    assert second.to_dict()["missing"]
    assert cells(second)[:4] == ("lending", "g-ppo", "0.150 / 0.158", "not there")
    lines = [line for line in markdown(outcome, drawn=False).splitlines() if line.startswith("|")]
    assert {line.count("|") for line in lines} == {15}


def test_the_front_of_rewards_and_biases():
    points = [Point("a", 0.1, 1.0), Point("b", 0.2, 0.9), Point("c", 0.3, 1.5), Point("d", 0.1, 0.8)]
    assert [point.label for point in pareto(points)] == ["a", "c"]


def test_curves_by_hand():
    column = np.arange(10.0)[:, None]
    assert smoothed(column, 0.1).tolist() == column.tolist(), "a window of one changes nothing"
    around = smoothed(column, 0.2)[:, 0]  # one to either side
    assert around.tolist() == [0.5, 1, 2, 3, 4, 5, 6, 7, 8, 8.5]
    curve = {
        "steps": np.array([[1.0], [2.0]]),
        "rate_0": np.array([[0.5], [np.nan]]),
        "rate_1": np.array([[0.2], [0.3]]),
        "rate_2": np.array([[0.9], [0.1]]),
    }
    for g in range(3):
        curve |= {f"supply_{g}": np.full((2, 1), g), f"demand_{g}": np.full((2, 1), 10 + g)}
    found = extremes(curve)
    assert found["supply_most"][:, 0].tolist() == [2, 1]
    assert found["supply_least"][:, 0].tolist() == [1, 2]
    assert found["demand_most"][:, 0].tolist() == [12, 11]


def test_jobs_that_compute_the_same_are_one(preset):
    plans = {plan.name: plan for plan in plans_for((), preset="fast", seeds=3)}
    assert list(plans)[-1] == "temporal", "which needs no training"
    assert plans["temporal"].jobs == ()
    assert [job.name for job in plans["main"].jobs] == [job.name for job in plans["supply-demand"].jobs]
    names = {job.name for job in plans["main"].jobs}
    assert sum(job.name in names for job in plans["alpha"].jobs) == 3, "the preset's alpha is among the main ones"
    assert sum(job.name in names for job in plans["beta"].jobs) == 1
    base = Job("lending", "elbert-po")
    others = [
        Job("lending", "elbert-po", seeds=2),
        Job("lending", "elbert-po", quick=True),
        Job("lending", "elbert-po", settings={"alpha": 1.0}),
        Job("lending", "elbert-po", world={"notion": "accuracy-parity"}),
        Job("lending", "elbert-po", preset=preset),
    ]
    assert len({job.name for job in (base, *others)}) == 6
    assert Job("lending", "elbert-po", quick=True).request.settings.steps == 8_000_000


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_the_pipeline_end_to_end_and_what_is_done_is_not_done_again(preset, tmp_path, monkeypatch):
    out = tmp_path / "out"
    how = {"preset": preset, "seeds": 2, "envs": ["infectious-harder"], "quick": True, "workers": 1, "out": out}
    done = []
    real = jobs.do_job

    def counted(job, *rest):
        done.append(job.method)
        if len(done) == 2:
            raise KeyboardInterrupt
        real(job, *rest)

    monkeypatch.setattr(jobs, "do_job", counted)
    monkeypatch.setattr(paper, "PUBLISHED_METHODS", ("elbert-po", "a-ppo"))  # each method takes its time to compile
    with pytest.raises(KeyboardInterrupt):
        reproduce(("main",), **how)
    told = []
    found = reproduce(("main", "supply-demand", "temporal"), progress=told.append, **how)
    assert done == ["elbert-po", "a-ppo", "a-ppo"], "each once, but for the one that was cut off"
    assert (told[0].done, told[-1].done, told[-1].total) == (1, 2, 2)
    assert not found.failed
    written = {path.name for path in write_reproduction(found, out)}
    assert written >= {"main.md", "main.json", "main.png", "main.svg", "supply-demand.svg", "reproduction.md"}
    assert "](main.png)\n" in (out / "main.md").read_text(), "a picture, not its text"
    assert written >= {"temporal.md", "temporal.png"}
    for path in out.glob("*.svg"):
        assert ET.parse(path).getroot().tag.endswith("svg")  # noqa: S314  (our own file)
    content = json.loads((out / "main.json").read_text())
    assert [row["label"] for row in content["rows"]] == ["elbert-po", "a-ppo"]
    for row in content["rows"]:
        assert row["episodes"] == 1250
        assert row["seeds"] == 2
        assert row["verdict"]["cell"] in ("dominates", "alike", "mixed", "dominated")
        low, high = row["reward"]["ci"]
        assert low <= row["reward"]["mean"] <= high
    pictures = {path: path.read_bytes() for path in out.glob("*.*g")}
    write_reproduction(reproduce(("main", "supply-demand", "temporal"), **how), out)
    assert len(done) == 3, "nothing was left to do"
    assert all(path.read_bytes() == before for path, before in pictures.items())


ENVIRONMENT = os.environ | {"ELBERT_COMPILATION_CACHE": ""}


@pytest.mark.slow
def test_side_by_side_stopped_and_resumed(preset, tmp_path):
    out = tmp_path / "out"
    options = ["--preset", preset, "--seeds", "1", "--env", "infectious-harder", "--workers", "2", "--out", str(out)]
    command = [sys.executable, "-m", "elbert", "reproduce", "demand", "--quick", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    limit = time.monotonic() + 120
    while not list(out.glob("runs/*/checkpoints/*.safetensors")) and time.monotonic() < limit:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert "The same command goes on" in errors
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert "3/3 trainings" in done.stderr
    rows = json.loads((out / "demand.json").read_text())["rows"]
    assert [row.get("missing", False) for row in rows] == [False] * 3


@pytest.mark.usefixtures("here")
def test_what_fails_is_named_and_the_rest_is_shown(preset, tmp_path, monkeypatch):
    def fails(job, *rest):
        raise DivergedError("the weights became infinite or NaN")

    monkeypatch.setattr(jobs, "do_job", fails)
    how = {"preset": preset, "seeds": 2, "envs": ["lending"], "quick": True, "workers": 1, "out": tmp_path / "out"}
    found = reproduce(("main", "temporal"), **how)
    write_reproduction(found, tmp_path / "out")
    assert len(found.failed) == 4
    assert "4 trainings failed; tables and figures are without them." in found.failures
    assert "the weights became infinite or NaN" in found.failures
    assert "not there" in (tmp_path / "out" / "main.md").read_text()
    assert (tmp_path / "out" / "temporal.png").exists()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_failed_trainings_set_the_exit_code_in_either_form(form, preset, tmp_path, monkeypatch, capsys):
    """Red if --json returns before the failures are raised."""
    from elbert import cli

    def fails(job, *rest):
        raise DivergedError("the weights became infinite or NaN")

    monkeypatch.setattr(jobs, "do_job", fails)
    monkeypatch.setenv("ELBERT_COMPILATION_CACHE", "")
    options = ["--preset", preset, "--env", "lending", "--quick", "--workers", "1", "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["elbert", "reproduce", "main", *options, *form])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 1
    shown = capsys.readouterr()
    assert "4 trainings failed" in shown.err
    assert not form or all(row["missing"] for row in json.loads(shown.out)["rows"])


@pytest.mark.parametrize(
    ("names", "changed", "says"),
    [
        (("mian",), {}, "No experiment is called 'mian'. Did you mean 'main'"),
        (("beta",), {"envs": ["lending"]}, "beta is not about lending. It has: attention-harder"),
        (("main",), {"seeds": 0}, "seeds is 0"),
        (("main",), {"envs": ["lendin"]}, "Did you mean 'lending'"),
        (("main",), {"preset": "slow"}, "No preset is called 'slow'"),
    ],
)
def test_mistakes_are_said_before_anything_is_done(names, changed, says, tmp_path):
    how = {"preset": "fast", "seeds": 1, "envs": None, "quick": True, "workers": 1, "out": tmp_path / "out"} | changed
    with pytest.raises(InvalidInputError, match=says):
        reproduce(names, **how)
    assert not (tmp_path / "out").exists()


def test_the_benchmark_is_every_method_in_every_world_at_every_limit():
    (plan,) = plans_for(["benchmark"], preset="fast", seeds=3)
    assert isinstance(plan, Benchmark)
    places = {(each.world, each.limit, each.method) for each in plan.entrants}
    assert {world for world, _, _ in places} == set(ENTRIES)
    assert {method for _, _, method in places} == set(METHODS)
    assert len(places) == len(ENTRIES) * len(METHODS) * 2
    alone = {each.job.name for each in plan.entrants if each.method == "g-ppo"}
    assert len(alone) == len(ENTRIES), "what knows no limit is trained once"
    assert "benchmark" not in {each.name for each in plans_for([], preset="fast", seeds=1)}, "it is asked for by name"
    (quick,) = plans_for(["benchmark"], preset="fast", seeds=1, quick=True)
    for env, part in (("attention-harder", 10), ("lending", 250 / 30)):  # of lending, 30 of 250 rollouts
        usual = next(job for job in plan.jobs if job.env == env)
        short = next(job for job in quick.jobs if job.env == env)
        assert short.request.settings.steps == usual.request.settings.steps / part
    (most,) = plans_for(["benchmark"], preset="fast", seeds=3, part=0.5)
    for env, steps in (("lending", 10_000_000), ("credit", 3_200_000), ("patrol", 480_000)):  # half, 100 rollouts, all
        assert next(job for job in most.jobs if job.env == env).request.settings.steps == steps
    (main,) = plans_for(["main"], preset="fast", seeds=3, envs=["lending"], part=0.25)
    assert {job.request.settings.steps for job in main.jobs} == {5_000_000}


@pytest.mark.parametrize("part", [0.0, -1.0, 1.5, float("nan")])
def test_a_part_of_the_steps_that_makes_no_sense_is_refused(tmp_path, part):
    with pytest.raises(InvalidInputError, match="part is"):
        reproduce(["main"], out=tmp_path, part=part)


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_the_benchmark_end_to_end(tmp_path, preset, monkeypatch):
    """Two methods in lending: rewards beside the exact optimum, verdicts, and every notion for the same policy."""
    monkeypatch.setattr(benchmark, "QUICK_METHODS", ("lagrangian", "g-ppo"))
    monkeypatch.setattr(benchmark, "QUICK_LIMITS", (0.02, 0.5))
    done = reproduce(["benchmark"], out=tmp_path, preset=str(preset), quick=True, envs=["lending"])
    assert not done.failed
    (outcome,) = done.outcomes
    assert isinstance(outcome, BenchmarkOutcome)
    assert [(cell.entrant.limit, cell.entrant.method) for cell in outcome.cells] == [
        (limit, method) for limit in (0.02, 0.5) for method in ("lagrangian", "g-ppo")
    ]
    for found in outcome.cells:
        own = found.result.worst
        assert [part.criterion for part in found.judged.criteria] == [
            *("acceptance rate", "true positive rate", "false positive rate", "accuracy")
        ]
        same = found.judged.criteria[1]
        assert same.bias.estimate == own.bias.estimate, "the same policy in the same episodes"
        assert found.best == best_reward_at("lending", found.result.horizon, found.entrant.limit)
        assert found.verdict in ("confirmed", "not refuted", "refuted")
    assert outcome.cells[3].verdict == "confirmed", "nobody has a bias of a half"
    written = {path.name for path in write_reproduction(done, tmp_path)}
    assert written == {"benchmark.md", "benchmark.json", "benchmark.png", "benchmark.svg", "reproduction.html"}
    assert open_sources([str(tmp_path)]).to_dict() == done.to_dict(), "the folder can be opened again"
    page = (tmp_path / "benchmark.md").read_text()
    assert "| lending | 0.02 | lagrangian |" in page
    rows = json.loads((tmp_path / "benchmark.json").read_text())["rows"]
    assert rows[0]["best"]["exact"]
    assert set(rows[0]["rates"]) == {"acceptance rate", "true positive rate", "false positive rate", "accuracy"}


def test_a_limit_that_a_policy_was_not_trained_for_is_judged_by_the_interval():
    def verdict_of(*ends, left_out=()):
        parts = [SimpleNamespace(bias=SimpleNamespace(ci=each, left_out=left_out)) for each in ends]
        return benchmark._verdict(SimpleNamespace(limit=None, criteria=parts), 0.05)

    assert verdicts_text(["confirmed"] * 3) == "confirmed"
    assert verdicts_text(["refuted", "confirmed", "confirmed"]) == "2 confirmed, 1 refuted"
    assert verdicts_text([]) == ""
    assert verdict_of((0.0, 0.04)) == "confirmed"
    assert verdict_of((0.0, 0.04), (0.01, 0.06)) == "not refuted"
    assert verdict_of((0.0, 0.04), (0.06, 0.08)) == "refuted"
    assert verdict_of((0.0, 0.04), None) == "not estimable"
    assert verdict_of((0.06, 0.07), None) == "refuted"
    assert verdict_of((0.0, 0.04), left_out=("2",)) == "not refuted", "nobody knows of the group that is left out"


def test_methods_are_counted_over_worlds_and_most_reward_is_among_those_that_keep_the_limit():
    def cell(world, method, reward, *verdicts):
        entrant = SimpleNamespace(world=world, method=method, limit=0.05)
        worst = max(verdicts, key=benchmark.VERDICTS.index, default=None)
        result = None if reward is None else SimpleNamespace(reward=SimpleNamespace(mean=reward))
        return SimpleNamespace(entrant=entrant, result=result, verdict=worst, verdicts=list(verdicts))

    found = SimpleNamespace(
        cells=(
            cell("a", "x", 1.0, "confirmed", "confirmed"),
            cell("a", "y", 2.0, "confirmed", "refuted"),
            cell("b", "x", 1.0, "confirmed", "not refuted"),
            cell("b", "y", 1.5, "confirmed", "confirmed"),
            cell("c", "x", 1.0, "refuted", "not estimable"),
            cell("c", "y", None),
        )
    )
    assert method_table(found).rows == (("0.05", "x", "3", "2", "1", "1"), ("0.05", "y", "3", "0", "1", "1"))
