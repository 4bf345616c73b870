"""Comparisons: kept results are read, rules meet the runs' world, and what is shown is whole at 80 columns."""
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import elbert
from elbert.cli_arguments import policies_from
from elbert.envs import make_world
from elbert.errors import InvalidInputError
from elbert.exact.frontier import best_reward_at
from elbert.exact.rules import get_rule
from elbert.experiments import compare as compare_module
from elbert.experiments.compare import Compared, Comparison, compare
from elbert.experiments.evaluate import Conditions, evaluate_policy
from elbert.experiments.results import BestPossible, best_possible
from elbert.experiments.run_folder import RunFolder
from elbert.files import FileError, write_sealed
from elbert.learning.result import Result
from elbert.report.pages import comparison_page, comparison_table, nearness, result_page, write_comparison
from elbert.tables import as_text

SHORT = Conditions(episodes=32, horizon=200)
RULE = "rule:lending/thresholds-2-1"


@pytest.fixture(scope="module")
def usual():
    return evaluate_policy(get_rule(RULE), SHORT)


def run_in(folder, result, **config):
    """A run folder that holds this result and no agents."""
    write_sealed(folder / "config.json", {"env": "lending", "parameters": {}} | config)
    write_sealed(folder / "evaluation.json", replace(result, agents=hashlib.sha256().hexdigest()).to_dict())
    return RunFolder(folder)


@pytest.mark.slow
def test_comparisons_show_how_near_to_the_best(tmp_path):
    policies = []
    for name in (RULE, "rule:lending/thresholds-3-3"):
        result = evaluate_policy(get_rule(name), SHORT)
        possible = best_reward_at("lending", 200, result.worst.bias.estimate)
        best = best_possible(result, {})
        assert best.share == pytest.approx(result.reward.mean / possible.reward)
        policies.append(Compared(name, result, best, None))
    comparison = Comparison("lending", tuple(policies))
    shares = [nearness(policy.best) for policy in policies]
    assert all(share.endswith("%") for share in shares)
    shown = as_text(comparison_page(comparison), 140)
    assert all(policy.name in shown and share in shown for policy, share in zip(policies, shares, strict=True))
    assert "of best: the reward as a share" in shown
    written = {path.name for path in write_comparison(comparison, tmp_path)}
    assert "curves.png" not in written, "nobody was trained"
    assert "scatter.png" in written
    bound = BestPossible(reward=-1.0, exact=False, share=None, short=0.25, parameters={})
    assert nearness(bound) == "0.2500 below"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_comparison_is_whole_at_every_width(usual, width):
    """With negative rewards, five groups and best possible: the widest numbers there are."""
    part = usual.criteria[0]
    groups = tuple(replace(part.groups[0], group=str(i), rate=0.1234 * i, ci=None) for i in range(1, 6))
    result = replace(
        usual,
        env="attention-harder",
        method="elbert-po",
        reward=replace(usual.reward, mean=-1.97823, ci=(-2.01234, -1.94412)),
        criteria=(replace(part, groups=groups, bias=replace(part.bias, estimate=0.03881, ci=(0.01642, 0.06123))),),
        train_seconds=1273.2,
    )
    best = BestPossible(reward=-1.9, exact=False, share=None, short=0.07823, parameters={})
    names = ["attention-harder-elbert-po-12", "attention-harder-g-ppo-1"]
    entries = tuple(Compared(name, result, best, RunFolder(Path(name))) for name in names)
    lines = as_text(comparison_page(Comparison("attention-harder", entries)), width).splitlines()
    assert max(len(line) for line in lines) <= width
    words = " ".join(lines).split()
    numbers = ["-1.9782", "-2.0123", "-1.9441", "0.0388", "0.0164", "0.0612", "0.0782", "1273"]
    numbers += ["0.123", "0.247", "0.370", "0.494", "0.617"]
    for word in (*names, *numbers):
        assert word in words, f"{word} is cut or missing at {width} columns"
    markdown = comparison_table(Comparison("attention-harder", entries)).to_markdown()
    assert all(word in markdown for word in (*names, *numbers))


def test_rules_are_evaluated_in_the_world_of_the_runs(tmp_path, monkeypatch, usual):
    rule = get_rule(RULE)
    dear = evaluate_policy(replace(rule, parameters={"interest": 2.0}), SHORT)
    assert dear.reward.mean > 1.5 * usual.reward.mean
    runs = {
        name: run_in(tmp_path / name, dear, parameters=parameters)
        for name, parameters in (("a", {"interest": 2.0, "horizon": 50}), ("b", {"interest": 2.0}), ("c", {}))
    }
    asked = []
    monkeypatch.setattr(compare_module, "evaluate_policy", lambda policy, *_, **__: asked.append(policy) or usual)
    found = compare({"a": runs["a"], "rule": rule, "b": runs["b"]})
    assert [(str(policy), policy.parameters) for policy in asked] == [(RULE, {"interest": 2.0})]
    assert [policy.name for policy in found.policies] == ["a", "rule", "b"]
    assert found.policies[0].best.parameters == {"interest": 2.0}
    assert found.to_dict()["a"]["best"]["parameters"] == {"interest": 2.0}
    compare({"a": runs["a"], "c": runs["c"]})
    with pytest.raises(InvalidInputError, match=r"worlds of the runs differ: {'a': {'interest': 2.0}, 'c': {}}"):
        compare({"a": runs["a"], "c": runs["c"], "rule": rule})


def test_different_environments_are_refused_before_anything_is_evaluated(tmp_path, monkeypatch, usual):
    first, second = run_in(tmp_path / "a", usual), run_in(tmp_path / "b", usual, env="attention")
    (tmp_path / "a" / "evaluation.json").unlink()
    monkeypatch.setattr(compare_module, "evaluate_policy", lambda *_, **__: pytest.fail("it was evaluated"))
    with pytest.raises(InvalidInputError, match="different environments: attention, lending"):
        compare({"a": first, "b": second})
    with pytest.raises(InvalidInputError, match="No runs were given"):
        compare({})


def test_what_people_type_becomes_a_policy_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    policies = policies_from(["one/run", "two/run", "other", RULE])
    assert list(policies) == ["one/run", "two/run", "other", "thresholds-2-1"]
    assert [type(policy).__name__ for policy in policies.values()] == ["RunFolder"] * 3 + ["Rule"]


def test_a_result_is_the_same_after_reading(usual):
    single = replace(usual, seed=3)
    several = replace(usual, seeds=(single, replace(single, seed=4)), protocol="default", agents="abc")
    for result in (usual, several):
        again = Result.from_dict(json.loads(json.dumps(result.to_dict(), allow_nan=False)))
        assert again == result


@pytest.mark.parametrize(
    "damage", [{"reward": 3}, {"reward": {"mean": 1.0}}, {"criteria": []}, {"criteria": [{}]}, {"seeds": [3]}]
)
def test_a_result_of_another_version_is_refused_with_a_remedy(tmp_path, usual, damage):
    run = run_in(tmp_path, usual)
    write_sealed(tmp_path / "evaluation.json", usual.to_dict() | damage)
    with pytest.raises(FileError, match=r"evaluation.json is damaged: .* Remove it"):
        run.evaluation()


def test_one_seed_and_several_are_shown_by_the_same_page(usual):
    several = replace(usual, seeds=(replace(usual, seed=0), replace(usual, seed=1)))
    one, two = (as_text(result_page(result), 80) for result in (usual, several))
    assert "for each of 2 seeds" in " ".join(two.split())
    assert "95 % interval over seeds" in two
    assert "for each of" not in one
    around = f"{usual.worst.bias.ci[0]:.4f} .. {usual.worst.bias.ci[1]:.4f}"
    rows = {line.split("  ")[0]: line for line in one.splitlines()}
    assert around in rows["debiased"], "the interval of one policy is that of the debiased bias"
    assert around in next(line for line in two.splitlines() if line.startswith("observed bias"))
    assert max(len(line) for line in [*one.splitlines(), *two.splitlines()]) <= 80


def everybody(observations):
    return np.ones(len(observations), int)


def test_anything_is_compared_in_one_environment(whole):
    """Whoever accepts everybody gives all that is due: the rates are 1 in any world."""
    found = elbert.compare(
        {"run": whole, "agents": RunFolder(whole).agents(), "rule": RULE, "all": everybody, "each": lambda o: 1},
        env="lending",
        episodes=3,
        horizon=30,
        max_bias=0.5,
    )
    assert found.env == "lending"
    assert [policy.method for policy in found.policies] == ["elbert-po", "elbert-po", "rule", "everybody", "function"]
    assert found["run"].seeds[0].to_dict() == found["agents"].seeds[0].to_dict()
    assert found["all"].reward == found["each"].reward, "the same episodes, taken together or one by one"
    assert [group.rate for group in found["all"].worst.groups] == [1.0, 1.0]
    assert all(policy.result.limit.max_bias == 0.5 for policy in found.policies)
    assert {policy.result.horizon for policy in found.policies} == {30}
    assert not (whole / "evaluation.json").exists(), "nothing unusual is kept"
    lines = str(found).splitlines()
    assert lines[1].split() == ["run", *found.to_dict()], "on its side, where there is little room"
    with pytest.raises(InvalidInputError, match=r"is called 'rul'.* Did you mean 'rule'"):
        found["rul"]


def test_guests_come_to_the_world_of_the_others(whole, monkeypatch):
    """A run in a world with dear loans: guests are evaluated there, not in the usual world."""
    agent = elbert.load(whole, seed=0)
    dear = replace(agent, about=replace(agent.about, parameters={"interest": 3.0, "horizon": 64}))
    found = compare({"all": everybody, "agent": dear}, episodes=3, horizon=30)
    there = make_world("lending", interest=3.0, horizon=30)
    assert found["all"].reward == elbert.evaluate(everybody, env=there, episodes=3).reward
    assert found.policies[0].best.parameters == found.policies[1].best.parameters == {"interest": 3.0}
    usual = compare({"all": everybody, "agent": dear}, env="lending", episodes=3, horizon=30)
    assert usual["all"].reward.mean < found["all"].reward.mean
    assert usual.policies[1].best.parameters == {}


def test_what_cannot_be_compared_is_refused(whole):
    with pytest.raises(InvalidInputError, match=r"policies is a list.* Give them by name"):
        compare([whole])
    with pytest.raises(InvalidInputError, match="does not say where it acts"):
        compare({"all": everybody})
    with pytest.raises(InvalidInputError, match=r"different environments: attention, lending. .* env=\.\.\."):
        compare({"run": whole, "rule": "attention/proportional"})


def test_kept_evaluations_serve_only_what_they_are_of(tmp_path, usual, monkeypatch):
    run, asked = run_in(tmp_path, usual), []
    monkeypatch.setattr(
        compare_module, "evaluate_policy", lambda policy, conditions, **_: asked.append(conditions) or usual
    )
    compare({"run": run})
    compare({"run": run}, env="lending")
    assert not asked, "the usual evaluation is kept"
    compare({"run": run}, env=make_world("lending", interest=2.0))
    compare({"run": run}, max_bias=0.1)
    assert [(conditions.env is None, conditions.max_bias) for conditions in asked] == [(False, None), (True, 0.1)]
