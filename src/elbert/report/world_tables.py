"""The worlds as tables for the terminal."""

from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text


def listing(worlds: list[dict[str, Any]]) -> RenderableType:
    """All worlds, one row each."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "groups", "actions", "horizon", "notion", "Gymnasium id"):
        fixed = column in ("name", "groups", "horizon")  # the others fold on a narrow terminal
        table.add_column(
            column, justify="right" if column in ("groups", "horizon") else "left", no_wrap=fixed, overflow="fold"
        )
    for world in worlds:
        row = (world["name"], world["groups"], world["actions"], world["horizon"], world["notion"], world["id"])
        table.add_row(*(escape(str(cell)) for cell in row))
    return Group(table, Text("\nelbert envs NAME describes one with its parameters."))


def description(world: dict[str, Any]) -> RenderableType:
    """One world with its parameters."""
    facts = Table(box=None, pad_edge=False, show_header=False)
    for name in ("summary", "groups", "actions", "observations", "horizon", "notion", "rates"):
        value = ", ".join(world[name]) if name == "rates" else world[name]
        facts.add_row(f"[bold]{name}[/bold]", escape(str(value)))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("parameter", "default", "meaning"):
        table.add_column(column, overflow="fold")
    for parameter in world["parameters"]:
        table.add_row(
            *(escape(text) for text in (parameter["name"], _value(parameter["default"]), parameter["meaning"]))
        )
    return Group(Text(f"{world['name']}  ({world['id']})\n", style="bold"), facts, Text(""), table)


def _value(value: Any) -> str:
    """A default as it is typed, rows of numbers in short."""
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return "\n".join(_value(row) for row in value)
    if isinstance(value, tuple):
        return ", ".join(f"{number:g}" for number in value)
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
