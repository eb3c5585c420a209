"""The keys of a schema: what each takes and which entry points honour it."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    """Mark a field of a schema: a key, or a whole section with all keys in it that have no mark.

    ``refit: Annotated[Refit, honoured_by("train")]`` makes its keys errors in recipes for other
    entry points, save in shared files. An entry point that does not honour a section's mandatory
    keys needs ``Refit | None`` and the default None.

    Raises:
        ValueError: no entry point is given; nobody would honour the key.
    """
    if not entry_points:
        raise ValueError("honoured_by() needs an entry point")
    return HonouredBy(entry_points)


@dataclass(frozen=True)
class Identity:
    """Annotation of a field that says which data or model a run is about.

    When it is inherited, that is shown where nobody can miss it: a child that meant to replace it
    is the mistake that costs most.
    """


IDENTITY = Identity()


@dataclass(frozen=True)
class Key:
    """One key that takes a value.

    Attributes:
        path: dotted path.
        takes: the accepted values, in words.
        meaning: what the value decides.
        honoured_by: the entry points that read it; empty for all.
        identity: whether it says which data or model a run is about.
    """

    path: str
    takes: str
    meaning: str
    honoured_by: tuple[str, ...]
    identity: bool

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
            identity = IDENTITY in field.metadata
            keys[path] = Key(path, takes, field.description or "", readers, identity)
        else:
            keys |= schema_keys(inner, f"{path}.", readers)
    return keys


def known_keys(
    schema: type[Section], entry: str, entry_points: Mapping[str, type[Section]]
) -> dict[str, Key]:
    """The keys of an entry point's schema, and those that only other entry points honour.

    Args:
        schema: what the entry point reads.
        entry: its name.
        entry_points: schemas by the name of the entry point that reads them.
    """
    own = schema_keys(schema)
    others: dict[str, Key] = {}
    for name, other in entry_points.items():
        for path, key in schema_keys(other).items() if name != entry else ():
            if path not in own and key.honoured(name):
                readers = others[path].honoured_by if path in others else ()
                others[path] = replace(key, honoured_by=(*readers, name))
    return own | others


def documented_keys(entry_points: Mapping[str, type[Section]]) -> dict[str, Key]:
    """Every key of every entry point, marked with its readers unless all of them read it."""
    keys: dict[str, Key] = {}
    readers: dict[str, tuple[str, ...]] = {}
    for name, schema in entry_points.items():
        for path, key in schema_keys(schema).items():
            keys.setdefault(path, key)
            if key.honoured(name):
                readers[path] = (*readers.get(path, ()), name)
    every = tuple(entry_points)
    return {
        path: replace(key, honoured_by=() if readers[path] == every else readers[path])
        for path, key in keys.items()
    }


def table(keys: dict[str, Key]) -> str:
    """The keys as a Markdown table, for docs/recipes.md."""
    rows = [
        f"| `{key.path}` | {key.takes} | {key.meaning} | {_readers(key)} |" for key in keys.values()
    ]
    head = ["| key | takes | meaning | honoured by |", "|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def _readers(key: Key) -> str:
    return ", ".join(f"`{entry}`" for entry in key.honoured_by) or "all"


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
