"""What an environment says of itself: the names of its groups and rates, its notion of fairness, its parts.

Any environment, or any of its wrappers, may have the attributes `group_names` (a list of text), `notion` (a `Notion` or
its name), `criteria` (a list of text: what each rate is called, where there is no notion that says it) and `parts` (a
`Parts`: which numbers of its observation belong together).
"""

from typing import Any, NamedTuple

from elbert.envs.parts import Parts
from elbert.errors import InvalidInputError
from elbert.fairness.episode_totals import as_names
from elbert.fairness.notions import Notion, get_notion


class Names(NamedTuple):
    """The names of an environment's benefits."""

    criteria: tuple[str, ...]  # of the rates
    groups: tuple[str, ...] | None  # None: they have none, and are numbered where they are shown
    notion: Notion | None  # None: it is not known what supply and demand mean


def names_of(env: Any, criteria: int, groups: int) -> Names:
    """The names that a Gymnasium environment of this many criteria and groups declares, checked."""
    declared = {name: _declared(env, name) for name in ("group_names", "notion", "criteria")}
    notion = None if declared["notion"] is None else get_notion(declared["notion"])
    rates, called = declared["criteria"], declared["group_names"]
    if notion is not None and len(notion.criteria) != criteria:
        raise InvalidInputError(
            f"The environment's notion is {notion.name!r}, which has {len(notion.criteria)} criteria, but its supply "
            f"and demand have {criteria}. Set notion to None, or to the notion that they count by."
        )
    if notion is not None:
        rates = [criterion.name for criterion in notion.criteria]
    elif rates is None:
        rates = ["benefit rate"] if criteria == 1 else [f"criterion {c}" for c in range(criteria)]
    return Names(
        criteria=as_names(rates, criteria, "criteria"),
        groups=None if called is None else as_names(called, groups, "group_names"),
        notion=notion,
    )


def parts_of(env: Any) -> Parts | None:
    """The parts that a Gymnasium environment declares; whether they fit is asked where a policy scores them."""
    parts = _declared(env, "parts")
    return parts if isinstance(parts, Parts) else None  # an attribute of this name may be anything


def _declared(env: Any, name: str) -> Any:
    """An attribute of the outermost wrapper that has it, or of the environment, of several copies the first; or None.

    The copies of an asynchronous vector environment live in other processes: only its wrappers are asked.
    """
    while env is not None:
        if hasattr(env, name):
            return getattr(env, name)
        env = env.envs[0] if getattr(env, "envs", None) else getattr(env, "env", None)
    return None
