"""The worlds under their Gymnasium ids: `import elbert`, then `gymnasium.make("elbert/Lending-v0", horizon=10_000)`.

Importing `elbert` must stay quick, so it does not import Gymnasium for those who do not use it: the ids are registered
at once if Gymnasium is there already, and otherwise as soon as somebody imports it.
"""

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from elbert.envs import WorldEnv, WorldVectorEnv

IDS = {
    "elbert/Lending-v0": "lending",
    "elbert/Infectious-v0": "infectious",
    "elbert/InfectiousHarder-v0": "infectious-harder",
    "elbert/Attention-v0": "attention",
    "elbert/AttentionHarder-v0": "attention-harder",
}
"""Gymnasium id -> name of the world, the same as in `elbert.envs.ENTRIES`."""


def make_env(world: str, *, render_mode: str | None = None, **parameters: Any) -> "WorldEnv":
    """One copy of the world of this name, for `gymnasium.make`."""
    from elbert.envs import WorldEnv, get_entry

    return WorldEnv(get_entry(world).make(**parameters), render_mode=render_mode, draw=_drawing(render_mode))


def make_vector_env(
    world: str,
    num_envs: int,
    *,
    render_mode: str | None = None,
    autoreset_mode: Any = "NextStep",
    **parameters: Any,
) -> "WorldVectorEnv":
    """Many copies of the world of this name, compiled together, for `gymnasium.make_vec`."""
    from elbert.envs import WorldVectorEnv, get_entry

    return WorldVectorEnv(
        get_entry(world).make(**parameters),
        num_envs,
        autoreset_mode=autoreset_mode,
        render_mode=render_mode,
        draw=_drawing(render_mode),
    )


def register() -> None:
    """Make the ids known to Gymnasium; a second time changes nothing."""
    import gymnasium

    for identifier, world in IDS.items():
        if identifier not in gymnasium.registry:
            gymnasium.register(
                identifier,
                entry_point="elbert.gym_ids:make_env",
                vector_entry_point="elbert.gym_ids:make_vector_env",
                kwargs={"world": world},
            )


def register_when_imported() -> None:
    """`register()`, now or when Gymnasium is imported."""
    if "gymnasium" in sys.modules:
        register()
    elif not any(isinstance(finder, _AfterGymnasium) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterGymnasium())


class _AfterGymnasium:
    """Lets Python find Gymnasium as ever, and registers the ids once it has been loaded.

    It stays until then: whoever only asks whether Gymnasium is installed finds it too, without loading it.
    """

    def __init__(self) -> None:
        self._asking = False

    def find_spec(
        self, fullname: str, path: "Sequence[str] | None", target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """The spec of Gymnasium with registration behind its loading; of nothing else."""
        del path, target
        if fullname != "gymnasium" or self._asking:
            return None
        self._asking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking = False
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_register(module: "ModuleType") -> None:
            load(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            register()

        spec.loader.exec_module = load_and_register
        return spec


def _drawing(render_mode: str | None) -> Any:
    """The function that draws, imported only where something is to be drawn."""
    if render_mode is None:
        return None
    from elbert.report.world_pictures import draw_world

    return draw_world
