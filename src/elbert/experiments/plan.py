"""A study as data: grids over environments, methods, settings and seeds, and the trainings that they need."""

import itertools
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import gymnasium
import numpy as np

from elbert.checks import as_whole
from elbert.envs import World, get_entry, plain_parameters
from elbert.errors import InvalidInputError, did_you_mean
from elbert.experiments.environment_from import environment_from
from elbert.experiments.identity import code_digest, identity
from elbert.experiments.jobs import Job
from elbert.experiments.presets import OWN
from elbert.experiments.registered import PACKAGE
from elbert.experiments.resolve import listed_seeds
from elbert.experiments.run_folder import coefficients_text
from elbert.files import as_path, read_text
from elbert.learning import METHODS, Method, get_method, open_simulator

SIDE_BY_SIDE = 4
"""Policies that are trained side by side in one compiled run, unless the plan says otherwise."""
AXES = ("env", "method", "preset")
HEAD = ("title", "cores", "side_by_side", "search")
"""What a plan may say besides its grid."""


class Member(NamedTuple):
    """Where the policies of a row are: a run, or the part of it with the row's coefficients."""

    run: str  # name of the folder
    part: str  # as in `RunFolder.parts`
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class PlanRow:
    """One line of a study's table: one combination, over its seeds."""

    env: str
    method: str
    preset: str
    settings: Mapping[str, Any]  # ready for JSON
    world: Mapping[str, Any]
    seeds: tuple[int, ...]
    members: tuple[Member, ...]
    note: str = ""  # what it is in a search

    @property
    def axes(self) -> dict[str, Any]:
        """Everything in which rows may differ, by name."""
        world = {f"world {name}": value for name, value in self.world.items()}
        return {"env": self.env, "method": self.method, "preset": self.preset, **self.settings, **world}


@dataclass(frozen=True)
class Plan:
    """What a study consists of."""

    title: str
    rows: tuple[PlanRow, ...]
    jobs: tuple[Job, ...]
    cores: int = 1  # of every training
    side_by_side: int = SIDE_BY_SIDE
    search: Mapping[str, Any] = field(default_factory=dict)  # see `search.Search`; {} where there is none


def plan_from(plan: "str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None", **grid: Any) -> Plan:
    """The study that a TOML file, one grid, or several of them describe; `grid` is one more way to give one."""
    content: dict[str, Any]
    title = ""
    if isinstance(plan, str | Path):
        path = as_path(plan, "The plan")
        if path.suffix != ".toml":
            raise InvalidInputError(f"The plan is {str(plan)!r}. Give a TOML file, such as plan.toml.")
        try:
            content = tomllib.loads(read_text(path))
        except tomllib.TOMLDecodeError as error:
            raise InvalidInputError(f"{path} is not TOML: {error}.") from error
        title = path.stem
    elif plan is None or isinstance(plan, Mapping):
        content = dict(plan or {})
    elif isinstance(plan, Sequence) and all(isinstance(each, Mapping) for each in plan):
        content = {"grid": list(plan)}
    else:
        raise InvalidInputError(f"The plan is {plan!r}. Give the path of a TOML file, a grid, or a list of grids.")
    if grid and (plan is not None):
        raise InvalidInputError(
            f"Both a plan and {', '.join(grid)} were given. Write {'it' if len(grid) == 1 else 'them'} into the plan."
        )
    return _completed(content | grid, title)


def _completed(content: dict[str, Any], title: str) -> Plan:
    grids = content.pop("grid", [])
    head = {name: content.pop(name) for name in HEAD if name in content}
    if isinstance(grids, Mapping):
        grids = [grids]
    if not isinstance(grids, list) or not all(isinstance(each, Mapping) for each in grids):
        raise InvalidInputError(f"grid is {grids!r}. Write [[grid]] above the entries of each grid.")
    if grids and content:
        raise InvalidInputError(
            f"The plan has grids, and {', '.join(content)} outside of them.{did_you_mean(next(iter(content)), HEAD)} "
            "Write each entry into a grid."
        )
    grids = grids or ([content] if content else [])
    cores = as_whole(head.get("cores", 1), "cores", "how many cores a training takes, at least 1", low=1)
    most = as_whole(
        head.get("side_by_side", SIDE_BY_SIDE), "side_by_side", "how many policies are trained in one run", low=1
    )
    search = head.get("search", {})
    if not isinstance(search, Mapping):
        raise InvalidInputError(f"search is {search!r}. Write [search] above its entries.")
    if not grids and not search:
        raise InvalidInputError("The plan is empty. Name at least an environment: env = 'lending'.")
    title = head.get("title", title)
    if not isinstance(title, str):
        raise InvalidInputError(f"title is {title!r}. Give a text.")
    rows, jobs = trainings_of(grids, most, cores)
    return Plan(title, rows, jobs, cores, most, dict(search))


def trainings_of(
    grids: Iterable[Mapping[str, Any]], most: int, cores: int = 1
) -> tuple[tuple[PlanRow, ...], tuple[Job, ...]]:
    """The rows of some grids, each once, and the jobs that they need; a run has at most so many policies."""
    parts = [part for grid in grids for part in _trainings(dict(grid), most, cores)]
    rows: dict[str, PlanRow] = {}
    shown: dict[str, int] = {}
    for part in parts:
        if part.key not in rows:
            number = shown[looks] = shown.get(looks := repr((part.row.axes, part.row.seeds)), 0) + 1
            rows[part.key] = part.row if number == 1 else replace(part.row, env=f"{part.row.env} #{number}")
    used = {member.run for row in rows.values() for member in row.members}
    jobs = {job.name: job for part in parts for job in part.jobs if job.name in used}
    return tuple(rows.values()), tuple(jobs.values())


class _Part(NamedTuple):
    """A row and what it needs; several rows may need the same job."""

    key: str  # the same for the same training, whatever else is trained side by side with it
    row: PlanRow
    jobs: list[Job]


def _trainings(grid: dict[str, Any], most: int, cores: int) -> Iterable[_Part]:
    """The rows of a grid, each with the jobs that it needs."""
    if "env" not in grid:
        raise InvalidInputError(f"A grid has no env: {grid}. Name one or several: env = ['lending'].")
    envs, methods, presets = (_values(name, grid.pop(name, usual)) for name, usual in zip(AXES, USUAL, strict=True))
    seeds = tuple(listed_seeds(grid.pop("seeds", 3)))
    world = grid.pop("world", {})
    if not isinstance(world, Mapping):
        raise InvalidInputError(f"world is {world!r}. Give its parameters by name: world = {{horizon = 500}}.")
    worlds = list(_combinations({name: _values(f"world {name}", value) for name, value in world.items()}))
    settings = {name: _values(name, value) for name, value in grid.items()}
    for env, method, preset, parameters in itertools.product(envs, methods, presets, worlds):
        base = replace(_job(env, method, preset, parameters, seeds), cores=cores)
        kind = get_method(base.method).variant(settings) if isinstance(base.method, str) else None
        shared = set(kind.coefficients()) if kind is not None and _is_compiled(base) else set()
        static = {name: values for name, values in settings.items() if name not in shared}
        coefficients = {name: _numbers(values) for name, values in settings.items() if name in shared}
        for fixed in _combinations(static):
            try:
                parts = list(_split(replace(base, settings=fixed), coefficients, most if _is_compiled(base) else 1))
                _check_fit(parts[0].jobs[0])
                yield from parts
            except InvalidInputError as error:
                others = " What a grid says holds for all its methods; others need a grid of their own."
                raise InvalidInputError(
                    f"{method} in {base.env_name}: {error}{others if len(methods) > 1 else ''}"
                ) from error


def _split(job: Job, coefficients: Mapping[str, tuple[Any, ...]], most: int) -> Iterable[_Part]:
    """The rows of one environment and method, in as few runs as hold at most so many policies each."""
    several = {name: values for name, values in coefficients.items() if len(values) > 1}
    fixed = {name: values[0] for name, values in coefficients.items() if len(values) == 1}
    job = replace(job, settings={**job.settings, **fixed})
    seeds = job.seeds if isinstance(job.seeds, tuple) else tuple(range(job.seeds))
    size = len(seeds)
    for values in several.values():
        size *= len(values)
    alike = [
        name for name, values in several.items() if len({coefficients_text({"": x}) for x in values}) < len(values)
    ]
    if several and (size > most or alike):  # a run tells its parts by their texts
        name = alike[0] if alike else max(several, key=lambda name: len(several[name]))
        rest = {other: values for other, values in several.items() if other != name}
        for value in several[name]:
            yield from _split(replace(job, settings={**job.settings, name: value}), rest, most)
        return
    groups = [seeds[start : start + most] for start in range(0, len(seeds), most)]
    jobs = [replace(job, seeds=group, grid=several) for group in groups]
    for combination in _combinations(several):
        label = coefficients_text(combination) if combination else ""
        members = tuple(Member(each.name, label, group) for each, group in zip(jobs, groups, strict=True))
        alone = replace(job, settings={**job.settings, **combination})
        yield _Part(alone.name, _row(alone, members), jobs)


def _row(job: Job, members: tuple[Member, ...]) -> PlanRow:
    fields = job.method.to_dict() if isinstance(job.method, Method) else {}
    plain = {name: _plain(value) for name, value in {**fields, **job.settings}.items()}
    seeds = tuple(seed for member in members for seed in member.seeds)
    return PlanRow(job.env_name, job.method_name, job.preset, plain, plain_parameters(job.world), seeds, members)


def _plain(value: Any) -> Any:
    """A setting as JSON can hold it; a function by its name."""
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value if value is None or isinstance(value, bool | int | float | str) else identity(value)


def _job(env: Any, method: Any, preset: Any, world: Mapping[str, Any], seeds: tuple[int, ...]) -> Job:
    """A job without settings, for what a grid calls its environment."""
    label = ""
    if isinstance(env, str):
        found = environment_from(env)
        env, label = found, "" if isinstance(found, str) else env
    if isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv):
        raise InvalidInputError(
            f"The environment {env} is made already, and trainings in several processes cannot share it. Give a "
            "function that makes one."
        )
    if not isinstance(env, str | World) and not callable(env):
        raise InvalidInputError(f"env is {env!r}. Give the name of a world, a Gymnasium id, a function or a world.")
    if isinstance(method, type) and METHODS.get(getattr(method, "name", "")) is method:
        method = METHODS[method.name].name
    job = Job(cast("Any", env), method, preset, seeds, world=world, label=label)
    if job.world_name == OWN and world:
        raise InvalidInputError(
            f"world is {dict(world)}, but {job.env_name} is no named world. Set these where it is made."
        )
    return replace(job, code="".join(code_digest(each) for each in _of_users(job)))


def _of_users(job: Job) -> list[Any]:
    """What of a job is a user's code and not ours."""
    world = get_entry(job.world_name).world if job.world_name != OWN else job.env
    kind = get_method(job.method) if isinstance(job.method, str) else job.method
    things = [thing for thing in (world, kind) if not isinstance(thing, str)]
    return [thing for thing in things if not _module_of(thing).startswith(PACKAGE)]


def _module_of(thing: Any) -> str:
    return getattr(thing, "__module__", None) or type(thing).__module__


def _is_compiled(job: Job) -> bool:
    """Whether several policies can be trained side by side: in worlds, not in users' environments."""
    return job.world_name != OWN or isinstance(job.env, World)


def _check_fit(job: Job) -> None:
    """Refuse what makes no sense in a world; users' environments are looked at when they are trained in."""
    if _is_compiled(job):
        request = job.request
        how = request.settings
        with open_simulator(job.env, how.copies, request.world or None, memory=how.memory) as simulator:
            request.check_fit(simulator)


def _values(name: str, value: Any) -> list[Any]:
    """A list is several values, anything else is one. A value that is a list itself stands in a list."""
    if not isinstance(value, list | tuple):
        return [_unwrapped(value)]
    if not value:
        raise InvalidInputError(f"{name} is an empty list. Give at least one value.")
    return [tuple(each) if isinstance(each, list) else each for each in map(_unwrapped, value)]


def _unwrapped(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _numbers(values: Sequence[Any]) -> tuple[Any, ...]:
    """The values of a coefficient, each once; 1 and 1.0 are the same."""
    whole = (float(each) if isinstance(each, int) and not isinstance(each, bool) else each for each in values)
    return tuple(dict.fromkeys(whole))


def _combinations(axes: Mapping[str, Sequence[Any]]) -> Iterable[dict[str, Any]]:
    return (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))


USUAL: tuple[Any, ...] = ("", "elbert-po", "fast")
