"""Every value of a loaded recipe with its origin, as a recipe of its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from posttrain.config.text import format_value

if TYPE_CHECKING:
    from posttrain.config.keys import Section
    from posttrain.config.load import Loaded, Value

_DOLLAR = re.compile(r"(\\*)\$\{")


def explain(loaded: Loaded[Section]) -> str:
    """The recipe as YAML, each value followed by a comment that says where it came from.

    Loading the text again gives an equal recipe.
    """
    lines = []
    open_sections: list[str] = []
    for value in loaded.values:
        *sections, name = value.path.split(".")
        shared = 0
        while shared < len(sections) and sections[: shared + 1] == open_sections[: shared + 1]:
            shared += 1
        lines += [
            ("  " * depth + f"{sections[depth]}:", "") for depth in range(shared, len(sections))
        ]
        open_sections = sections
        entry = "  " * len(sections) + f"{name}: {format_value(literal(value.value))}"
        lines.append((entry, _comment(value)))
    return "".join(f"{text}  # {note}\n" if note else f"{text}\n" for text, note in lines)


def literal(value: Any) -> Any:
    """``value`` as it must be written so that no part of it is taken for an interpolation."""
    if isinstance(value, tuple):
        return [literal(item) for item in value]
    return _DOLLAR.sub(r"\1\1\\${", value) if isinstance(value, str) else value


def _comment(value: Value) -> str:
    written = format_value(value.written)
    return f"{value.origin}, written {written}" if "${" in written else value.origin
