"""Presets: the settings that nobody gave, from data files."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from elbert.envs import ENTRIES
from elbert.errors import InvalidInputError, did_you_mean, unknown_name
from elbert.experiments.sizes import AUTO, SIZES
from elbert.files import read_text
from elbert.learning import METHODS, Method, Settings
from elbert.learning.methods import FunctionMethod
from elbert.learning.settings import checked_settings, settings_of

PRESETS = ("fast", "paper")
OWN = "own"  # the section for environments that are not ours


class Preset(NamedTuple):
    """What a preset says about one method in one environment."""

    settings: Settings  # of the learner; those that are to fit have their defaults
    method: dict[str, Any]  # settings of the method
    world: dict[str, Any]  # parameters of the world in training
    fits: frozenset[str]  # settings of the learner that are to fit the training: "auto"


class Layer(NamedTuple):
    """One of the places that settings come from; what stands in a later one counts."""

    source: str  # for people, for example "fast, [lending]"
    entries: Mapping[str, Any]


class Layers(NamedTuple):
    """Everything that a preset says about one method in one environment, with where it stands."""

    settings: tuple[Layer, ...]
    world: Layer


def preset_for(name: str, env: str, method: type[Method]) -> Preset:
    """The settings of a preset ("fast", "paper" or the path of a TOML file) for a method in an environment.

    Entries of [defaults] hold for all environments, those of the environment's own section come over them, and those
    under the method's name over these. A world that was registered may bring its section along.
    """
    layers = layers_of(name, env, method)
    entries = {key: value for layer in layers.settings for key, value in layer.entries.items()}
    learner, described = settings_of(Settings), method.settings()
    known = [*learner, *(key for kind in (*METHODS.values(), FunctionMethod) for key in kind.settings())]
    try:
        for key in entries:
            if key not in known:  # those of other methods are passed over
                raise unknown_name("setting", key, known)
        fits = {key for key in SIZES if entries.get(key) == AUTO}
        return Preset(
            Settings.of({key: value for key, value in entries.items() if key in learner and key not in fits}),
            checked_settings(described, {key: value for key, value in entries.items() if key in described}),
            dict(layers.world.entries),
            frozenset(fits),
        )
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}, [{env}]: {error}") from error


def layers_of(name: str, env: str, method: type[Method]) -> Layers:
    """What a preset says about a method in an environment, the most general first.

    The environment's section comes after [defaults]; where it has none, that for users' environments, and what a
    registered world brought along.
    """
    content, where = _read(name)
    _check_sections(content, where)
    brought = dict(ENTRIES[env].training) if env in ENTRIES and env not in content else {}
    if env in ENTRIES and env not in content and not brought and OWN not in content:
        raise InvalidInputError(
            f"{where} has no section [{env}]. Add one, or take another preset: "
            f"{', '.join(preset for preset in PRESETS if preset != where)}."
        )
    heading = env if env in content else OWN
    section, entry = content.get(heading, {}), f"entry of {env}"
    of_method = Layer(f"{where}, [{heading}] {method.name}", section.get(method.name, {}))
    world = Layer(f"{where}, [{heading}] world", section.get("world", {}))
    layers = (
        Layer(f"{where}, [defaults]", content.get("defaults", {})),
        Layer(f"{where}, [{heading}]", {key: value for key, value in section.items() if not isinstance(value, dict)}),
        Layer(entry, brought.get("settings", {})),
        Layer(entry, brought[method.name]) if method.name in brought else of_method,
    )
    return Layers(layers, Layer(f"{entry}, world", brought["world"]) if "world" in brought else world)


def _check_sections(content: Mapping[str, Any], where: str) -> None:
    sections = sorted({*ENTRIES, "defaults", OWN})
    for section, entries in content.items():
        if not isinstance(entries, dict):
            raise InvalidInputError(
                f"{where}: {section} is {entries!r}, not a section. Write [{section}] above entries."
            )
        for name in (*METHODS, "world"):
            if not isinstance(entries.get(name, {}), dict) or (section == "defaults" and name in entries):
                raise InvalidInputError(
                    f"{where}, [{section}]: {name} must be a table, and stands in an environment's section only."
                )
        if section not in sections:
            raise InvalidInputError(f"{where}: {unknown_name('section', section, sections)}")


@cache
def built_in(name: str) -> dict[str, Any]:
    """A data file of the package, which nobody changes: plans of many trainings ask for it again and again."""
    return tomllib.loads((files("elbert.experiments") / "data" / f"{name}.toml").read_text("utf-8"))


def _read(name: str) -> tuple[dict[str, Any], str]:
    if name in PRESETS:
        return built_in(name), str(name)
    if not isinstance(name, str | Path) or Path(name).suffix != ".toml":
        raise InvalidInputError(
            f"No preset is called {name!r}.{did_you_mean(name, PRESETS)} Give one of {', '.join(PRESETS)}, or the path "
            "of a TOML file."
        )
    try:
        return tomllib.loads(read_text(Path(name))), str(name)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(f"{name} is not TOML: {error}.") from error
