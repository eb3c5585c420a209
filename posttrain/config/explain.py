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

    It begins with what the run is about. Loading the text again gives an equal recipe.
    """
    lines = [(f"# {line}", "") for line in identity(loaded)]
    if lines:
        lines = [("# What this recipe is about:", ""), *lines, ("", "")]
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
        indent = "  " * len(sections)
        if value.items:
            lines.append((f"{indent}{name}:", ""))
            lines += [
                (
                    f"{indent}- {format_value(literal(item))}",
                    _comment(source.written, source.origin),
                )
                for item, source in zip(value.value, value.items, strict=True)
            ]
        else:
            entry = f"{indent}{name}: {format_value(literal(value.value))}"
            lines.append((entry, _comment(value.written, _origin(value))))
    return "".join(f"{text}  # {note}\n" if note else f"{text}\n" for text, note in lines)


def identity(loaded: Loaded[Section]) -> list[str]:
    """Which data and model the run is about, a line each, with what is inherited in capitals."""
    return [
        f"{value.path}: {format_value(value.value)}  # {_comment(value.written, _origin(value))}"
        for value in loaded.values
        if value.identity
    ]


def literal(value: Any) -> Any:
    """``value`` as it must be written so that no part of it is taken for an interpolation."""
    if isinstance(value, tuple):
        return [literal(item) for item in value]
    return _DOLLAR.sub(r"\1\1\\${", value) if isinstance(value, str) else value


def _origin(value: Value) -> str:
    # A child that meant to replace its parent's dataset must see that it did not.
    return f"INHERITED from {value.origin}" if value.identity and value.inherited else value.origin


def _comment(written: Any, origin: str) -> str:
    text = format_value(written)
    return f"{origin}, written {text}" if "${" in text else origin
