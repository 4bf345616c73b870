"""The worlds as tables."""

from typing import Any

from elbert.tables import Column, Page, Table, columns, facts


def listing(worlds: list[dict[str, Any]]) -> Page:
    """All worlds, one row each; what is long folds on a narrow terminal."""
    shown = (Column("name"), Column("groups", right=True), Column("actions", folds=True))
    shown += (Column("horizon", right=True), *columns("notion", "Gymnasium id", folds=True))
    keys = ("name", "groups", "actions", "horizon", "notion", "id")
    rows = tuple(tuple(str(world[key]) for key in keys) for world in worlds)
    return Page((Table(shown, rows, ruled=False), "\nelbert envs NAME describes one with its parameters."))


def description(world: dict[str, Any]) -> Page:
    """One world with its parameters."""
    names = ("summary", "groups", "actions", "observations", "horizon", "notion", "rates")
    about = facts([(name, ", ".join(world[name]) if name == "rates" else str(world[name])) for name in names])
    rows = tuple((each["name"], _value(each["default"]), each["meaning"]) for each in world["parameters"])
    shown = columns("parameter", "default", "meaning", folds=True)
    return Page((f"# {world['name']}  ({world['id']})\n", about, "", Table(shown, rows, ruled=False)))


def _value(value: Any) -> str:
    """A default as it is typed; a table of numbers has a line for each row."""
    if isinstance(value, list | tuple):
        between = "\n" if value and isinstance(value[0], list | tuple) else ", "
        return between.join(_value(entry) for entry in value)
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
