"""From grids to trainings: which there are, what shares a run, and what is refused before anything is done."""
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false, reportGeneralTypeIssues=false

import dataclasses
import pickle
from functools import partial

import cloudpickle
import gymnasium
import numpy as np
import pytest

from elbert.errors import InvalidInputError
from elbert.experiments.identity import identity
from elbert.experiments.jobs import Job
from elbert.experiments.plan import plan_from
from elbert.files import FileError
from elbert.learning import METHODS
from tests.envs.own import clinic
from tests.experiments.small_runs import TINY
from tests.learning.tiny import Probe

SMALL = TINY | {"hidden": [[4]]}  # a list is several values: one that is a list stands in a list


def rows_of(plan):
    return [(row.env, row.method, row.settings.get("max_bias"), row.seeds) for row in plan.rows]


def test_grids_are_united_and_what_two_of_them_need_is_trained_once():
    plan = plan_from(
        [
            {"env": ["lending", "attention"], "max_bias": [0.02, 0.05], "seeds": 2},
            {"env": "lending", "method": ["g-ppo", "r-ppo"], "seeds": [5]},
            {"env": "lending", "max_bias": [0.02, 0.05], "seeds": 2},
        ]
    )
    assert rows_of(plan) == [
        ("lending", "elbert-po", 0.02, (0, 1)),
        ("lending", "elbert-po", 0.05, (0, 1)),
        ("attention", "elbert-po", 0.02, (0, 1)),
        ("attention", "elbert-po", 0.05, (0, 1)),
        ("lending", "g-ppo", None, (5,)),
        ("lending", "r-ppo", None, (5,)),
    ]
    assert [len(job.request.members) for job in plan.jobs] == [4, 4, 1, 1], "limits and seeds share a run"
    assert plan.rows[0].members[0].run == plan.rows[1].members[0].run
    assert [row.members[0].part for row in plan.rows[:2]] == ["max_bias=0.02", "max_bias=0.05"]


def members(plan):
    return sorted((member.seed, *member.coefficients.values()) for job in plan.jobs for member in job.request.members)


@pytest.mark.parametrize(("most", "sizes"), [(1, [1] * 12), (3, [3] * 4), (6, [6, 6]), (12, [12]), (2, [2, 1] * 4)])
def test_a_run_has_at_most_so_many_policies(most, sizes):
    plan = plan_from(
        {"grid": {"env": "attention", "alpha": [1.0, 2.0], "beta": [1.0, 3.0], "seeds": 3}} | {"side_by_side": most}
    )
    assert sorted(len(job.request.members) for job in plan.jobs) == sorted(sizes)
    assert len(plan.rows) == 4
    trained = {(job.name, seed) for job in plan.jobs for seed in job.seeds}
    for row in plan.rows:
        assert row.seeds == (0, 1, 2)
        assert tuple(seed for member in row.members for seed in member.seeds) == row.seeds
        assert all((member.run, seed) in trained for member in row.members for seed in member.seeds)


def test_what_is_compiled_differently_is_another_run():
    plan = plan_from(
        {"env": "lending", "gamma": [0.9, 0.99], "alpha": [1.0, 2.0], "seeds": 1, "preset": ["fast", "paper"]}
    )
    assert len(plan.jobs) == 4
    assert len(plan.rows) == 8
    assert {row.axes["gamma"] for row in plan.rows} == {0.9, 0.99}


def test_an_environment_of_your_own_is_trained_one_policy_at_a_time():
    plan = plan_from({"env": clinic, "alpha": [1.0, 2.0], "seeds": 2, **SMALL})
    assert len(plan.jobs) == 4
    assert plan.rows[0].env == "tests.envs.own:clinic"
    assert [job.grid for job in plan.jobs] == [{}] * 4
    assert {job.settings["hidden"] for job in plan.jobs} == {(4,)}


def test_a_file_and_its_environments(tmp_path):
    for folder, length in (("one", 4), ("two", 5)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(
            f"from tests.envs.own import clinic\ndef make():\n    return clinic(length={length})\n"
        )
    both = [f"{tmp_path / folder / 'mine.py'}:make" for folder in ("one", "two")]
    (tmp_path / "study.toml").write_text(f"env = {both}\nalpha = 1.0\nseeds = 1\nworld = {{}}\n")
    plan = plan_from(tmp_path / "study.toml")
    assert plan.title == "study"
    assert len({job.name for job in plan.jobs}) == 2, "two files of one name are two environments"
    assert [row.env for row in plan.rows] == both
    for job, length in zip(plan.jobs, (4, 5), strict=True):
        travelled = pickle.loads(cloudpickle.dumps(job))  # noqa: S301
        assert travelled.env().env.length == length
        assert travelled.name == job.name


def test_jobs_travel_without_what_follows_from_them():
    job = Job("lending", "elbert-po", settings={"alpha": 1.0})
    name = job.name
    assert set(job.__getstate__()) == {field.name for field in dataclasses.fields(Job)}
    assert pickle.loads(pickle.dumps(job)).name == name  # noqa: S301


def test_folders_have_names_that_a_disk_takes():
    long = Job(clinic, "g-ppo", label=f"somewhere/{'x' * 500}/../{'y' * 500} $(rm):make")
    assert len(long.name) < 150
    assert not set(long.name) & set("/. $():")


def test_identities_tell_things_apart():
    from elbert import make_world

    assert identity(clinic) == "tests.envs.own:clinic"
    assert identity("CartPole-v1") == "CartPole-v1"
    one, same, other = (make_world("lending", horizon=horizon) for horizon in (10, 10, 20))
    assert identity(one) == identity(same) != identity(other)

    def closed():
        return one

    for nameless in (lambda: None, partial(clinic, length=3), closed, clinic()):
        with pytest.raises(InvalidInputError, match="no name that tells it from others"):
            identity(nameless)


def test_other_code_is_another_training(tmp_path):
    """Red if results of an environment that was edited since would be taken for its own."""
    names = set()
    for length in (4, 5):
        (tmp_path / "edited.py").write_text(
            f"from tests.envs.own import clinic\ndef make():\n    return clinic(length={length})\n"
        )
        plan = plan_from({"env": f"{tmp_path / 'edited.py'}:make", "alpha": 1.0, "seeds": 1})
        names |= {job.name for job in plan.jobs}
    assert len(names) == 2


def test_rows_are_told_apart_by_what_they_are():
    worlds = plan_from({"env": [Probe(), Probe(horizon=8)], "alpha": [1.0, 2.0], "seeds": 1})
    assert [row.env for row in worlds.rows] == ["Probe", "Probe", "Probe #2", "Probe #2"]
    assert [len(job.request.members) for job in worlds.jobs] == [2, 2]
    methods = [METHODS["elbert-po"].of({"alpha": alpha}) for alpha in (1.0, 2.0)]
    instances = plan_from({"env": Probe(), "method": methods, "seeds": 1})
    assert [row.settings["alpha"] for row in instances.rows] == [1.0, 2.0]
    assert len(plan_from({"env": "lending", "method": [METHODS["g-ppo"], "g-ppo"], "seeds": 1}).rows) == 1


def test_values_that_are_or_look_the_same():
    same = plan_from({"env": "lending", "alpha": [1, 1.0, np.float32(2)], "gamma": np.float64(0.9), "seeds": 1})
    assert [row.settings["alpha"] for row in same.rows] == [1.0, 2.0]
    alike = plan_from({"env": "lending", "alpha": [1.0000001, 1.0000002, 2.0], "seeds": 1})
    assert len(alike.jobs) == 3, "a run tells its parts by texts of six digits"
    grids = [{"env": "lending", "alpha": [1.0, 2.0], "seeds": 1}, {"env": "lending", "alpha": [2.0], "seeds": 1}]
    assert len(plan_from(grids).jobs) == 1, "the second asks for what the first trains"
    cores = [plan_from({"env": "lending", "seeds": 1, "cores": cores}).jobs[0].name for cores in (1, 2)]
    assert len(set(cores)) == 2, "the last bits depend on them"


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ({}, "The plan is empty. Name at least an environment"),
        ({"method": "g-ppo"}, "A grid has no env"),
        ({"env": []}, "env is an empty list"),
        ({"env": "lendin", "seeds": 1}, "Did you mean 'lending'"),
        ({"env": "lending", "method": "g-po"}, "Did you mean 'g-ppo'"),
        ({"env": "lending", "gama": 0.9}, "elbert-po in lending: No setting is called 'gama'. Did you mean 'gamma'"),
        ({"env": "lending", "method": ["elbert-po", "g-ppo"], "max_bias": 0.1}, "others need a grid of their own"),
        ({"env": "lending", "world": 3}, "world is 3"),
        ({"env": "lending", "world": {"horizn": 3}}, "horizn"),
        ({"env": "lending", "seeds": 0}, "seeds is 0"),
        ({"env": "lending", "cores": 0}, "cores is 0"),
        ({"env": 3}, "env is 3"),
        ({"env": "lending", "alpha": [1.0, -5.0]}, "alpha is -5"),
        ({"env": "lending", "title": {"a": 1}}, "title is"),
        ({"env": clinic, "alpha": 1.0, "world": {"length": 3}}, "no named world"),
        ({"grid": [{"env": "lending"}], "out": "x"}, "The plan has grids, and out outside of them"),
        ({"env": "lending", "side_by_side": "two"}, "side_by_side is 'two'"),
        ({"grid": [{"env": "lending"}], "seeds": 3}, "The plan has grids, and seeds outside of them"),
        ({"grid": ["lending"]}, "Write [[grid]] above"),
        ([{"env": "lending"}, "more"], "Give the path of a TOML file, a grid, or a list of grids"),
        ("study.json", "Give a TOML file"),
        ({"env": gymnasium.make("elbert/Lending-v0")}, "cannot share it"),
        ({"search": 3}, "Write [search] above its entries"),
    ],
)
def test_mistakes_are_said_before_anything_is_done(plan, says):
    with pytest.raises(InvalidInputError) as caught:
        plan_from(plan)
    assert says in str(caught.value)


def test_files_that_are_no_plans(tmp_path):
    with pytest.raises(FileError, match=r"Cannot read .*missing.toml"):
        plan_from(tmp_path / "missing.toml")
    (tmp_path / "bad.toml").write_text("env = [")
    with pytest.raises(InvalidInputError, match=r"bad.toml is not TOML"):
        plan_from(tmp_path / "bad.toml")
    with pytest.raises(InvalidInputError, match="Both a plan and env were given"):
        plan_from({"env": "lending"}, env="attention")
