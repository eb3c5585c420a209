"""Load a recipe: its files, then the command line, merged, interpolated, checked.

Nothing is guessed: a key that is unknown, that the entry point would ignore, or that is still
missing at the end is an error, and all problems of one kind are told at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError

from posttrain.config.entries import ENTRY_POINTS
from posttrain.config.files import read_files
from posttrain.config.inherited import foreign, unbound
from posttrain.config.keys import Key, Section, known_keys
from posttrain.config.merge import Item, items, merge
from posttrain.config.text import MISSING, NOTHING, Leaves, format_value, parse_override
from posttrain.config.training import TrainRecipe
from posttrain.errors import RecipeError
from posttrain.nearest import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from posttrain.config.text import Layer

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
        items: of a list that something was appended to, each item's origin.
        inherited: whether another file than the one that was asked for decided it.
        identity: whether it says which data or model the run is about.
    """

    path: str
    value: Any
    written: Any
    origin: str
    items: tuple[Item, ...] = ()
    inherited: bool = False
    identity: bool = False


@dataclass(frozen=True)
class Loaded(Generic[S_co]):
    """A checked recipe, and where each of its values came from, in the schema's order."""

    recipe: S_co
    values: tuple[Value, ...]


def load_recipe(
    path: Path, overrides: Sequence[str] = (), entry: str = "train"
) -> Loaded[TrainRecipe]:
    """Load the recipe at ``path`` for an entry point that reads what ``train`` reads.

    Args:
        path: the recipe file.
        overrides: ``key.path=value`` and ``key.path+=[item]`` arguments; later ones win.
        entry: the entry point that will read the recipe.

    Raises:
        RecipeError: naming what was asked, what was found with ``file:line``, and what to do.
    """
    return load_schema(TrainRecipe, path, overrides, entry)


def load_schema(
    schema: type[S],
    path: Path,
    overrides: Sequence[str] = (),
    entry: str = "train",
    entry_points: Mapping[str, type[Section]] = ENTRY_POINTS,
) -> Loaded[S]:
    """Load a recipe of any schema, as :func:`load_recipe`.

    ``entry_points`` are the schemas whose keys are known, if not to this entry point.
    """
    asked = f"load the recipe {path} for {entry!r}"
    keys = known_keys(schema, entry, entry_points)
    files = read_files(path)
    layers = [*files, *(parse_override(argument) for argument in overrides)]
    _refuse(asked, [problem for layer in layers for problem in _misplaced(layer, keys, entry)])
    honoured = [_honoured(layer, keys, entry) for layer in layers]
    leaves = merge(honoured)
    wanted = [key.path for key in keys.values() if key.honoured(entry)]
    _refuse(asked, _missing(wanted, leaves), "give them in the recipe or as key.path=value")
    lists = _lists(asked, leaves)
    resolved = _interpolate(asked, leaves, lists)
    try:
        recipe = schema.model_validate(_nest(resolved))
    except ValidationError as error:
        problems = [_invalid(detail, keys, resolved, leaves, lists) for detail in error.errors()]
        _refuse(asked, problems)
        raise
    _refuse(
        asked,
        unbound(layers, honoured, leaves, keys),
        "set them in the file that binds them or on the command line, or bind less",
    )
    values = (
        Value(
            path=path,
            value=resolved[path],
            written=leaves[path].value,
            origin=leaves[path].origin,
            items=tuple(lists.get(path, ())),
            inherited=foreign(path, honoured, leaves, len(files) - 1),
            identity=keys[path].identity,
        )
        for path in wanted
    )
    return Loaded(recipe, tuple(values))


def _honoured(layer: Layer, keys: Mapping[str, Key], entry: str) -> Leaves:
    """The layer without what only a shared file may say: keys that the entry point ignores."""
    return {path: leaf for path, leaf in layer.leaves.items() if keys[path].honoured(entry)}


def _misplaced(layer: Layer, keys: Mapping[str, Key], entry: str) -> list[str]:
    problems = []
    if not isinstance(layer.shared.value, bool):
        found = format_value(layer.shared.value)
        problems.append(f"shared: takes `true` or `false`; found {found} ({layer.shared.origin})")
    own = [path for path, key in keys.items() if key.honoured(entry)]
    for path, leaf in layer.leaves.items():
        if path not in keys:
            problems.append(f"{path}: {_unknown(path, own)} ({leaf.origin})")
        elif layer.shared.value is not True and not keys[path].honoured(entry):
            readers = ", ".join(repr(reader) for reader in keys[path].honoured_by)
            problems.append(
                f"{path}: {entry!r} would ignore it; honoured by {readers} ({leaf.origin})"
            )
    return problems


def _unknown(path: str, keys: Sequence[str]) -> str:
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
        elif leaves[path].value is NOTHING:
            problems.append(f"{path}: missing (only appended to, at {leaves[path].origin})")
        elif leaves[path].value == MISSING:
            problems.append(f"{path}: missing (mandatory at {leaves[path].origin})")
    return problems


def _lists(asked: str, leaves: Leaves) -> dict[str, list[Item]]:
    """The items of each list that something is appended to, by path."""
    try:
        return {path: items(path, leaves) for path, leaf in leaves.items() if leaf.appended}
    except ValueError as error:
        raise RecipeError(asked, str(error), "append lists to lists") from error


def _interpolate(asked: str, leaves: Leaves, lists: Mapping[str, Sequence[Item]]) -> dict[str, Any]:
    raw = {path: leaf.value for path, leaf in leaves.items()}
    raw |= {path: [item.written for item in found] for path, found in lists.items()}
    try:
        config = OmegaConf.create(_nest(raw))
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
    detail: Any,
    keys: Mapping[str, Key],
    resolved: Mapping[str, Any],
    leaves: Leaves,
    lists: Mapping[str, Sequence[Item]],
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
    inside = where.removeprefix(f"{path}.").split(".")[0]
    place = int(inside) if inside.isdecimal() else -1
    found = lists.get(path, ())
    origin = found[place].origin if 0 <= place < len(found) else leaves[path].origin
    return f"{where}: {rule}; found {format_value(value)}{quote} ({origin})"


def _refuse(asked: str, problems: list[str], todo: str = "mend these keys") -> None:
    if problems:
        raise RecipeError(asked, "".join(f"\n    {problem}" for problem in problems), todo)
