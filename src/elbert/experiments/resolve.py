"""What is asked of a training, checked and completed: settings, seeds, environments. What has no effect is refused."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elbert.envs import ENTRIES
from elbert.errors import InvalidInputError
from elbert.experiments.presets import preset_for
from elbert.fairness.penalties import Penalty
from elbert.files import FileError
from elbert.learning import HostProblem, Member, Settings, WorldProblem
from elbert.learning.advantages import METHODS, get_method
from elbert.learning.trainer import COEFFICIENTS


def resolve(
    name: str,
    method: Any,
    preset: str,
    world: Mapping[str, Any] | None,
    settings: dict[str, Any],
    penalty: Penalty | None,
    grid: Mapping[str, Sequence[Any]],
) -> tuple[Settings, dict[str, Any]]:
    """The settings and the world's parameters; what would have no effect is refused."""
    rules = get_method(method, Settings())
    base = preset_for(preset, name, rules.name)
    resolved = Settings.of(settings, base.settings)
    if isinstance(method, str):
        only = {setting for other in METHODS for setting in get_method(other, resolved).uses} - set(rules.uses)
        for given in (*settings, *grid):
            if given in only:
                raise InvalidInputError(
                    f"{given} has no effect with {method}, which uses {', '.join(rules.uses) or 'no such setting'}. "
                    "Leave it out, or choose another method."
                )
    for given in ("bias_kind", "beta"):
        if penalty is not None and (given in settings or given in grid):
            raise InvalidInputError(f"{given} has no effect beside a penalty of your own. Leave one of them out.")
    if penalty is not None and method != "elbert-po":
        raise InvalidInputError(f"A penalty of your own has no effect with {rules.name}. Use elbert-po.")
    limited = resolved.max_bias is not None or "max_bias" in grid
    if limited:
        limits = grid.get("max_bias", [resolved.max_bias])
        if rules.name != "elbert-po":
            raise InvalidInputError(f"max_bias has no effect with {rules.name}. Use elbert-po.")
        if "max_bias" in grid and "max_bias" in settings:
            raise InvalidInputError("max_bias is given twice, for all and in the grid. Leave one of them out.")
        if not isinstance(limits, Sequence) or not limits or any(limit is None for limit in limits):
            raise InvalidInputError(f"The grid's max_bias is {limits!r}. Give a list of limits, each a number above 0.")
        if settings.get("standardise") == "per-signal":
            raise InvalidInputError(
                "standardise is per-signal, which has no effect beside max_bias: a limit weighs the signals by itself. "
                "Leave it out."
            )
        for given in ("alpha", "bias_kind", "beta"):
            if given in settings or given in grid or penalty is not None:
                name = given if given in settings or given in grid else "a penalty of your own"
                raise InvalidInputError(f"{name} has no effect beside max_bias, the limit. Leave one of them out.")
        combined = {"standardise": "combined"} if resolved.standardise == "per-signal" else {}
        resolved = Settings.of({"alpha": 0.0, "max_bias": limits[0]} | combined, resolved)
    if method == "elbert-po" and not (limited or base.sets_alpha or "alpha" in settings or "alpha" in grid):
        raise InvalidInputError(
            "elbert-po needs max_bias here, the largest bias to be allowed; or alpha, the reward of an episode that "
            "one unit of squared bias is worth: 100 times the reward of an episode makes a bias of 0.1 weigh as much "
            "as all reward."
        )
    for given, values in grid.items():
        if given not in COEFFICIENTS:
            raise InvalidInputError(
                f"The grid names {given!r}. Only coefficients can differ: {', '.join(COEFFICIENTS)}."
            )
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise InvalidInputError(f"The grid's {given} is {values!r}. Give a list of values.")
    return resolved, base.world | dict(world or {}) if name in ENTRIES else dict(world or {})


def check_fit(
    problem: WorldProblem | HostProblem, settings: Settings, given: Mapping[str, Any], grid: Mapping[str, Sequence[Any]]
) -> None:
    """Refuse what was given and would have no effect, or could not work, in this environment."""
    soft = settings.bias_kind in ("soft", "centred") or (settings.bias_kind == "auto" and problem.shape.groups > 2)
    if not soft and ("beta" in given or "beta" in grid):
        raise InvalidInputError(
            f"beta has no effect on the hard bias, which {problem.shape.groups} groups have unless bias_kind is "
            "soft. Leave it out, or set bias_kind."
        )
    if "initial_deviation" in given and not problem.shape.actions.learns_deviation:
        raise InvalidInputError("initial_deviation has no effect on choices, only on real-valued actions.")
    if "copies" in given and isinstance(problem, HostProblem) and problem.env.num_envs != settings.copies:
        raise InvalidInputError(
            f"copies is {settings.copies}, but the environment that was given has {problem.env.num_envs}. Give a "
            "function that makes an environment, or leave copies out."
        )
    if settings.max_bias is not None and isinstance(problem, WorldProblem):
        longest = int(problem.world.horizon)
        if settings.rollout * settings.iterations < longest:
            raise InvalidInputError(
                f"max_bias needs whole episodes, and none of {longest} steps ends in {settings.iterations} rollouts of "
                f"{settings.rollout}. Give more steps, or fewer copies, or a world with a shorter horizon."
            )
        if settings.reset_each_rollout and settings.rollout < longest:
            raise InvalidInputError(
                f"max_bias needs whole episodes, and with reset_each_rollout none of {longest} steps ends in a "
                f"rollout of {settings.rollout}. Give rollout={longest} or more, or reset_each_rollout=False."
            )


def listed_seeds(seeds: int | Sequence[int]) -> list[int]:
    """The seeds one by one; a number n stands for 0 .. n - 1."""
    if not isinstance(seeds, int | Sequence):
        raise InvalidInputError(f"seeds is {seeds!r}. Give a list of seeds, or how many.")
    listed = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not listed or any(isinstance(one, bool) or not isinstance(one, int) or not 0 <= one < 2**31 for one in listed):
        raise InvalidInputError(f"The seeds are {listed}. Give whole numbers from 0 to 2**31 - 1, at least one.")
    if len(set(listed)) != len(listed):
        raise InvalidInputError(f"The seeds {listed} name one twice. Give each once.")
    return listed


def members_of(seeds: Sequence[int], grid: Mapping[str, Sequence[Any]]) -> list[Member]:
    """Every combination of the grid's values with every seed."""
    combinations = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    return [Member(seed, combination) for combination in combinations for seed in seeds]


def check_same_run(stored: dict[str, Any], asked: dict[str, Any], out: Path) -> None:
    """Refuse to go on with a run under other settings."""
    if not isinstance(stored.get("settings"), dict):
        raise FileError(f"{out / 'config.json'} is damaged: it holds no settings.")
    flat = [content | content["settings"] | {"settings": None} for content in (stored, asked)]
    for key in flat[1]:
        if flat[0].get(key) != flat[1][key]:
            raise InvalidInputError(
                f"The run in {out} has {key} = {flat[0].get(key)!r}, but {flat[1][key]!r} is asked for now. Give the "
                "same settings to go on with it, or another folder to start a new one."
            )
