"""The worlds' Gymnasium ids, which `gymnasium.make` knows after `import elbert`, whichever was imported first.

Importing `elbert` must stay quick, so it imports neither Gymnasium nor JAX. The ids are registered at once if Gymnasium
is there, and otherwise while somebody imports it. The worlds themselves are imported when one is made.
"""

import sys
from typing import Any

IDS = {
    "lending": "elbert/Lending-v0",
    "infectious": "elbert/Infectious-v0",
    "infectious-harder": "elbert/InfectiousHarder-v0",
    "attention": "elbert/Attention-v0",
    "attention-harder": "elbert/AttentionHarder-v0",
    "patrol": "elbert/Patrol-v0",
    "admission": "elbert/Admission-v0",
    "credit": "elbert/Credit-v0",
    "waiting-list": "elbert/WaitingList-v0",
}
"""Name -> Gymnasium id of the package's worlds."""


def register_id(gymnasium: Any, name: str, identifier: str) -> None:
    """Make the world of this name known under an id. `gymnasium`: the package, or its module of registration."""
    gymnasium.register(
        identifier,
        entry_point="elbert.envs.registry:make_env",
        vector_entry_point="elbert.envs.registry:make_vector_env",
        kwargs={"world": name},
    )


class _GymnasiumWatcher:
    """A finder that finds nothing: it registers the ids when Gymnasium, once its registry is loaded, imports more."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """Called by Python for every module that is about to be imported."""
        del path, target
        if fullname.startswith("gymnasium."):
            register_ids()


def register_ids() -> None:
    """Register all ids if Gymnasium's registry is loaded; what is there already stays."""
    registration = sys.modules.get("gymnasium.envs.registration")
    if registration is not None and hasattr(registration, "register"):  # false while its own imports run
        for name, identifier in IDS.items():
            if identifier not in registration.registry:
                register_id(registration, name, identifier)


def register_now_or_later() -> None:
    """Register all ids, or wait for somebody to import Gymnasium."""
    register_ids()
    if "gymnasium" not in sys.modules:
        sys.meta_path.insert(0, _GymnasiumWatcher())
