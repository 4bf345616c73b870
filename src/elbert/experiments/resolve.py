"""What is asked of a training, checked and completed: method, settings, seeds. What has no effect is refused."""

import dataclasses
import inspect
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from elbert.checks import as_seed, as_whole
from elbert.envs import ENTRIES
from elbert.errors import InvalidInputError, unknown_name
from elbert.experiments.brought_names import refuse_brought
from elbert.experiments.presets import OWN, Preset, preset_for
from elbert.experiments.sizes import sizes
from elbert.learning import METHODS, Member, Method, MethodLike, Settings, Simulator, get_method
from elbert.learning.methods import FunctionMethod
from elbert.learning.settings import checked_settings, settings_of

ROUNDED, FAR_BELOW = 0.02, 0.1  # more steps than given, and fewer than the preset's, by these parts is said aloud
MOST_SEEDS = 10_000  # trained side by side in memory: more is a slip of the keyboard


class Request(NamedTuple):
    """A training, complete."""

    settings: Settings  # of the learner
    method: Method
    world: dict[str, Any]  # parameters of the world in training
    members: list[Member]
    given: dict[str, Any]  # what the user gave, the grid's names included: only that can be refused for no effect
    preset_steps: int | None = None  # of the preset, where it knows the environment

    def check_fit(self, simulator: Simulator) -> None:
        """Refuse what was given and would have no effect, or could not work, in this environment."""
        shape = simulator.shape.seen_by(self.settings)
        self.method.check_fit(self.settings, self.given, groups=shape.groups, horizon=simulator.horizon)
        if "initial_deviation" in self.given and not shape.actions.learns_deviation:
            raise InvalidInputError("initial_deviation has no effect on choices, only on real-valued actions.")
        if "copies" in self.given and simulator.copies not in (None, self.settings.copies):
            raise InvalidInputError(
                f"copies is {self.settings.copies}, but the environment that was given has {simulator.copies}. Give a "
                "function that makes an environment, or leave copies out."
            )

    def notices(self) -> list[str]:
        """What a user who gave a number of steps should know about it, a sentence each."""
        settings, lines = self.settings, list[str]()
        trained = settings.iterations * settings.batch
        if "steps" in self.given and trained > settings.steps * (1 + ROUNDED):
            lines.append(
                f"steps = {settings.steps:,} becomes {trained:,}: a rollout has {settings.copies} copies x "
                f"{settings.rollout:,} steps = {settings.batch:,}, and only whole ones are trained."
            )
        if "steps" in self.given and self.preset_steps is not None and trained < FAR_BELOW * self.preset_steps:
            lines.append(
                f"{trained:,} steps are {100 * trained / self.preset_steps:.2g} % of the {self.preset_steps:,} that "
                "the preset takes in this environment: enough to try things out, not to judge a method."
            )
        return lines


def resolve(
    env: str,
    method: MethodLike,
    *,
    preset: str = "fast",
    world: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    seeds: int | Sequence[int] = (0,),
    horizon: int | None = None,
) -> Request:
    """Complete what was asked for from a preset; what would have no effect is refused. None stands for not given.

    `horizon` is the length of the episodes of an environment without a name, where it is known.
    """
    grid, given = dict(grid or {}), {name: value for name, value in (settings or {}).items() if value is not None}
    for name, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values or None in values:
            raise InvalidInputError(f"The grid's {name} is {values!r}. Give a list of values.")
        if name in given:
            raise InvalidInputError(f"{name} is given twice, for all and in the grid. Leave one of them out.")
    firsts = given | {name: values[0] for name, values in grid.items()}
    kind, fields = _class_of(method)
    kind = kind.variant(firsts)
    check_names(method, firsts)
    base, described = preset_for(preset, env, kind), kind.settings()
    fixed = {name: value for name, value in fields.items() if name in described}
    kind.check_given(firsts, base.method | fixed)
    own = base.method | fixed | {name: value for name, value in firsts.items() if name in described}
    complete = kind.of(own, **{name: value for name, value in fields.items() if name not in described})
    parameters = base.world | dict(world or {})
    changes = checked_settings(
        Settings.settings(), {name: value for name, value in firsts.items() if name not in described}
    )
    learner = fitted(base, changes, horizon if env == OWN else horizon_of(env, parameters))
    for name in grid:
        if name not in kind.coefficients():
            raise InvalidInputError(
                f"The grid names {name!r}. Only coefficients of the method can differ: "
                f"{', '.join(kind.coefficients()) or 'this one has none'}."
            )
    combinations = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    return Request(
        settings=complete.adapted(learner),
        method=complete,
        world=parameters,
        members=[Member(seed, combination) for combination in combinations for seed in listed_seeds(seeds)],
        given=firsts,
        preset_steps=None if env == OWN else base.settings.steps,
    )


def horizon_of(env: str, parameters: Mapping[str, Any]) -> int | None:
    """The length of the episodes of a named world with these parameters; None if its parameters do not say."""
    defaults = {each.name: each.default for each in ENTRIES[env].parameters()}
    horizon = (defaults | dict(parameters)).get("horizon")
    return int(horizon) if isinstance(horizon, int | float) and horizon > 0 else None


def fitted(base: Preset, changes: Mapping[str, Any], horizon: int | None) -> Settings:
    """The preset's settings with these changes, and with sizes that fit where it leaves them open."""
    steps, known = changes.get("steps", base.settings.steps), base.settings.to_dict()
    given = {name: value for name, value in known.items() if name not in base.fits} | dict(changes)
    return dataclasses.replace(base.settings, **{**sizes(base.fits - {*changes}, given, steps, horizon), **changes})


def check_names(method: MethodLike, names: Iterable[str]) -> None:
    """Refuse names that are no settings, or settings that have no effect with this method."""
    chosen, fields = _class_of(method)
    names = list(names)
    kind = chosen.variant(dict.fromkeys(names))
    learner, own = settings_of(Settings), kind.settings()
    forms = [form for each in METHODS.values() for form in (each, *each.variants)]
    others = {name for form in forms for name in (*form.settings(), *form.uses)} - {*own, *kind.uses}
    for name in names:
        if name in kind.ignores:
            raise InvalidInputError(f"{name} has no effect with {kind.name}. Leave it out, or choose another method.")
        if name in others:
            label = getattr(fields.get("function"), "__name__", kind.name)
            under = "" if kind is chosen else f" under {', '.join(set(kind.settings()) - set(chosen.settings()))}"
            uses = ", ".join((*own, *kind.uses)) or "no such setting"
            raise InvalidInputError(
                f"{name} has no effect with {label}{under}, which uses {uses}. Leave it out, or choose another method."
            )
        if name not in learner and name not in own:
            refuse_brought(name)
            raise unknown_name("setting", name, [*own, *learner])


def _class_of(method: MethodLike) -> tuple[type[Method], dict[str, Any]]:
    """A method's class, and those of its fields that are fixed already."""
    if isinstance(method, str):
        return get_method(method), {}
    if isinstance(method, Method):
        return type(method), {field.name: getattr(method, field.name) for field in dataclasses.fields(method)}
    if isinstance(method, type) and issubclass(method, Method):
        return method, {}
    if callable(method):
        _check_function(method)
        return FunctionMethod, {"function": method}
    raise InvalidInputError(
        f"method is {method!r}. Give one of {', '.join(METHODS)}, a Method, or a function from estimates to an "
        "advantage."
    )


def _check_function(function: Any) -> None:
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise InvalidInputError(
            f"The method {getattr(function, '__name__', function)!r} cannot be called with the estimates alone "
            f"({error}). Give a function (estimates) -> advantage; numbers of its own belong into a Method "
            "(docs/learning.md)."
        ) from error
    except ValueError:  # a built-in function without a signature: it will say so itself
        return


def listed_seeds(seeds: int | Sequence[int], first: int = 0) -> list[int]:
    """The seeds one by one; a number n stands for the first n from `first` on."""
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        need = f"a whole number from 1 to {MOST_SEEDS}, or a list of seeds"
        seeds = range(first, first + as_whole(seeds, "seeds", need, low=1, high=MOST_SEEDS))
    if isinstance(seeds, str) or not isinstance(seeds, Sequence) or not seeds:
        raise InvalidInputError(f"seeds is {seeds!r}. Give a list of seeds, or how many.")
    listed = [as_seed(seed, "A seed") for seed in seeds]
    if len(set(listed)) != len(listed):
        raise InvalidInputError(f"The seeds {listed} name one twice. Give each once.")
    return listed


def check_same_run(stored: dict[str, Any], asked: dict[str, Any], out: Path) -> None:
    """Refuse to go on with a run under other settings."""
    flat = [content | content["settings"] | {"settings": None} for content in (stored, asked)]
    for key in flat[1]:
        if flat[0].get(key) != flat[1][key]:
            raise InvalidInputError(
                f"The run in {out} has {key} = {flat[0].get(key)!r}, but {flat[1][key]!r} is asked for now. Give the "
                "same settings to go on with it, or another folder to start a new one."
            )
