"""Frozen dataclasses from JSON."""

import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from elbert.errors import InvalidInputError

Record = TypeVar("Record")


def record_from(kind: type[Record], content: Mapping[str, Any]) -> Record:
    """A record of this kind from a JSON object, whose entries are named as the fields; others are passed over.

    Fields are records, tuples, values as JSON has them, or None. The values are taken as they are: a digest, not this
    function, tells whether a file still holds what was written.
    """
    try:
        return _value(kind, content)
    except (KeyError, TypeError) as error:
        raise InvalidInputError(f"it holds no {kind.__name__} ({error}).") from error


def _value(kind: Any, value: Any) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):  # a type or None
        return None if value is None else _value(parts[0], value)
    if isinstance(kind, type) and is_dataclass(kind):
        return kind(**{name: _value(hint, value[name]) for name, hint in get_type_hints(kind).items() if name in value})
    if origin is tuple:
        return tuple(_value(parts[0], entry) for entry in value)  # whose entries are all of one type
    return value
