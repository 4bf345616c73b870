"""The settings really in use, and where each comes from: for `elbert presets` and the documentation."""

from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass
from typing import Any

from elbert.envs import ENTRIES, get_entry
from elbert.errors import InvalidInputError
from elbert.experiments.evaluate import Protocol, protocol_for
from elbert.experiments.presets import OWN, layers_of, preset_for
from elbert.experiments.resolve import fitted, horizon_of
from elbert.learning import METHODS, Method, Settings, get_method
from elbert.learning.settings import plain_settings

DEFAULT = "default"


@dataclass(frozen=True)
class InUse:
    """One setting."""

    name: str
    value: Any  # plain, ready for JSON; None where there is none
    source: str  # "default", or where it stands: "fast, [lending]", "fast, [own]: auto", "entry of queue"
    meaning: str


@dataclass(frozen=True)
class SettingsInUse:
    """What a training of a method in an environment uses if nothing else is given."""

    env: str
    method: str
    preset: str
    settings: tuple[InUse, ...]  # the method's first, then the learner's
    world: tuple[InUse, ...]  # parameters of the world that differ in training
    evaluation: Protocol  # by which the trained policy is judged
    needs: str  # what has to be given; empty if nothing

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self) | {"evaluation": self.evaluation._asdict()}


def settings_in_use(env: str, method: str = "elbert-po", preset: str = "fast") -> SettingsInUse:
    """The settings of a method in an environment, a world's name or "own" for users' environments."""
    name = env if env == OWN else get_entry(env).name
    kind = get_method(method)
    layers, base = layers_of(preset, name, kind), preset_for(preset, name, kind)
    described = {**kind.settings(), **Settings.settings()}
    fits = fitted(base, {}, None if name == OWN else horizon_of(name, base.world))
    adapted = kind.adapted(fits).to_dict()
    values = plain_settings(adapted | dict(base.method))
    sources = {key: layer.source for layer in layers.settings for key in layer.entries}
    sources |= {key: f"{sources[key]}: auto" for key in base.fits}
    sources |= {key: kind.name for key, value in fits.to_dict().items() if value != adapted[key]}
    rows = []
    for key, setting in described.items():
        default = None if setting.default is MISSING else plain_settings({key: setting.default})[key]
        rows.append(InUse(key, values.get(key, default), sources.get(key, DEFAULT), setting.meaning))
    meanings = {each.name: each.meaning for each in ENTRIES[name].parameters()} if name in ENTRIES else {}
    world = (InUse(key, value, layers.world.source, meanings.get(key, "")) for key, value in base.world.items())
    return SettingsInUse(
        env=name,
        method=kind.name,
        preset=str(preset),
        settings=tuple(rows),
        world=tuple(world),
        evaluation=protocol_for("default", name),
        needs=_needs(kind, base.method),
    )


def _needs(kind: type[Method], preset: dict[str, Any]) -> str:
    try:
        kind.check_given({}, preset)
    except InvalidInputError as error:
        return str(error)
    return ""


def overview(preset: str = "fast", envs: Sequence[str] | None = None) -> dict[str, dict[str, InUse]]:
    """What a preset sets anywhere, by setting ("elbert-po: alpha" for a method's), then by environment."""
    rows: dict[str, dict[str, InUse]] = {}
    for env in (*ENTRIES, OWN) if envs is None else envs:
        for method, kind in METHODS.items():
            used = settings_in_use(env, method, preset)
            for each in used.settings:
                own = each.name in kind.settings()
                refused = own and used.needs and each.source == DEFAULT
                if not refused and each.source != method:  # what a method adapts is not the preset's
                    rows.setdefault(f"{method}: {each.name}" if own else each.name, {})[env] = each
            for each in used.world:
                rows.setdefault(f"world: {each.name}", {})[env] = each
    order = sorted(rows, key=lambda name: (":" in name, name.startswith("world: ")))
    return {name: rows[name] for name in order if any(each.source != DEFAULT for each in rows[name].values())}
