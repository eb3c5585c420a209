"""Load a recipe: its files, then the command line, merged, interpolated, checked.

Nothing is guessed: a key that is unknown, that the entry point would ignore, or that is still
missing at the end is an error, and all problems of one kind are told at once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError

from posttrain.config.keys import Key, Section, schema_keys
from posttrain.config.schema import Recipe
from posttrain.config.text import (
    MISSING,
    Leaf,
    Leaves,
    format_value,
    parse_file,
    parse_override,
)
from posttrain.errors import RecipeError
from posttrain.nearest import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

S = TypeVar("S", bound=Section)
S_co = TypeVar("S_co", bound=Section, covariant=True)


@dataclass(frozen=True)
class Value:
    """One value of a loaded recipe.

    Attributes:
        path: dotted path.
        value: after interpolation; lists are tuples.
        written: as it stands at its origin.
        origin: ``file:line``, or ``command line``.
    """

    path: str
    value: Any
    written: Any
    origin: str


@dataclass(frozen=True)
class Loaded(Generic[S_co]):
    """A checked recipe, and where each of its values came from, in the schema's order."""

    recipe: S_co
    values: tuple[Value, ...]


def load_recipe(path: Path, overrides: Sequence[str] = (), entry: str = "train") -> Loaded[Recipe]:
    """Load the recipe at ``path`` for an entry point.

    Args:
        path: the recipe file.
        overrides: ``key.path=value`` arguments; later ones win.
        entry: the entry point that will read the recipe.

    Raises:
        RecipeError: naming what was asked, what was found with ``file:line``, and what to do.
    """
    return load_schema(Recipe, path, overrides, entry)


def load_schema(
    schema: type[S], path: Path, overrides: Sequence[str] = (), entry: str = "train"
) -> Loaded[S]:
    """Load a recipe of any schema, as :func:`load_recipe`."""
    asked = f"load the recipe {path} for {entry!r}"
    keys = schema_keys(schema)
    layers = [*_files(path), *(parse_override(argument).leaves for argument in overrides)]
    _refuse(asked, [problem for layer in layers for problem in _misplaced(layer, keys, entry)])
    leaves = merge(layers)
    wanted = [key.path for key in keys.values() if key.honoured(entry)]
    _refuse(asked, _missing(wanted, leaves), "give them in the recipe or as key.path=value")
    resolved = _interpolate(asked, leaves)
    try:
        recipe = schema.model_validate(_nest(resolved))
    except ValidationError as error:
        problems = [_invalid(detail, keys, resolved, leaves) for detail in error.errors()]
        _refuse(asked, problems)
        raise
    values = (Value(p, resolved[p], leaves[p].value, leaves[p].origin) for p in wanted)
    return Loaded(recipe, tuple(values))


def merge(layers: Iterable[Leaves]) -> Leaves:
    """Merge layers key by key: a later one wins, except that ``???`` never hides a value.

    Lists are replaced as a whole. The operation is associative, with no leaves as its identity.
    """
    merged: Leaves = {}
    for layer in layers:
        for path, leaf in layer.items():
            if leaf.value != MISSING or path not in merged:
                merged[path] = leaf
    return merged


def _files(path: Path) -> list[Leaves]:
    """The leaves of a file and of all it inherits from, ancestors first, each file once."""
    layers: dict[Path, Leaves] = {}
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
        for name in _default_names(layer.defaults):
            visit(Path(os.path.normpath(file.parent / name)), layer.defaults.origin)
        chain.pop()
        layers[identity] = layer.leaves

    visit(path, "command line")
    return list(layers.values())


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


def _default_names(defaults: Leaf) -> list[str]:
    names = [defaults.value] if isinstance(defaults.value, str) else defaults.value
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise RecipeError(
            f"inherit at {defaults.origin}",
            f"defaults: {defaults.value!r}",
            "give one file name or a list of file names",
        )
    return names


def _misplaced(layer: Leaves, keys: Mapping[str, Key], entry: str) -> list[str]:
    problems = []
    for path, leaf in layer.items():
        if path not in keys:
            problems.append(f"{path}: {_unknown(path, keys)} ({leaf.origin})")
        elif not keys[path].honoured(entry):
            readers = ", ".join(repr(reader) for reader in keys[path].honoured_by)
            problems.append(
                f"{path}: {entry!r} would ignore it; honoured by {readers} ({leaf.origin})"
            )
    return problems


def _unknown(path: str, keys: Mapping[str, Key]) -> str:
    if any(known.startswith(f"{path}.") for known in keys):
        return "a value where a section is expected; give it indented keys"
    parts = path.split(".")
    for end in range(1, len(parts)):
        if ".".join(parts[:end]) in keys:
            return f"unknown key; {'.'.join(parts[:end])!r} is a value, not a section"
    elsewhere = [known for known in keys if known.split(".")[-1] == parts[-1]]
    if elsewhere:
        return f"unknown key; did you mean {elsewhere[0]!r}?"
    # The deepest section that exists is where the misspelling is.
    for end in range(len(parts) - 1, -1, -1):
        section = "".join(f"{part}." for part in parts[:end])
        siblings = {k.removeprefix(section).split(".")[0] for k in keys if k.startswith(section)}
        if siblings:
            return f"unknown key; {nearest(parts[end], siblings)}"
    return "unknown key"


def _missing(wanted: list[str], leaves: Leaves) -> list[str]:
    problems = []
    for path in wanted:
        if path not in leaves:
            problems.append(f"{path}: missing (nowhere set)")
        elif leaves[path].value == MISSING:
            problems.append(f"{path}: missing (mandatory at {leaves[path].origin})")
    return problems


def _interpolate(asked: str, leaves: Leaves) -> dict[str, Any]:
    try:
        config = OmegaConf.create(_nest({path: leaf.value for path, leaf in leaves.items()}))
        nested = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        path = str(error.full_key or "").split("[", maxsplit=1)[0]
        where = f"{path}: " if path else ""
        origin = f" ({leaves[path].origin})" if path in leaves else ""
        problem = f"{where}{str(error).splitlines()[0]}{origin}"
        raise RecipeError(
            asked, problem, "refer to keys that have a value, as ${section.key}"
        ) from error
    return {path: _tuples(_at(nested, path)) for path in leaves}


def _at(nested: Any, path: str) -> Any:
    for part in path.split("."):
        nested = nested[part]
    return nested


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for path, value in flat.items():
        *sections, name = path.split(".")
        table = nested
        for section in sections:
            table = cast("dict[str, Any]", table.setdefault(section, {}))
        table[name] = value
    return nested


def _tuples(value: Any) -> Any:
    """Lists as tuples: recipes are frozen, and strict validation takes no list for a tuple."""
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _invalid(
    detail: Any, keys: Mapping[str, Key], resolved: Mapping[str, Any], leaves: Leaves
) -> str:
    parts = [str(part) for part in detail["loc"]]
    if "key" in detail.get("ctx", {}):
        parts.append(str(detail["ctx"]["key"]))
    where = ".".join(parts)
    # A problem inside a list is placed at the list.
    while parts and ".".join(parts) not in leaves:
        parts.pop()
    path = ".".join(parts)
    if not path:
        return f"{where}: {detail['msg']}"
    value = list(resolved[path]) if isinstance(resolved[path], tuple) else resolved[path]
    rule = detail["msg"] if detail["type"] == "recipe" else f"takes {keys[path].takes}"
    quote = " (quote it)" if rule == "takes text" and not isinstance(value, str) else ""
    return f"{where}: {rule}; found {format_value(value)}{quote} ({leaves[path].origin})"


def _refuse(asked: str, problems: list[str], todo: str = "mend these keys") -> None:
    if problems:
        raise RecipeError(asked, "".join(f"\n    {problem}" for problem in problems), todo)
