"""What a recipe takes from the files that it inherits from, and what it must not take from them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from posttrain.config.files import names
from posttrain.config.merge import decisive
from posttrain.config.text import format_value
from posttrain.nearest import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posttrain.config.keys import Key
    from posttrain.config.text import Layer, Leaves

_REFERENCES = re.compile(r"\$\{([A-Za-z_][\w.-]*)\}")


def foreign(path: str, layers: Sequence[Leaves], merged: Leaves, place: int) -> bool:
    """Whether a layer before the one at ``place`` decided a value.

    What such a layer takes from other keys (``${data.train}``) is as foreign as those are. Of a
    list that is appended to, the one that it begins with counts.
    """
    return _foreign(path, layers, merged, place, ())


def unbound(
    layers: Sequence[Layer], honoured: Sequence[Leaves], merged: Leaves, keys: Mapping[str, Key]
) -> list[str]:
    """The values that a file binds and yet inherits, as problems with their origins.

    Args:
        layers: files and overrides.
        honoured: the leaves of each that count for the entry point.
        merged: all of them.
        keys: the schema's.
    """
    problems = []
    for place, layer in enumerate(layers):
        for name in names(layer.binds, "bind"):
            bound = _bound(name, keys)
            if not bound:
                near = nearest(name, [*keys, *_sections(keys)])
                problems.append(
                    f"binds {name}: no such key or section; {near} ({layer.binds.origin})"
                )
            for path in bound:
                if path in merged and foreign(path, honoured, merged, place):
                    leaf = merged[path]
                    problems.append(
                        f"{path}: bound at {layer.binds.origin}, but"
                        f" {format_value(leaf.value)} is inherited from {leaf.origin}"
                    )
    return problems


def _bound(name: str, keys: Mapping[str, Key]) -> list[str]:
    """The keys that a name stands for: of a section, those that say what the run is about."""
    if name in keys:
        return [name]
    inside = [path for path in keys if path.startswith(f"{name}.")]
    return [path for path in inside if keys[path].identity] or inside


def _sections(keys: Mapping[str, Key]) -> list[str]:
    return sorted({path.rsplit(".", 1)[0] for path in keys if "." in path})


def _foreign(
    path: str, layers: Sequence[Leaves], merged: Leaves, place: int, seen: tuple[str, ...]
) -> bool:
    by = decisive(path, layers)
    if by is None or by >= place:
        return False
    referred = [other for other in _referred(merged[path].value) if other in merged]
    if not referred or path in seen:
        return True
    return any(_foreign(other, layers, merged, place, (*seen, path)) for other in referred)


def _referred(written: Any) -> list[str]:
    if isinstance(written, list):
        return [path for item in written for path in _referred(item)]
    return _REFERENCES.findall(written) if isinstance(written, str) else []
