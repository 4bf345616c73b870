"""Frozen dataclasses from JSON: each entry is checked for its type, and one that does not fit is refused by name."""

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from elbert.errors import InvalidInputError

Record = TypeVar("Record")
SIMPLE = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}


def record_from(kind: type[Record], content: Any, where: str = "it") -> Record:
    """A record of this kind from a JSON object, whose entries are named as the fields; other entries are passed over.

    Fields are text, numbers, truth values, literals, records, tuples of them, or None; messages call it `where`.
    """
    if not isinstance(content, Mapping):
        raise InvalidInputError(f"{where} is not a JSON object.")
    hints = get_type_hints(kind)
    entries = fields(kind)  # pyright: ignore[reportArgumentType]
    needed = [entry.name for entry in entries if entry.default is MISSING and entry.default_factory is MISSING]
    missing = [name for name in needed if name not in content]
    if missing:
        raise InvalidInputError(f"{where} lacks {', '.join(missing)}.")
    inside = "" if where == "it" else f"{where}."
    return kind(
        **{
            entry.name: _value_from(hints[entry.name], content[entry.name], f"{inside}{entry.name}")
            for entry in entries
            if entry.name in content
        }
    )


def _value_from(kind: Any, value: Any, where: str) -> Any:
    """A value of a field's type."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):  # a type or None
        return None if value is None else _value_from(parts[0], value, where)
    if is_dataclass(kind):
        return record_from(kind, value, where)  # pyright: ignore[reportArgumentType]
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise InvalidInputError(f"{where} is not a list.")
        kinds = [parts[0]] * len(value) if parts[-1] is Ellipsis else parts
        if len(kinds) != len(value):
            raise InvalidInputError(f"{where} has {len(value)} entries, not {len(kinds)}.")
        each = zip(kinds, value, strict=True)
        return tuple(_value_from(part, entry, f"{where}[{i}]") for i, (part, entry) in enumerate(each))
    if origin is Literal:
        if value not in parts:
            raise InvalidInputError(f"{where} is {value!r}, not one of {', '.join(map(repr, parts))}.")
        return value
    fits = type(value) is kind or (kind is float and type(value) is int)
    if not fits or (type(value) is float and not math.isfinite(value)):
        raise InvalidInputError(f"{where} is {value!r}, not {SIMPLE[kind]}.")
    return value
