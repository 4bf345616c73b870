"""Settings and presets refuse what makes no sense, and say what would."""
# pyright: reportArgumentType=false, reportCallIssue=false, reportOptionalOperand=false, reportOperatorIssue=false

from dataclasses import MISSING
from pathlib import Path

import pytest

import elbert
from elbert.envs import ENTRIES
from elbert.errors import InvalidInputError
from elbert.experiments.evaluate import protocol_for
from elbert.experiments.paper import PUBLISHED_METHODS
from elbert.experiments.presets import PRESETS, preset_for
from elbert.learning import METHODS, Settings
from elbert.learning.methods import GPPO, RPPO, ElbertPO
from elbert.learning.settings import plain_settings, settings_of
from tests.envs.own import clinic


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"gama": 1}, r"No setting is called 'gama'. Did you mean 'gamma'"),
        ({"gamma": 1.5}, r"gamma is 1.5. Give a number of at least 0 and at most 1: discount"),
        ({"learning_rate": 0}, r"learning_rate is 0. Give a number above 0"),
        ({"steps": 0.5}, r"steps is 0.5. Give a whole number of at least 1"),
        ({"steps": True}, r"steps is True"),
        ({"clip": float("nan")}, r"clip is nan"),
        ({"hidden": "64"}, r"hidden is '64'. Give a list of numbers"),
        ({"hidden": [64, 0]}, r"hidden is 0"),
        ({"critic": "joint"}, r"critic is 'joint'. Give one of shared, separate"),
        ({"scale_values": 1}, r"scale_values is 1. Give true or false"),
        ({"minibatch": 10**9}, r"minibatch is 1000000000, but a rollout has 16 copies x 1024 steps = 16384 samples"),
    ],
)
def test_settings_are_refused_with_what_is_needed(given, says):
    with pytest.raises(InvalidInputError, match=says):
        Settings.of(given)


def test_every_setting_says_what_it_means():
    for name, described in settings_of(Settings).items():
        assert described.meaning, name
    assert Settings.of(Settings().to_dict()) == Settings()


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("env", ENTRIES)
@pytest.mark.parametrize("method", METHODS)
def test_presets_know_every_environment_and_method(preset, env, method):
    settings, own, world, _ = preset_for(preset, env, METHODS[method])
    ENTRIES[env].make(**world)
    assert settings.iterations >= 1
    if method in PUBLISHED_METHODS:
        assert set(METHODS[method].coefficients()) - {"beta", "demand_weight"} <= set(own), "each weighs differently"
    else:
        assert own == {}, "one default for all worlds"


def test_the_paper_preset_is_the_published_one():
    settings, own, world, _ = preset_for("paper", "lending", ElbertPO)
    assert own == {"alpha": 2e5}
    assert (settings.steps, settings.rollout, settings.copies) == (5_000_000, 4096, 1)
    assert (settings.hidden, settings.critic, settings.learning_rate) == ((256, 128), "separate", 1e-5)
    assert (settings.standardise, settings.standardise_over) == ("per-signal", "minibatch")
    assert not settings.bootstrap_at_truncation
    assert world == {}
    assert preset_for("paper", "attention", GPPO).settings.learning_rate == 1e-6
    assert preset_for("paper", "attention-harder", RPPO).method["zeta"] == 20
    assert protocol_for("paper", "lending") == (3, 10_000, 1.0)
    assert protocol_for("paper", "infectious") == (200, 20, 1.0)
    assert protocol_for("paper", "attention") == (10, 1024, 1.0)


def test_a_preset_of_ones_own(tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text("[defaults]\nepochs = 3\n[lending]\ncopies = 4\nelbert-po = { alpha = 7.0 }\n")
    settings, own, *_ = preset_for(str(mine), "lending", ElbertPO)
    assert (settings.epochs, settings.copies, own) == (3, 4, {"alpha": 7.0})
    with pytest.raises(InvalidInputError, match=r"no section \[attention\]"):
        preset_for(str(mine), "attention", GPPO)
    mine.write_text("[lendign]\n")
    with pytest.raises(InvalidInputError, match=r"No section is called 'lendign'. Did you mean 'lending'"):
        preset_for(str(mine), "lending", GPPO)
    mine.write_text("[lending]\nepoch = 3\n")
    with pytest.raises(InvalidInputError, match=r"\[lending\]: No setting is called 'epoch'"):
        preset_for(str(mine), "lending", GPPO)
    mine.write_text("[lending")
    with pytest.raises(InvalidInputError, match="is not TOML"):
        preset_for(str(mine), "lending", GPPO)
    with pytest.raises(InvalidInputError, match=r"No preset is called 'fats'. Did you mean 'fast'"):
        preset_for("fats", "lending", GPPO)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"method": "g-ppo", "alpha": 3.0}, "alpha has no effect with g-ppo"),
        ({"method": "r-ppo", "beta_1": 3.0}, "beta_1 has no effect with r-ppo, which uses zeta"),
        ({"method": "g-ppo", "penalty": lambda rates: rates.sum()}, "penalty has no effect with g-ppo"),
        ({"beta": 3.0, "penalty": lambda rates: rates.sum()}, "beta has no effect beside a penalty of your own"),
        ({"beta": 3.0}, "beta has no effect on the hard bias"),
        ({"seed": -1}, "A seed is -1. Give a whole number from 0"),
        ({"demand_weight": [1.0, 2.0, 3.0]}, "demand_weight has 3 numbers. Give one for each of the 2 groups"),
        ({"world": {"horizont": 3}}, "lending has no parameter 'horizont'. Did you mean 'horizon'"),
    ],
)
def test_training_is_refused_where_a_setting_would_have_no_effect(arguments, says):
    with pytest.raises(InvalidInputError, match=says):
        elbert.train("lending", **arguments)


def test_an_environment_of_ones_own_must_say_what_bias_weighs():
    with pytest.raises(InvalidInputError, match=r"elbert-po needs max_bias here, .* or alpha"):
        elbert.train(clinic)


def test_the_documentation_lists_every_setting_as_it_is():
    page = (Path(__file__).parents[2] / "docs" / "learning.md").read_text()
    kinds = [Settings, *(form for kind in METHODS.values() for form in (kind, *kind.variants))]
    for kind in kinds:
        for name, setting in settings_of(kind).items():
            shown = "" if setting.default is MISSING else plain_settings({name: setting.default})[name]
            choices = f" ({', '.join(setting.choices)})" if setting.choices else ""
            assert f"| `{name}` | {shown} | {setting.meaning}{choices} |" in page


def test_what_a_preset_says_of_other_methods_is_passed_over(tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text("[lending]\nzeta = 3.0\nextra_demand = 0.5\n")
    assert preset_for(str(mine), "lending", RPPO).method == {"zeta": 3.0, "extra_demand": 0.5}
    assert preset_for(str(mine), "lending", GPPO).method == {}
    with pytest.raises(InvalidInputError, match=r"No preset is called None.* Give one of fast, paper"):
        preset_for(None, "lending", GPPO)
