"""Which tests a file can hold, read from its source without running it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# A name and what defines it; None for what only running the code could tell.
_Binding = tuple[str, ast.stmt | None]
_Scope = dict[str, ast.stmt | None]

# In a scope: any name can be bound here.
_ANY = "*"
# Where one of these is used, tests may get their names only as the code runs.
_MAKERS = frozenset({"globals", "exec", "setattr", "expand"})
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def holds(tree: ast.Module, names: Sequence[str]) -> bool:
    """Whether a module can hold the test (or class) that ``names`` lead to, outermost first.

    What the source alone cannot tell counts as there: names that are made as the code runs or come
    with a star import, members of what is imported or assigned, and members that a class has from a
    base elsewhere, a metaclass or a decorator.
    """
    module = _scope(tree.body)
    if _makes_names(tree) or "__getattr__" in module:
        return True
    scope = module
    for name in names:
        if name not in scope:
            return _ANY in scope
        bound = scope[name]
        if bound is None:
            return True
        scope = _members(bound, module) if isinstance(bound, ast.ClassDef) else {}
    return True


def _members(node: ast.ClassDef, module: _Scope, seen: frozenset[str] = frozenset()) -> _Scope:
    """What a class binds itself and inherits; nearer classes hide farther ones."""
    members = _scope(node.body)
    if node.keywords or not all(map(_is_mark, node.decorator_list)):
        members[_ANY] = None
    for base in node.bases:
        name = base.id if isinstance(base, ast.Name) else ""
        known = module.get(name)
        if isinstance(known, ast.ClassDef) and name not in seen:
            members = {**_members(known, module, seen | {node.name}), **members}
        elif name != "object" or name in module:
            members[_ANY] = None
    return members


def _is_mark(decorator: ast.expr) -> bool:
    """Whether it is one of pytest's marks, which add no member."""
    return ast.unparse(decorator).startswith(("pytest.mark.", "mark."))


def _makes_names(tree: ast.Module) -> bool:
    return any(
        (isinstance(node, ast.Name) and node.id in _MAKERS)
        or (isinstance(node, ast.Attribute) and node.attr in _MAKERS)
        for node in ast.walk(tree)
    )


def _scope(body: Iterable[ast.stmt]) -> _Scope:
    return dict(_bindings(body))


def _bindings(body: Iterable[ast.stmt]) -> Iterator[_Binding]:
    for statement in body:
        match statement:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield statement.name, statement
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from ((alias.asname or alias.name, None) for alias in aliases)
            case ast.Assign(targets=targets):
                yield from (each for target in targets for each in _stored(target))
            case ast.AnnAssign(target=target) | ast.For(target=target):
                yield from _stored(target)
        if not isinstance(statement, _DEFINITIONS):
            # Tests often lie below `if sys.platform ...` or `try: import ...`.
            yield from _bindings(_inner(statement))


def _inner(statement: ast.stmt) -> Iterator[ast.stmt]:
    """The statements below a compound one that bind in the same scope."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from child.body


def _stored(target: ast.expr) -> Iterator[_Binding]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name):
            yield node.id, None
