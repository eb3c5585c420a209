"""One layer of a recipe: YAML text as flat leaves, each with the place it was written at.

Scalars are typed by YAML 1.2's core schema without octal numbers: ``yes`` and ``12:30`` are text,
``1e-4`` is a number. Aliases are refused; ``${...}`` is the one way to use a value twice. A key
with a plus, ``name+: [x]`` or ``name+=[x]``, appends to the list that earlier layers give.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import yaml

from posttrain.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MISSING = "???"
COMMAND_LINE = "command line"

_TAG = "tag:yaml.org,2002:"
_KEY = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_-]*)(?P<plus>\+?)")
_OVERRIDE = re.compile(
    r"(?P<path>[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)*)(?P<plus>\+?)=(?P<value>.*)", re.DOTALL
)
# What a file says about itself, beside the keys of the recipe.
_DIRECTIVES = ("defaults", "binds", "shared")
_CORE_SCHEMA = {
    "null": (r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+", list("-+0123456789")),
    "float": (
        r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf)|\.(nan|NaN)",
        list("-+.0123456789"),
    ),
}


class _Loader(yaml.SafeLoader):
    """A safe loader that types scalars by the core schema and refuses aliases."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (PyYAML's own class attribute)

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose as usual, but never an alias: it could refer to itself."""
        if self.check_event(yaml.AliasEvent):
            problem = "an alias; use ${section.key} to take a value from elsewhere"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=self.peek_event().start_mark)
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    """Quotes exactly the text that :class:`_Loader` would take for something else."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (PyYAML's own class attribute)

    def represent_text(self, text: str) -> Any:
        """Text with line breaks in double quotes, where they are escaped and never folded."""
        style = '"' if text and text.splitlines() != [text] else None
        return self.represent_scalar(f"{_TAG}str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)

for _name, (_pattern, _first) in _CORE_SCHEMA.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_TAG + _name, re.compile(f"(?:{_pattern})\\Z"), _first)


class Nothing(Enum):
    """The value of a leaf that only appends."""

    NOTHING = "nothing"


NOTHING: Final = Nothing.NOTHING


@dataclass(frozen=True)
class Appended:
    """What is appended to a list, as it was written, and where: a list or an interpolation."""

    value: Any
    origin: str


@dataclass(frozen=True)
class Leaf:
    """A value as it was written, interpolations included, and where it was written.

    Attributes:
        value: :data:`NOTHING` when the leaf only appends.
        origin: ``file:line`` or ``command line``.
        appended: what later layers append to the value, first one first.
    """

    value: Any
    origin: str
    appended: tuple[Appended, ...] = ()


Leaves = dict[str, Leaf]


@dataclass(frozen=True)
class Layer:
    """What one file or one override says.

    Attributes:
        leaves: by dotted path.
        name: the file, or ``command line``.
        defaults: the files it inherits from.
        binds: the keys and sections that it must not inherit.
        shared: whether its keys are defaults for every entry point, which may ignore some.
    """

    leaves: Leaves
    name: str
    defaults: Leaf
    binds: Leaf
    shared: Leaf


def parse_file(text: str, name: str) -> Layer:
    """Read a recipe file's text; ``name`` is how messages call the file.

    Raises:
        RecipeError: for broken YAML, a key twice in one section, or a key that is no plain name.
    """
    loader, root = _compose(text, name, f"read the recipe {name}")
    if not isinstance(root, yaml.MappingNode):
        raise RecipeError(
            f"read the recipe {name}",
            "no sections at its top level" if root is None else "a value where sections belong",
            "write `section:` lines with indented `key: value` lines below them",
        )
    leaves: Leaves = {}
    _flatten(loader, root, "", name, leaves)
    said = {word: leaves.pop(word) for word in _DIRECTIVES if word in leaves}
    for word, leaf in said.items():
        if leaf.appended:
            raise RecipeError(
                f"append to {word!r} at {leaf.origin}",
                "it says something about this file, and nothing is inherited",
                f"write `{word}:` without the plus",
            )
    return _layer(name, leaves, said)


def parse_override(argument: str) -> Layer:
    """Read ``key.path=value`` or ``key.path+=[item]`` from the command line; the value is YAML.

    Raises:
        RecipeError: when the argument has another form, or the value is not valid YAML.
    """
    asked = f"apply the override {argument!r}"
    match = _OVERRIDE.fullmatch(argument)
    if match is None:
        raise RecipeError(
            asked,
            "not of the form key.path=value (or key.path+=[item])",
            "write for example policy.lr=1e-4",
        )
    loader, node = _compose(match["value"], COMMAND_LINE, asked)
    leaves: Leaves = {}
    if isinstance(node, yaml.MappingNode):
        _refuse_section(match["path"], match["plus"], COMMAND_LINE)
        _flatten(loader, node, match["path"] + ".", None, leaves)
    else:
        value = None if node is None else _construct(loader, node, COMMAND_LINE)
        leaves[match["path"]] = _leaf(match["path"], match["plus"], value, COMMAND_LINE)
    return _layer(COMMAND_LINE, leaves, {})


def format_override(path: str, value: Any) -> str:
    """The argument that :func:`parse_override` reads back as ``value``."""
    return f"{path}={format_value(value)}"


def format_value(value: Any) -> str:
    """``value`` as YAML on one line, of the same type when it is read again."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, width=float("inf"), allow_unicode=True
    )
    return text.removesuffix("\n").removesuffix("\n...")


def _layer(name: str, leaves: Leaves, said: Mapping[str, Leaf]) -> Layer:
    nothing = Leaf([], name)
    return Layer(
        leaves,
        name,
        said.get("defaults", nothing),
        said.get("binds", nothing),
        said.get("shared", Leaf(value=False, origin=name)),
    )


def _leaf(path: str, plus: str, value: Any, origin: str) -> Leaf:
    if not plus:
        return Leaf(value, origin)
    if not isinstance(value, list) and not (isinstance(value, str) and "${" in value):
        raise RecipeError(
            f"append to {path!r} at {origin}",
            f"{format_value(value)}, which is no list",
            "put what is appended into brackets",
        )
    return Leaf(NOTHING, origin, (Appended(value, origin),))


def _refuse_section(path: str, plus: str, origin: str) -> None:
    if plus:
        raise RecipeError(
            f"append to {path!r} at {origin}",
            "a section",
            "leave the plus out: the keys of a section are merged one by one",
        )


def _compose(text: str, name: str, asked: str) -> tuple[Any, Any]:
    try:
        loader = _Loader(text)
        return loader, loader.get_single_node()
    except (yaml.YAMLError, RecursionError) as error:
        raise RecipeError(asked, _yaml_problem(error, name), "mend the YAML there") from error


def _yaml_problem(error: Exception, name: str) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error) or type(error).__name__
    return f"{problem} ({_origin(name, mark)})" if mark else f"{problem} ({name})"


def _origin(name: str | None, mark: Any) -> str:
    return COMMAND_LINE if name in {None, COMMAND_LINE} else f"{name}:{mark.line + 1}"


def _construct(loader: Any, node: Any, origin: str) -> Any:
    try:
        return loader.construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError) as error:
        problem = getattr(error, "problem", None) or str(error)
        raise RecipeError(
            f"read the value at {origin}", problem, "write plain text, numbers or lists"
        ) from error


def _flatten(loader: Any, node: Any, prefix: str, name: str | None, into: Leaves) -> None:
    for key, plus, value, origin in _entries(node, name):
        path = prefix + key
        first = next((leaf for known, leaf in into.items() if _within(known, path)), None)
        if first is not None:
            raise RecipeError(
                f"read the key {path!r} at {origin}",
                f"the same key already at {first.origin}",
                "keep one of the two",
            )
        if isinstance(value, yaml.MappingNode):
            _refuse_section(path, plus, origin)
            _flatten(loader, value, f"{path}.", name, into)
        else:
            into[path] = _leaf(path, plus, _construct(loader, value, origin), origin)


def _entries(node: Any, name: str | None) -> Iterator[tuple[str, str, Any, str]]:
    for key, value in node.value:
        origin = _origin(name, key.start_mark)
        text = key.value if isinstance(key, yaml.ScalarNode) else "a list or a section"
        match = _KEY.fullmatch(text)
        if key.tag != f"{_TAG}str" or match is None:
            raise RecipeError(
                f"read a key at {origin}",
                f"{text!r}, which is no plain name",
                "use letters, digits, - and _, and nest sections instead of writing dots",
            )
        yield match["name"], match["plus"], value, origin


def _within(path: str, section: str) -> bool:
    return path == section or path.startswith(f"{section}.")
