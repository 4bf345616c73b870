"""Presets: data files, read here."""

import difflib
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from elbert.envs import ENTRIES
from elbert.errors import InvalidInputError
from elbert.files import read_text
from elbert.learning import METHODS, Settings

PRESETS = ("fast", "paper")
OWN = "own"
"""The section for environments that are not ours."""


class Preset(NamedTuple):
    """What a preset says about one method in one environment."""

    settings: Settings
    world: dict[str, Any]  # parameters of the world in training
    sets_alpha: bool  # whether it knows how reward and bias weigh in this environment


def preset_for(name: str, env: str, method: str) -> Preset:
    """The settings of a preset ("fast", "paper" or the path of a TOML file) for a method in an environment.

    Entries of [defaults] hold for all environments, those of the environment's own section come over them, and those
    under the method's name over these.
    """
    content, where = _read(name)
    sections = set(ENTRIES) | {"defaults", OWN}
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
            near = difflib.get_close_matches(section, sections, n=1)
            raise InvalidInputError(
                f"{where} has a section [{section}]. {f'Did you mean [{near[0]}]? ' if near else ''}"
                f"Known: {', '.join(sorted(sections))}."
            )
    own = content.get(env, content.get(OWN, {}) if env not in ENTRIES else None)
    if own is None or not isinstance(own, dict):
        raise InvalidInputError(
            f"{where} has no section [{env}]. Add one, or take another preset: {', '.join(PRESETS)}."
        )
    merged: dict[str, Any] = {}
    for section in (content.get("defaults", {}), own):
        merged |= {key: value for key, value in section.items() if key not in METHODS and key != "world"}
    for_method = own.get(method, {})
    try:
        settings = Settings.of(merged | for_method)
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}, [{env}]: {error}") from error
    return Preset(settings, dict(own.get("world", {})), "alpha" in merged | for_method)


def _read(name: str) -> tuple[dict[str, Any], str]:
    if name in PRESETS:
        return tomllib.loads((files("elbert.experiments") / "data" / f"{name}.toml").read_text("utf-8")), name
    path = Path(name)
    if path.suffix != ".toml":
        near = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InvalidInputError(
            f"No preset is called {name!r}.{hint} Give one of {', '.join(PRESETS)}, or the path of a TOML file."
        )
    try:
        return tomllib.loads(read_text(path)), str(path)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(f"{path} is not TOML: {error}.") from error
