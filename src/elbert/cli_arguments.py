"""What people type, turned into what functions take."""

import importlib
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elbert.envs import get_entry
from elbert.errors import InvalidInputError
from elbert.exact.rules import is_rule
from elbert.experiments.run_folder import summary
from elbert.learning import Environment

RUNS = Path("runs")


def assignments(given: Sequence[str] | None, option: str) -> dict[str, Any]:
    """name=value pairs; a value is JSON where it can be (numbers, lists, true), else text."""
    pairs: dict[str, Any] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            example = "horizon=500" if option == "--world" else "gamma=0.999"
            raise InvalidInputError(f"{option} {text!r} is not name=value. Write for example {option} {example}.")
        if name in pairs:
            raise InvalidInputError(f"{option} gives {name} twice. Leave one of them out.")
        try:
            pairs[name] = json.loads(value)
        except ValueError:
            pairs[name] = value
    return pairs


def chosen_settings(options: dict[str, Any], given: Sequence[str] | None) -> dict[str, Any]:
    """Settings from options of their own (None: not given) and from --set; one that comes by both is refused."""
    named = {name: value for name, value in options.items() if value is not None}
    others = assignments(given, "--set")
    for name in named.keys() & others.keys():
        raise InvalidInputError(
            f"{name} is given twice, by --{name.replace('_', '-')} and by --set. Leave one of them out."
        )
    return named | others


def run_folder(env: str, method: str, out: Path | None, *, resume: bool) -> Path:
    """The folder of a run: as given; else the one to be resumed; else a new one in `runs`."""
    if out is not None:
        return out
    name = f"{Path(env.rpartition(':')[0]).stem or env}-{method}" if ":" in env else f"{env}-{method}".replace("/", "-")
    taken = sorted(RUNS.glob(f"{name}-[0-9]*"), key=lambda path: _number(path.name))
    if resume:
        for path in reversed(taken):
            if summary(path).status in ("interrupted", "killed", "failed"):
                return path
        raise InvalidInputError(f"No unfinished run of {method} on {env} is in {RUNS}. Name its folder with --out.")
    return RUNS / f"{name}-{_number(taken[-1].name) + 1 if taken else 1}"


def names_of(runs: Sequence[Path]) -> list[tuple[str, Path]]:
    """A short name for each run: the folder's, or as much of the path as tells them apart; a rule has its own."""
    if not runs:
        raise InvalidInputError("No runs were given. Name the folders of at least one; `elbert runs` lists them.")
    short = [path.name if is_rule(path) else path.resolve().name for path in runs]
    return [(name if short.count(name) == 1 else str(path), path) for name, path in zip(short, runs, strict=True)]


def _number(name: str) -> int:
    last = name.rpartition("-")[2]
    return int(last) if last.isdigit() else 0


def environment_from(text: str) -> Environment:
    """What a person types for an environment: the name of a world, or `module:function` or `file.py:function`.

    The function makes a Gymnasium environment that reports supply and demand. Naming it runs that module's code.
    """
    if ":" not in text:
        return get_entry(text).name
    where, _, name = text.rpartition(":")
    try:
        if where.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(where).stem, where)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(spec.name, module)
            sys.path.insert(0, str(Path(where).resolve().parent))
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, str(Path.cwd()))
            module = importlib.import_module(where)
        return getattr(module, name)
    except Exception as error:  # whatever the user's code raises
        raise InvalidInputError(
            f"{text!r} names no function that makes an environment ({type(error).__name__}: {error}). Give "
            "module:function or file.py:function."
        ) from error
