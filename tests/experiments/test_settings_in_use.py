"""`elbert presets`: what a training really uses, where it comes from, and the page of the docs that shows it."""
# pyright: reportArgumentType=false

import json
from pathlib import Path

import pytest

from elbert.envs import ENTRIES, Entry, register
from elbert.experiments.presets import PRESETS
from elbert.experiments.resolve import resolve
from elbert.experiments.settings_in_use import overview, settings_in_use
from elbert.gym_ids import IDS
from elbert.learning import METHODS
from elbert.report.pages import presets_table
from tests.command_line import cli
from tests.learning.tiny import Probe


def sources(used):
    return {each.name: (each.value, each.source) for each in (*used.settings, *used.world)}


def test_every_source_is_named(tmp_path):
    shown = sources(settings_in_use("lending"))
    assert shown["alpha"] == (50_000.0, "fast, [lending] elbert-po")
    assert shown["steps"] == (20_000_000, "fast, [lending]")
    assert shown["gradient_clip"] == (0.5, "fast, [defaults]")
    assert shown["clip"] == (0.2, "default")
    assert shown["horizon"] == (10_000, "fast, [lending] world")
    mine = tmp_path / "mine.toml"
    mine.write_text("[defaults]\nclip = 0.3\n[lending]\nclip = 0.4\n")
    assert sources(settings_in_use("lending", preset=str(mine)))["clip"] == (0.4, f"{mine}, [lending]")


def test_what_a_registered_world_brings_along_is_named():
    training = {"settings": {"copies": 3}, "elbert-po": {"alpha": 7.0}}
    try:
        register(Entry("probe", "mine/Probe-v0", Probe, training=training))
        shown = sources(settings_in_use("probe"))
    finally:
        ENTRIES.pop("probe", None)
    assert shown["copies"] == (3, "entry of probe")
    assert shown["alpha"] == (7.0, "entry of probe")
    assert shown["rollout"] == (688, "fast, [own]: auto")  # whole episodes of 16 steps, of 3 copies
    assert shown["epochs"] == (5, "fast, [own]")


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("env", IDS)
def test_they_are_what_a_training_resolves_to(env, method, preset):
    used = settings_in_use(env, method, preset)
    given = {"max_bias": 0.05} if "max_bias" in METHODS[method].settings() else {}
    assert not given or f"{method} needs max_bias" in used.needs
    request = resolve(env, method, preset=preset, settings=given)
    assert {
        each.name: each.value for each in used.settings
    } | given == request.settings.to_dict() | request.method.to_dict()
    assert {each.name: each.value for each in used.world} == request.world


def test_what_has_to_be_given_is_said():
    assert "needs max_bias here" in settings_in_use("own").needs
    assert not settings_in_use("own", "g-ppo").needs
    assert "own" not in overview()["elbert-po: alpha"]


@pytest.mark.parametrize("preset", PRESETS)
def test_the_page_of_the_docs_is_the_table_of_the_command(preset):
    page = (Path(__file__).parents[2] / "docs" / "presets.md").read_text()
    table = presets_table(preset, [*IDS, "own"]).to_markdown()
    assert table in page, f"Put this below `## {preset}`:\n{table}"


def test_the_command_takes_an_environment_or_none():
    everywhere = json.loads(cli("presets", "--json").stdout)
    assert everywhere["steps"]["lending"] == 20_000_000
    assert everywhere["world: horizon"] == {"lending": 10_000}
    one = json.loads(cli("presets", "elbert/Lending-v0", "--method", "r-ppo", "--preset", "paper", "--json").stdout)
    assert (one["env"], one["method"], one["preset"]) == ("lending", "r-ppo", "paper")
    assert one["evaluation"] == {"episodes": 256, "horizon": 10_000, "extra_demand": 0.0}
    shown = cli("presets", "own")
    assert "Evaluated in 200 episodes" in shown.stdout
    assert "elbert-po needs max_bias here" in shown.stdout
    done = cli("presets", "lendign")
    assert (done.returncode, "Did you mean 'lending'" in done.stderr) == (2, True)
