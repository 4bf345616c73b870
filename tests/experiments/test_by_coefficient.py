"""A run of several coefficients is read by coefficient: by every command, over seeds, with one picture."""

import csv
import json
import shutil
from typing import Any

import numpy as np
import pytest

import elbert
from elbert.cli_arguments import grid_from
from elbert.errors import InvalidInputError
from elbert.experiments.by_coefficient import by_coefficient, evaluate_by_coefficient
from elbert.experiments.compare import compare
from elbert.experiments.evaluate import Conditions, evaluate_policy
from elbert.experiments.run_folder import RunFolder, coefficients_text, find_runs
from elbert.report.pages import coefficients_page, runs_page
from elbert.tables import as_text
from tests.command_line import cli
from tests.experiments.small_runs import TINY, WORLD

SHORT = Conditions(episodes=8, horizon=64)
SHORTEST: dict[str, Any] = TINY | {"steps": 4 * 64 * 2}
LABELS = ["alpha=1000", "alpha=10", "alpha=200000"]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Two seeds for each of three coefficients, in no order."""
    path = tmp_path_factory.mktemp("runs") / "sweep"
    elbert.train_many("lending", seeds=[4, 7], grid={"alpha": [1e3, 10, 2e5]}, world=WORLD, out=path, **SHORTEST)
    return path


@pytest.mark.slow
def test_the_parts_are_the_members_of_each_combination(sweep):
    parts = RunFolder(sweep).parts()
    assert list(parts) == LABELS
    everyone = RunFolder(sweep).agents()
    for number, (part, alpha) in enumerate(zip(parts.values(), (1e3, 10, 2e5), strict=True)):
        agents = part.agents()
        assert [agent.about.seed for agent in agents] == [4, 7]
        assert {agent.about.method_settings["alpha"] for agent in agents} == {alpha}
        assert part.coefficients == {"alpha": alpha}
        whole = RunFolder(sweep).columns()["reward"]
        np.testing.assert_array_equal(part.columns()["reward"], whole[:, 2 * number : 2 * number + 2])
        assert f"alpha={alpha:g}," in repr(agents[0])
        assert repr(agents[0]) == repr(everyone[2 * number])


@pytest.mark.slow
def test_one_agent_of_a_sweep_is_loaded_by_its_place(sweep, tmp_path):
    says = r"of the seeds 4, 7 for each of alpha=1000; alpha=10; alpha=200000, in this order. Say which one"
    with pytest.raises(InvalidInputError, match=says):
        elbert.load(sweep)
    assert elbert.load(sweep, member=2).about.method_settings["alpha"] == 10
    for agent in sweep.glob("agent-*"):
        shutil.copy(agent, tmp_path)
    with pytest.raises(InvalidInputError, match=r"of the seeds 4, 7, 4, 7, 4, 7. Say which one"):
        elbert.load(tmp_path)


@pytest.mark.slow
def test_a_grid_in_a_folder_is_told_apart(sweep):
    alphas = [1e3, 1e3, 10, 10, 2e5, 2e5]
    assert [elbert.load(sweep, member=i).about.method_settings["alpha"] for i in range(6)] == alphas
    with pytest.raises(InvalidInputError, match="Say which one"):
        elbert.load(sweep, seed=4)
    with pytest.raises(InvalidInputError, match="trained with different coefficients"):
        evaluate_policy(RunFolder(sweep))
    rows = csv.DictReader((sweep / "metrics.csv").read_text().splitlines())
    assert [float(row["alpha"]) for row in rows] == alphas * 2


def test_one_coefficient_is_no_sweep(whole):
    run = RunFolder(whole)
    assert run.parts() == {"": run}
    assert list(by_coefficient({"a": run})) == ["a"]


@pytest.mark.slow
def test_a_list_of_agents_is_read_by_coefficient_too(sweep):
    agents = RunFolder(sweep).agents()
    parts = by_coefficient({"mine": agents})
    assert list(parts) == LABELS
    assert [agents.index(agent) for part in parts.values() for agent in part] == [0, 1, 2, 3, 4, 5]
    assert by_coefficient({"mine": agents[:2], "one": agents[0]}) == {"mine": agents[:2], "one": agents[0]}


@pytest.mark.slow
def test_every_combination_is_evaluated_over_its_seeds_and_kept(sweep):
    results = evaluate_by_coefficient(RunFolder(sweep), SHORT)
    assert list(results) == LABELS
    for result, (label, part) in zip(results.values(), RunFolder(sweep).parts().items(), strict=True):
        assert [single.seed for single in result.seeds] == [4, 7]
        rewards = [agent.evaluate(8, seed=1 + i, horizon=64).reward.mean for i, agent in enumerate(part.agents())]
        assert result.reward.mean == pytest.approx(np.mean(rewards)), label
        part.keep_evaluation(result.from_dict(result.to_dict() | {"agents": part.digest()}))
        assert part.evaluation() is not None
    listed = list(find_runs(sweep.parent))
    assert [coefficients_text(run.coefficients) for run in listed] == LABELS
    assert all(run.evaluated and run.seeds == (4, 7) for run in listed)
    assert [run.reward for run in listed] == pytest.approx([result.reward.mean for result in results.values()])
    shown = as_text(runs_page(listed), 200)
    assert all(label in shown for label in LABELS)
    page = as_text(coefficients_page(results), 80)
    assert all(label in page for label in LABELS)
    assert "for each of 2 seeds" in page
    found = compare({"sweep": RunFolder(sweep)})
    assert [policy.name for policy in found.policies] == LABELS
    assert found.to_dict()["alpha=10"]["coefficients"] == {"alpha": 10}
    assert next(iter(by_coefficient({"s": RunFolder(sweep), "t": RunFolder(sweep)}))) == "s alpha=1000"


@pytest.mark.slow
def test_the_commands_group_by_coefficient(sweep, tmp_path):
    done = cli("evaluate", sweep, "--episodes", "8", "--horizon", "64", "--json")
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)) == LABELS
    listed = json.loads(cli("runs", sweep.parent, "--json").stdout)
    assert [run["coefficients"] for run in listed] == [{"alpha": 1e3}, {"alpha": 10}, {"alpha": 2e5}]
    for part in RunFolder(sweep).parts().values():
        result = evaluate_by_coefficient(part, SHORT)[""]
        part.keep_evaluation(result.from_dict(result.to_dict() | {"agents": part.digest()}))
    done = cli("compare", sweep, "--out", tmp_path / "both")
    assert done.returncode == 0, done.stderr
    assert all(f" {label} " in done.stdout for label in LABELS)
    assert (tmp_path / "both" / "scatter.png").exists()


def test_a_grid_is_typed_as_a_list():
    assert grid_from(["alpha=1e3,1e4", "beta=20"]) == {"alpha": [1e3, 1e4], "beta": [20]}
    assert grid_from(["demand_weight=[0,1],[1,0]"]) == {"demand_weight": [[0, 1], [1, 0]]}
    assert grid_from(None) == {}
    for text in ("alpha", "=1", "alpha=", "alpha=,", "alpha=1e3;1e4", "alpha=x"):
        with pytest.raises(InvalidInputError, match="--grid"):
            grid_from([text])
    with pytest.raises(InvalidInputError, match="alpha a second time"):
        grid_from(["alpha=1", "alpha=2"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--grid", "alpha=1,2", "--alpha", "3"], "alpha is given twice, for all and in the grid"),
        (["--grid", "gamma=0.9,0.99"], "Only coefficients of the method can differ"),
        (["--grid", "alhpa=1,2"], "Did you mean 'alpha'"),
    ],
)
def test_a_grid_that_cannot_be_is_refused(arguments, says, tmp_path):
    done = cli("train", "lending", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
