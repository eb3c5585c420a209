"""Layers of a recipe into one: later ones win, and lists are replaced or appended to by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from posttrain.config.text import MISSING, NOTHING, Appended, Leaf, Leaves, format_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# A list that is taken from another key.
_REFERENCE = re.compile(r"\$\{(?P<path>[A-Za-z_][\w.-]*)\}")


@dataclass(frozen=True)
class Item:
    """One item of a list, as it was written, and where the list that it came with was written."""

    written: Any
    origin: str


def merge(layers: Iterable[Leaves]) -> Leaves:
    """Merge layers key by key: a later value wins, and what is appended stays behind it.

    ``???`` never hides a value, nor what is appended to one. A list that is written without a plus
    replaces the one before it with all that was appended to it. The operation is associative, with
    no leaves as its identity; a layer merged with itself is itself unless it appends.
    """
    merged: Leaves = {}
    for layer in layers:
        for path, leaf in layer.items():
            merged[path] = _after(merged[path], leaf) if path in merged else leaf
    return merged


def decisive(path: str, layers: Sequence[Leaves]) -> int | None:
    """The place of the layer whose value the merged one begins with; None when nobody sets it."""
    for place in range(len(layers) - 1, -1, -1):
        leaf = layers[place].get(path)
        if leaf is not None and leaf.value is not NOTHING and leaf.value != MISSING:
            return place
    return None


def items(path: str, leaves: Mapping[str, Leaf]) -> list[Item]:
    """The items of a list that something is appended to, each with its origin.

    Raises:
        ValueError: what is appended, or what it is appended to, is no list.
    """
    return _items(path, leaves, ())


def _after(earlier: Leaf, later: Leaf) -> Leaf:
    if later.value is not NOTHING and later.value != MISSING:
        return later
    mark = earlier.value is NOTHING and later.value is not NOTHING
    head = later if mark else earlier
    return Leaf(head.value, head.origin, earlier.appended + later.appended)


def _items(path: str, leaves: Mapping[str, Leaf], seen: tuple[str, ...]) -> list[Item]:
    if path in seen:
        raise ValueError(f"{path}: a list that is taken from itself ({leaves[path].origin})")
    found: list[Item] = []
    parts: list[Leaf | Appended] = [leaves[path], *leaves[path].appended]
    for part in parts:
        reference = _REFERENCE.fullmatch(part.value) if isinstance(part.value, str) else None
        if isinstance(part.value, list):
            found += [Item(item, part.origin) for item in part.value]
        elif reference and reference["path"] in leaves:
            taken = _items(reference["path"], leaves, (*seen, path))
            found += [Item(item.written, f"{part.origin}, {part.value}") for item in taken]
        else:
            raise ValueError(
                f"{path}: {format_value(part.value)} is no list, but something is appended"
                f" ({part.origin})"
            )
    return found
