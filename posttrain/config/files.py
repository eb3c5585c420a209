"""The files of a recipe: the one that was asked for, and all that it inherits from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from posttrain.config.text import Layer, Leaf, parse_file
from posttrain.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Sequence


def read_files(path: Path) -> list[Layer]:
    """The layers of a file and of all it inherits from, ancestors first, each file once.

    Raises:
        RecipeError: a file cannot be read, or inherits from itself.
    """
    layers: dict[Path, Layer] = {}
    chain: list[Path] = []

    def visit(file: Path, wanted_by: str) -> None:
        identity = file.resolve()
        if identity in chain:
            circle = " -> ".join(step.name for step in [*chain[chain.index(identity) :], identity])
            raise RecipeError(
                f"inherit from {file} ({wanted_by})",
                f"a circle: {circle}",
                "remove one of these defaults",
            )
        if identity in layers:
            return
        layer = parse_file(_read(file, wanted_by), str(file))
        chain.append(identity)
        for name in names(layer.defaults, "inherit"):
            visit(Path(os.path.normpath(file.parent / name)), layer.defaults.origin)
        chain.pop()
        layers[identity] = layer

    visit(path, "command line")
    return list(layers.values())


def names(said: Leaf, doing: str) -> Sequence[str]:
    """The names that a file gives for one of its own words, one or a list.

    Raises:
        RecipeError: something else stands there.
    """
    found = [said.value] if isinstance(said.value, str) else said.value
    if not isinstance(found, list) or not all(isinstance(name, str) and name for name in found):
        raise RecipeError(
            f"{doing} at {said.origin}", f"{said.value!r}", "give one name or a list of names"
        )
    return found


def _read(file: Path, wanted_by: str) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"not UTF-8 text: {error}"
        raise RecipeError(
            f"read the recipe {file} (asked for by {wanted_by})",
            str(reason),
            "give the path of a YAML file; defaults are relative to the file that names them",
        ) from error
