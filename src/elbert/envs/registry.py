"""The worlds by name: the paper's five, others from the literature, and those that users register.

    register(Entry("queue", "mine/Queue-v0", Queue, summary="People wait for a desk."))

makes a world known to `make_world`, to the command line, and to `gymnasium.make` and `gymnasium.make_vec`.
"""

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, TypeAlias, get_args, get_origin, get_type_hints

import gymnasium

from elbert.envs.admission import Admission
from elbert.envs.attention import Attention
from elbert.envs.credit import Credit
from elbert.envs.gym_env import Draw, WorldEnv, WorldVectorEnv
from elbert.envs.infectious import Infectious
from elbert.envs.lending import Lending
from elbert.envs.parameters import plain_parameters
from elbert.envs.patrol import Patrol
from elbert.envs.waiting_list import WaitingList
from elbert.envs.world import World
from elbert.errors import InvalidInputError, did_you_mean, unknown_name
from elbert.gym_ids import IDS, register_id
from elbert.shown import named

Scene: TypeAlias = Callable[[Any, Any, Any, Any], Mapping[str, Any]]
"""(world, states [T + 1, ...] each leaf, actions [T, ...], steps of the frames [F]) -> what a replay draws as JSON.

`elbert.report.world_scenes` says what can be drawn.
"""


class Parameter(NamedTuple):
    """One parameter of a world."""

    name: str
    default: Any  # None if there is none
    meaning: str


@dataclass(frozen=True)
class Entry:
    """A named world: a class and the parameters that make it this one."""

    name: str  # for people and the command line
    id: str  # for gymnasium.make, for example "mine/Queue-v0"
    world: type[World]
    settings: Mapping[str, Any] = field(default_factory=dict)  # parameters that differ from the class's defaults
    summary: str = ""  # one sentence for `elbert envs`
    draw: Draw | str | None = None  # draws a state for render(); "module:function" is imported when needed
    training: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # section ("settings", a method) -> values
    evaluation: Mapping[str, int] = field(default_factory=dict)  # episodes and horizon
    judging: Mapping[str, Any] = field(default_factory=dict)  # parameters that count every notion for the same policy
    scene: Scene | str | None = None  # an episode as a replay shows it; None: only supply and demand; text as in draw

    def make(self, **parameters: Any) -> World:
        """The world with these parameters; an unknown one is refused with the nearest known."""
        self._check_names(parameters)
        return self.world(**{**self.settings, **parameters})

    def parameters(self) -> list[Parameter]:
        """Every parameter with its default in this world and its meaning."""
        hints = get_type_hints(self.world.__init__, include_extras=True)
        return [
            Parameter(name, self.settings.get(name, None if default is inspect.Parameter.empty else default), meaning)
            for name, default in self._defaults().items()
            for meaning in [get_args(hints[name])[1] if get_origin(hints.get(name)) is Annotated else ""]
        ]

    def drawing(self, render_mode: str | None) -> Draw | None:
        """The function that draws a state in this mode, if there is one."""
        if not isinstance(self.draw, str):
            return self.draw
        return None if render_mode is None else named(self.draw)

    def staging(self) -> Scene | None:
        """The function that makes the scene of a replay, if there is one."""
        return named(self.scene) if isinstance(self.scene, str) else self.scene

    def check(self) -> None:
        """Refuse an entry that could never be made."""
        if not isinstance(self.name, str) or not self.name or not set(self.name).isdisjoint(":/. \t\n"):
            raise InvalidInputError(f"The name is {self.name!r}. Give one word that has none of : / . in it.")
        if not (isinstance(self.world, type) and issubclass(self.world, World)):
            raise InvalidInputError(f"world is {self.world!r}. Give a class that is derived from elbert.envs.World.")
        self._check_names(self.settings)
        for name, default in self._defaults().items():
            if default is inspect.Parameter.empty and name not in self.settings:
                raise InvalidInputError(
                    f"{self.world.__name__} needs the parameter {name!r}, for which there is no value. Give "
                    f"settings={{{name!r}: ...}}, or a default in __init__."
                )

    def _defaults(self) -> dict[str, Any]:
        every = inspect.signature(self.world).parameters.values()
        return {each.name: each.default for each in every if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}

    def _check_names(self, parameters: Mapping[str, Any]) -> None:
        known = list(self._defaults())
        for name in parameters:
            if name not in known:
                hint = did_you_mean("horizon" if name == "max_episode_steps" else name, known)
                raise InvalidInputError(f"{self.name} has no parameter {name!r}.{hint} It has: {', '.join(known)}.")


GYMNASIUM_ID = re.compile(r"([\w.]+:)?([\w.-]+/)?[\w.-]+-v\d+")  # "CartPole-v1", "mine/Queue-v0", "module:Id-v0"

ENTRIES: dict[str, Entry] = {}
"""Name -> world: those of the package, and what was registered."""


def register(entry: Entry) -> Entry:
    """Make a world known by its name and its Gymnasium id.

    An equal entry may be registered again, and so may one whose class was defined again, as when a notebook's cell is
    run twice. A name or id that stands for something else is refused.
    """
    if not isinstance(entry, Entry):
        raise InvalidInputError(
            f"This is {type(entry).__name__}. Give an elbert.envs.Entry with the name, the Gymnasium id and the class."
        )
    entry.check()
    present = ENTRIES.get(entry.name, entry)
    places = {(world.__module__, world.__qualname__) for world in (present.world, entry.world)}
    defined_again = present.world is not entry.world and len(places) == 1
    if not defined_again and repr(present) != repr(entry):  # settings may hold arrays, whose == has no single truth
        raise InvalidInputError(
            f"The name {entry.name!r} stands for {present.world.__name__} ({present.id}) already. Choose another name."
        )
    spec = gymnasium.registry.get(entry.id)
    if spec is not None and spec.kwargs != {"world": entry.name}:
        raise InvalidInputError(f"The Gymnasium id {entry.id!r} is taken. Choose another id.")
    try:
        if spec is None:
            register_id(gymnasium, entry.name, entry.id)
    except gymnasium.error.Error as error:
        raise InvalidInputError(
            f"The Gymnasium id is {entry.id!r} ({error}). Give one of the form 'mine/Queue-v0'."
        ) from error
    ENTRIES[entry.name] = entry
    return entry


for _entry in (
    Entry(
        "lending",
        IDS["lending"],
        Lending,
        summary="A bank accepts or rejects loan applicants; loans repaid and defaulted move the groups' scores.",
        judging={"counted": "decision-rates"},
        draw="elbert.report.world_pictures:draw_lending",
        scene="elbert.report.world_scenes:lending_scene",
    ),
    Entry(
        "infectious",
        IDS["infectious"],
        Infectious,
        summary="A health service vaccinates one person a step while a disease spreads in a social network.",
        draw="elbert.report.world_pictures:draw_infectious",
        scene="elbert.report.world_scenes:infectious_scene",
    ),
    Entry(
        "infectious-harder",
        IDS["infectious-harder"],
        Infectious,
        settings={"waning": 0.2},
        summary="As infectious, but immunity is lost: recovered and vaccinated people become susceptible again.",
        draw="elbert.report.world_pictures:draw_infectious",
        scene="elbert.report.world_scenes:infectious_scene",
    ),
    Entry(
        "attention",
        IDS["attention"],
        Attention,
        summary="Units of attention go to sites with incidents; sites without attention get worse.",
        draw="elbert.report.world_pictures:draw_attention",
        scene="elbert.report.world_scenes:attention_scene",
    ),
    Entry(
        "attention-harder",
        IDS["attention-harder"],
        Attention,
        settings={
            "initial_rates": (30.0, 25.0, 22.5, 17.5, 12.5),
            "fall": (0.004, 0.01, 0.016, 0.02, 0.04),
            "growth": (0.08, 0.2, 0.4, 0.8, 2.0),
            "units": 30,
            "reward_found": 0.0,
        },
        summary="As attention, with more units, unequal sites that fall slowly and grow quickly, and only misses "
        "counted.",
        draw="elbert.report.world_pictures:draw_attention",
        scene="elbert.report.world_scenes:attention_scene",
    ),
    Entry(
        "patrol",
        IDS["patrol"],
        Patrol,
        summary="A patrol goes to one region a day and records only what it comes upon there, or what is reported.",
        draw="elbert.report.world_pictures:draw_patrol",
        training={
            "settings": {
                "steps": 480_000,
                "copies": 16,
                "rollout": 1000,
                "epochs": 4,
                "minibatch": 1000,
                "learning_rate": 1e-3,
                "hidden": [32],
            },
            "elbert-po": {"alpha": 1e3},
            "r-ppo": {"zeta": 10.0, "omega": 0.05, "penalty_form": "excess"},
            "a-ppo": {"beta_1": 0.15, "beta_2": 0.15, "omega": 0.05},
        },
        evaluation={"episodes": 256, "horizon": 1000},
        scene="elbert.report.world_scenes:patrol_scene",
    ),
    Entry(
        "admission",
        IDS["admission"],
        Admission,
        summary="A college publishes a threshold; applicants pay to reach it, and groups pay differently.",
        draw="elbert.report.world_pictures:draw_admission",
        training={
            "settings": {
                "steps": 320_000,
                "copies": 64,
                "rollout": 100,
                "epochs": 4,
                "minibatch": 800,
                "learning_rate": 1e-3,
                "gamma": 0.9,
                "hidden": [32],
                "initial_deviation": 0.1,
                "deviation_kept": 0.3,
            },
            "elbert-po": {"alpha": 10.0},
            "r-ppo": {"zeta": 1.0, "omega": 0.05, "penalty_form": "excess"},
            "a-ppo": {"beta_1": 0.15, "beta_2": 0.15, "omega": 0.05},
        },
        evaluation={"episodes": 500, "horizon": 100},
        scene="elbert.report.world_scenes:admission_scene",
    ),
    Entry(
        "credit",
        IDS["credit"],
        Credit,
        summary="A bank accepts or refuses applicants of four groups; every loan moves the FICO score of one person.",
        draw="elbert.report.world_pictures:draw_lending",
        scene="elbert.report.world_scenes:lending_scene",
        training={
            "settings": {
                "steps": 6_000_000,
                "copies": 16,
                "rollout": 2000,
                "epochs": 2,
                "minibatch": 4000,
                "learning_rate": 5e-3,
                "gamma": 0.9995,
                "gae_lambda": 0.98,
                "entropy_weight": 0.002,
                "hidden": [32],
                "extra_demand": 0.0,
            },
            "elbert-po": {"alpha": 1e4},
            "r-ppo": {"zeta": 2.0, "omega": 0.05},
            "a-ppo": {"beta_1": 0.25, "beta_2": 0.25, "omega": 0.05},
        },
        evaluation={"episodes": 512, "horizon": 2000},
        judging={"counted": "decision-rates"},
    ),
    Entry(
        "waiting-list",
        IDS["waiting-list"],
        WaitingList,
        summary="Organs go to a list of four blood groups; who fits which organ is given, and people die waiting.",
        draw="elbert.report.world_pictures:draw_waiting_list",
        training={
            "settings": {
                "steps": 1_000_000,
                "copies": 16,
                "rollout": 520,
                "epochs": 4,
                "minibatch": 1040,
                "learning_rate": 1e-3,
                "gamma": 0.995,
                "hidden": (32,),
            },
            "elbert-po": {"alpha": 1000.0},
            "r-ppo": {"zeta": 1.0, "omega": 0.05, "penalty_form": "threshold"},
            "a-ppo": {"beta_1": 0.1, "beta_2": 0.1, "omega": 0.05},
        },
        evaluation={"episodes": 256, "horizon": 520},
        judging={"counted": "both"},
        scene="elbert.report.world_scenes:waiting_list_scene",
    ),
):
    register(_entry)


def get_entry(name: str) -> Entry:
    """The entry of this name or Gymnasium id; an unknown one is refused with the nearest known."""
    for entry in ENTRIES.values():
        if name in (entry.name, entry.id):
            return entry
    raise unknown_name("environment", name, ENTRIES)


def find_world(name: str) -> Entry | None:
    """The entry of a world's name or id, or None for the id of any other Gymnasium environment; else refused."""
    if any(name in (entry.name, entry.id) for entry in ENTRIES.values()):
        return get_entry(name)
    if not GYMNASIUM_ID.fullmatch(name):
        known = [*ENTRIES, *gymnasium.registry]
        raise InvalidInputError(
            f"No environment is called {name!r}.{did_you_mean(name, known)} Worlds: {', '.join(ENTRIES)}. A Gymnasium "
            "id works too, such as 'CartPole-v1', 'my_package/MyEnv-v0', or 'module:MyEnv-v0' to import a module first."
        )
    module, _, identifier = name.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        gymnasium.spec(identifier)
    except (gymnasium.error.Error, ImportError) as error:
        raise InvalidInputError(
            f"Gymnasium knows no environment {name!r} ({error}). Import the package that registers it, or write "
            "'module:Id-v0' to have the module imported."
        ) from error
    return None


def make_world(name: str, **parameters: Any) -> World:
    """The world of this name as pure functions, for example `make_world("lending", horizon=10_000)`."""
    return get_entry(name).make(**parameters)


def make_env(world: str, *, render_mode: str | None = None, **parameters: Any) -> WorldEnv:
    """One copy of the world of this name, for `gymnasium.make`."""
    entry = get_entry(world)
    return WorldEnv(entry.make(**parameters), render_mode=render_mode, draw=entry.drawing(render_mode))


def make_vector_env(
    world: str, num_envs: int, *, render_mode: str | None = None, autoreset_mode: Any = "NextStep", **parameters: Any
) -> WorldVectorEnv:
    """Many copies of the world of this name, compiled together, for `gymnasium.make_vec`."""
    entry = get_entry(world)
    made, draw = entry.make(**parameters), entry.drawing(render_mode)
    return WorldVectorEnv(made, num_envs, autoreset_mode=autoreset_mode, render_mode=render_mode, draw=draw)


def describe(entry: Entry) -> dict[str, Any]:
    """A named world in words and numbers, ready for JSON."""
    world = entry.make()
    return {
        "name": entry.name,
        "id": entry.id,
        "summary": entry.summary,
        "groups": world.groups,
        "actions": _space(world.action_space),
        "observations": _space(world.observation_space),
        "horizon": int(world.horizon),
        "notion": world.benefit.name,
        "rates": [criterion.name for criterion in world.benefit.criteria],
        "parameters": [
            {**parameter._asdict(), "default": _described(parameter.default, parameter.name)}
            for parameter in entry.parameters()
        ],
    }


def _described(default: Any, name: str) -> Any:
    """A default as JSON can hold it, in words where a file could not store it."""
    try:
        return plain_parameters({name: default})[name]
    except InvalidInputError:
        return repr(default)


def _space(space: gymnasium.Space[Any]) -> str:
    if isinstance(space, gymnasium.spaces.Discrete):
        return f"{space.n} choices"
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return f"{' x '.join(map(str, space.nvec.ravel()))} choices"
    assert isinstance(space, gymnasium.spaces.Box)
    low, high = f"{space.low.min():g}", f"{space.high.max():g}"
    return f"{' x '.join(map(str, space.shape))} in [{low}, {high}{')' if high == 'inf' else ']'}"
