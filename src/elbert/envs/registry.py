"""The worlds by name, and what their parameters mean."""

import difflib
import inspect
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import gymnasium

from elbert.envs.attention import Attention
from elbert.envs.infectious import Infectious
from elbert.envs.lending import Lending
from elbert.envs.world import World
from elbert.errors import InvalidInputError


class Parameter(NamedTuple):
    """One parameter of a world."""

    name: str
    default: Any
    meaning: str


class Entry(NamedTuple):
    """A named world: a class and the parameters that make it this one."""

    name: str  # for people and the command line
    id: str  # for gymnasium.make
    world: type[World]
    settings: dict[str, Any]  # parameters that differ from the class's defaults
    summary: str

    def make(self, **parameters: Any) -> World:
        """The world with these parameters; an unknown one is refused with the nearest known."""
        known = [parameter.name for parameter in self.parameters()]
        for name in parameters:
            if name not in known:
                near = ["horizon"] if name == "max_episode_steps" else difflib.get_close_matches(name, known, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise InvalidInputError(f"{self.name} has no parameter {name!r}.{hint} It has: {', '.join(known)}.")
        return self.world(**(self.settings | parameters))

    def parameters(self) -> list[Parameter]:
        """Every parameter with its default in this world and its meaning."""
        hints = get_type_hints(self.world.__init__, include_extras=True)
        return [
            Parameter(name, self.settings.get(name, parameter.default), _meaning(hints[name]))
            for name, parameter in inspect.signature(self.world.__init__).parameters.items()
            if name != "self"
        ]


ENTRIES = {
    entry.name: entry
    for entry in (
        Entry(
            "lending",
            "elbert/Lending-v0",
            Lending,
            {},
            "A bank accepts or rejects loan applicants; loans repaid and defaulted move the groups' scores.",
        ),
        Entry(
            "infectious",
            "elbert/Infectious-v0",
            Infectious,
            {},
            "A health service vaccinates one person a step while a disease spreads in a social network.",
        ),
        Entry(
            "infectious-harder",
            "elbert/InfectiousHarder-v0",
            Infectious,
            {"waning": 0.2},
            "As infectious, but immunity is lost: recovered and vaccinated people become susceptible again.",
        ),
        Entry(
            "attention",
            "elbert/Attention-v0",
            Attention,
            {},
            "Units of attention go to sites with incidents; sites without attention get worse.",
        ),
        Entry(
            "attention-harder",
            "elbert/AttentionHarder-v0",
            Attention,
            {
                "initial_rates": (30.0, 25.0, 22.5, 17.5, 12.5),
                "fall": (0.004, 0.01, 0.016, 0.02, 0.04),
                "growth": (0.08, 0.2, 0.4, 0.8, 2.0),
                "units": 30,
                "reward_found": 0.0,
            },
            "As attention, with more units, unequal sites that fall slowly and grow quickly, and only misses counted.",
        ),
    )
}
"""The paper's five environments."""


def get_entry(name: str) -> Entry:
    """The entry of this name or Gymnasium id; an unknown one is refused with the nearest known."""
    for entry in ENTRIES.values():
        if name in (entry.name, entry.id):
            return entry
    near = difflib.get_close_matches(str(name).lower(), ENTRIES, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InvalidInputError(f"No environment is called {name!r}.{hint} Known: {', '.join(ENTRIES)}.")


def make_world(name: str, **parameters: Any) -> World:
    """The world of this name as pure functions, for example `make_world("lending", horizon=10_000)`."""
    return get_entry(name).make(**parameters)


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
        "parameters": [parameter._asdict() for parameter in entry.parameters()],
    }


def _space(space: gymnasium.Space[Any]) -> str:
    if isinstance(space, gymnasium.spaces.Discrete):
        return f"{space.n} choices"
    assert isinstance(space, gymnasium.spaces.Box)
    low, high = f"{space.low.min():g}", f"{space.high.max():g}"
    return f"{space.shape[0]} in [{low}, {high}{')' if high == 'inf' else ']'}"


def _meaning(hint: Any) -> str:
    """The text beside a parameter's type."""
    return get_args(hint)[1] if get_origin(hint) is Annotated else ""
