"""The keys of a schema: what each takes and which entry points honour it."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A section of a recipe.

    Numbers must be finite, and text is never taken for a number nor a boolean for an integer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


@dataclass(frozen=True)
class HonouredBy:
    """Annotation of a field that only some entry points read; the default is all of them."""

    entry_points: tuple[str, ...]


def honoured_by(*entry_points: str) -> HonouredBy:
    """Mark a field of a schema.

    A whole section can be marked: ``capture: Annotated[Capture | None, honoured_by("x")] = None``.
    """
    return HonouredBy(entry_points)


@dataclass(frozen=True)
class Key:
    """One key that takes a value.

    Attributes:
        path: dotted path.
        takes: the accepted values, in words.
        meaning: what the value decides.
        honoured_by: the entry points that read it; empty for all.
    """

    path: str
    takes: str
    meaning: str
    honoured_by: tuple[str, ...]

    def honoured(self, entry: str) -> bool:
        """Whether the entry point reads this key."""
        return not self.honoured_by or entry in self.honoured_by


_WORDS = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`"}
_BOUNDS = {
    "gt": "above",
    "ge": "at least",
    "lt": "below",
    "le": "at most",
    "multiple_of": "a multiple of",
}


def schema_keys(
    schema: type[Section], prefix: str = "", honoured: tuple[str, ...] = ()
) -> dict[str, Key]:
    """Every key of the schema by dotted path, in the schema's order."""
    keys: dict[str, Key] = {}
    for name, field in schema.model_fields.items():
        path = prefix + name
        marks = [mark for mark in field.metadata if isinstance(mark, HonouredBy)]
        readers = marks[0].entry_points if marks else honoured
        inner = _section(field.annotation)
        if inner is None:
            takes = _takes(field.annotation, field.metadata)
            keys[path] = Key(path, takes, field.description or "", readers)
        else:
            keys |= schema_keys(inner, f"{path}.", readers)
    return keys


def table(keys: dict[str, Key]) -> str:
    """The keys as a Markdown table, for docs/recipes.md."""
    rows = [f"| `{key.path}` | {key.takes} | {key.meaning} |" for key in keys.values()]
    return "\n".join(["| key | takes | meaning |", "|---|---|---|", *rows]) + "\n"


def _section(annotation: Any) -> type[Section] | None:
    candidates = typing.get_args(annotation) or (annotation,)
    for candidate in candidates:
        if isinstance(candidate, type) and issubclass(candidate, Section):
            return candidate
    return None


def _takes(annotation: Any, metadata: list[Any]) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        words = " or ".join(f"`{argument}`" for argument in arguments)
    elif origin is typing.Annotated:
        inner = [mark for field in arguments[1:] for mark in getattr(field, "metadata", [field])]
        words = _takes(arguments[0], inner)
    elif origin in {types.UnionType, typing.Union}:
        words = " or ".join(_takes(argument, []) for argument in arguments)
    elif origin is tuple:
        words = "list: " + _items(arguments)
    elif annotation is types.NoneType:
        words = "`null`"
    else:
        words = _WORDS[annotation]
    bounds = [
        f"{word} {getattr(mark, bound):g}"
        for mark in metadata
        for bound, word in _BOUNDS.items()
        if getattr(mark, bound, None) is not None
    ]
    return ", ".join([words, *bounds])


def _items(arguments: tuple[Any, ...]) -> str:
    if arguments[-1] is Ellipsis:
        return f"any number of ({_takes(arguments[0], [])})"
    return f"{len(arguments)} of ({_takes(arguments[0], [])})"
