"""For the API pages: the comment at the end of a field's line is the field's documentation.

Fields of records carry their shape and meaning there, next to the type, where a reader of the source looks for it.
"""

from __future__ import annotations

import ast
from typing import Any

import griffe


class TrailingComments(griffe.Extension):
    """Turns `reward: Array  # [T, N] per step` into a documented attribute."""

    def on_attribute_instance(
        self, *, node: ast.AST | griffe.ObjectNode, attr: griffe.Attribute, **kwargs: Any
    ) -> None:
        """Take the comment where there is no docstring."""
        del kwargs
        if attr.docstring is not None or not isinstance(node, ast.AnnAssign) or attr.lineno is None:
            return
        line = attr.lines_collection[attr.filepath][(attr.endlineno or attr.lineno) - 1]  # type: ignore[index]
        _, mark, comment = line.partition("  # ")
        if mark:
            attr.docstring = griffe.Docstring(comment.strip(), lineno=attr.lineno, parent=attr)
