"""Names and habits from other libraries meet an answer; what is done with a number of steps is said aloud."""
# pyright: reportArgumentType=false, reportCallIssue=false

import logging

import pytest

import elbert
from elbert.errors import InvalidInputError
from elbert.experiments import train as train_module
from elbert.experiments.brought_names import ANSWERED, RENAMED
from elbert.experiments.resolve import check_names, resolve
from elbert.learning import METHODS, Settings, get_method
from elbert.learning.methods import GPPO


def test_every_name_is_answered_with_a_setting_that_exists():
    forms = [form for kind in METHODS.values() for form in (kind, *kind.variants)]
    settings = {*Settings.settings(), *(name for form in forms for name in form.settings())}
    assert set(RENAMED.values()) <= settings
    assert not settings & {*RENAMED, *ANSWERED}, "a setting of ours would be refused"
    for name, ours in RENAMED.items():
        with pytest.raises(InvalidInputError, match=rf"No setting is called '{name}'. It is '{ours}' here."):
            check_names("elbert-po", [name])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"total_timesteps": 10_000}, "It is 'steps' here"),
        ({"policy_kwargs": {}}, "Networks are set by hidden"),
        ({"verbose": 1}, "progress"),
        ({"notion": "demographic-parity"}, r'world={"notion": ...}'),
        ({"seeds": 3}, r"makes one agent .* elbert.train_many\(..., seeds=3\), which returns a list"),
        ({"grid": {"alpha": [1]}}, r"elbert.train_many\(..., grid="),
    ],
)
def test_train_answers_what_people_bring(arguments, says):
    with pytest.raises(InvalidInputError, match=says):
        elbert.train("lending", **arguments)


def test_train_many_answers_a_single_seed():
    with pytest.raises(InvalidInputError, match=r"seeds=\[3\]"):
        elbert.train_many("lending", seed=3)


def test_ppo_is_plain_ppo():
    assert get_method("ppo") is get_method("PPO") is GPPO
    assert resolve("lending", "ppo").method == resolve("lending", "g-ppo").method
    with pytest.raises(InvalidInputError, match="No method is called 'ddpg'"):
        get_method("ddpg")


def test_rounding_and_a_short_training_are_said_aloud():
    short = resolve("lending", "elbert-po", settings={"steps": 20_000}).notices()
    assert short == [
        "steps = 20,000 becomes 80,000: a rollout has 8 copies x 10,000 steps = 80,000, and only whole ones are "
        "trained.",
        "80,000 steps are 0.4 % of the 20,000,000 that the preset takes in this environment: enough to try things out, "
        "not to judge a method.",
    ]
    assert resolve("lending", "elbert-po").notices() == []
    assert resolve("lending", "elbert-po", settings={"steps": 2_000_000}).notices() == [], "a tenth is not far below"
    assert resolve("attention-harder", "elbert-po").notices() == [], "nobody asked for a number"
    own = resolve("own", "g-ppo", settings={"steps": 100, "copies": 2, "rollout": 30, "minibatch": 30}).notices()
    assert own == [
        "steps = 100 becomes 120: a rollout has 2 copies x 30 steps = 60, and only whole ones are trained."
    ], "nobody knows what an environment of one's own needs"


def test_training_says_it_before_it_begins(caplog, monkeypatch):
    def begun(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(train_module, "Trainer", begun)
    with caplog.at_level(logging.WARNING, "elbert"), pytest.raises(KeyboardInterrupt):
        elbert.train("lending", steps=20_000)
    assert [record.name for record in caplog.records] == ["elbert.steps"] * 2
    assert "becomes 80,000" in caplog.text
