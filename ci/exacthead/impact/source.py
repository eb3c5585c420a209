"""Source: one Python file as parts, so that a change can be told apart from a change elsewhere.

The parts are what runs on import (everything outside of functions) and the body of every function
that is not itself inside one. Nothing is run: the file is only parsed.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# The part that runs on import.
ON_IMPORT = "(import)"

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Part:
    """A part of a file.

    Attributes:
        name: :data:`ON_IMPORT`, or the function's qualified name; a second one of that name has
            ``#2`` behind it.
        nodes: its syntax; functions' bodies are not in the part that runs on import.
        lines: of a function: the first and the last line of its body, from 1.
    """

    name: str
    nodes: tuple[ast.AST, ...] = field(repr=False, compare=False)
    lines: tuple[int, int] | None = None

    @property
    def digest(self) -> str:
        """Over the syntax: comments, layout and line numbers are not in it."""
        # An outline keeps where each function stood, so that moving one changes it.
        dumped = "\n".join(map(ast.dump, self.nodes))
        return hashlib.sha256(dumped.encode()).hexdigest()


def read_parts(text: str) -> dict[str, Part]:
    """The parts of a file by name, the one that runs on import first.

    Raises:
        SyntaxError, ValueError, RecursionError: Python could not read the file either.
    """
    tree = ast.parse(text)
    outline = _Outline()
    outline.visit(tree)
    return {ON_IMPORT: Part(ON_IMPORT, (tree,)), **outline.functions}


def ran(parts: dict[str, Part], lines: set[int]) -> frozenset[str]:
    """The functions of a file of which at least one of ``lines`` is in the body."""
    bodies = [(name, part.lines) for name, part in parts.items() if part.lines]
    return frozenset(name for name, (first, last) in bodies if lines & {*range(first, last + 1)})


def changed_parts(old: str, new: str) -> frozenset[str]:
    """The names of the parts that are not the same in two texts of one file.

    A function that came, went or got another name, signature or decorator changes the part that
    runs on import, which holds all of these.

    Raises:
        SyntaxError, ValueError, RecursionError: one of them is no Python.
    """
    before, after = read_parts(old), read_parts(new)
    return frozenset(
        name
        for name in before.keys() | after.keys()
        if name not in before or name not in after or before[name].digest != after[name].digest
    )


class _Outline(ast.NodeVisitor):
    """Takes the functions' bodies out of a tree, and keeps them."""

    def __init__(self) -> None:
        self.functions: dict[str, Part] = {}
        self._classes: list[str] = []
        self._seen: Counter[str] = Counter()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._classes.append(node.name)
        self.generic_visit(node)
        self._classes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._take(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._take(node)

    def _take(self, node: _Function) -> None:
        name = ".".join((*self._classes, node.name))
        self._seen[name] += 1
        if self._seen[name] > 1:
            name = f"{name}#{self._seen[name]}"
        body = tuple(node.body)
        first = min(_first_line(statement) for statement in body)
        last = max(statement.end_lineno or statement.lineno for statement in body)
        self.functions[name] = Part(name, body, (first, last))
        node.body = [ast.Pass()]


def _first_line(statement: ast.stmt) -> int:
    decorators: Iterator[int] = (each.lineno for each in getattr(statement, "decorator_list", ()))
    return min((statement.lineno, *decorators))
