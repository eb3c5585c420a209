"""References: what a part of a file can lead to: modules, texts that may be names, unsure steps."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from exacthead.impact.mention import FILLED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from exacthead.impact.source import Part

# Calls that import what only their arguments name; a tracer sees what that was.
_IMPORTS = frozenset(
    {
        *("__import__", "import_module", "run_module", "run_path"),
        *("walk_packages", "iter_modules", "spec_from_file_location", "SourceFileLoader"),
    }
)
# Those of which the second argument is the file.
_BY_PATH = frozenset({"spec_from_file_location", "SourceFileLoader"})
# Functions that run a text as code, which no tracer can attribute to the file it came from.
_RUNS_TEXT = frozenset({"exec", "eval"})
# Calls and attributes by which a program reads the text of code that it need not run.
_READS_CODE = frozenset({"getsource", "getsourcelines", "getsourcefile", "getdoc", "__doc__"})
# Libraries that call the program's functions from processes of their own, or compile them.
_WORKERS = frozenset(
    {
        *("ray", "multiprocessing", "concurrent", "joblib", "torch", "vllm", "dask", "loky"),
        *("billiard", "numba", "jax", "triton"),
    }
)
_WORKER_MODULES = {
    "torch": ("multiprocessing", "utils.data"),
    "concurrent": ("futures.ProcessPoolExecutor", "futures.process"),
}
# Libraries with which a test takes another way each time.
_CHANCE = frozenset({"hypothesis", "random"})
# Workers by attribute, and what takes the tracer away, so that it is not seen what runs.
_UNTRACED = frozenset(
    {"settrace", "setprofile", "fork", "forkpty", "ProcessPoolExecutor", "DataLoader"}
)
_WALKS = frozenset({"glob", "rglob", "iterdir", "walk", "scandir", "listdir", "copytree"})
_PATH_CALLS = frozenset({"Path", "PurePath", "PurePosixPath", "join", "joinpath"})
# With these, a file's own path only leads to what lies beside it.
_BESIDE = frozenset({"parent", "parents", "with_name", "dirname"})
# A module's name that is filled into a command or into a program's text, or will be put behind it.
_VALUE = rf"(?:{FILLED}|%s|\{{\w*\}})"
_FILLED_IN = re.compile(
    rf"-m\s{_VALUE}|(?:^|[\n;])\s*(?:import\s{_VALUE}|from\s{_VALUE}\S*\simport)"
    r"|\S\s+-m\s+$|(?:^|[\n;])\s*import\s+$"
)


@dataclass
class References:
    """What one part refers to.

    Attributes:
        imports: names as ``import`` would take them, relative ones with their dots.
        texts: literal texts, with :data:`FILLED` where a value is filled in.
        paths: the texts that are used as paths, joined where ``/`` joins them.
        unsure: imports that cannot be told without running, in words.
        hidden: the same for what runs out of a tracer's sight.
        itself: it hands on the path of its own file, to be read or run.
        reads_code: it may read the text of what it imports.
        walks: it goes through the folders above its own file without naming one.
        unseen: it uses what runs functions in processes of its own or hides them from a tracer.
        chance: it uses what runs other functions each time.
    """

    imports: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)
    unsure: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    itself: bool = False
    reads_code: bool = False
    walks: bool = False
    unseen: bool = False
    chance: bool = False


def places(on_import: Part) -> frozenset[str]:
    """The names of places above a file: made from ``__file__`` without a text, or imported."""
    found = {"__file__"}
    for node in _walk(on_import):
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names if alias.name.isupper()}
        elif isinstance(node, ast.Assign):
            made = _names(node.value) & found and not _holds_text(node.value)
            found |= {name for target in node.targets if made for name in _names(target)}
    return frozenset(found)


def refer(part: Part, known_places: frozenset[str]) -> References:
    """The references of ``part``, in a file that has these :func:`places`."""
    reader = _Reader(known_places)
    for node in part.nodes:
        reader.visit(node)
    return reader.found


class _Reader(ast.NodeVisitor):
    def __init__(self, known_places: frozenset[str]) -> None:
        self.found = References()
        self._places = known_places

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._import(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = "." * node.level + (node.module or "")
        for alias in node.names:
            dot = "" if base.endswith(".") else "."
            self._import(base if alias.name == "*" else f"{base}{dot}{alias.name}")

    def visit_Expr(self, node: ast.Expr) -> None:
        # A text that stands alone is a docstring or a remark: nothing uses it.
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._text(node, node.value)
        elif isinstance(node.value, bytes):
            self.found.texts.add(node.value.decode(errors="replace"))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._text(node, _filled(node))
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                self.visit(value.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not isinstance(node.op, ast.Div):
            self.generic_visit(node)
            return
        pieces: list[ast.expr] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Div):
            pieces.insert(0, left.right)
            left = left.left
        self._path([left, *pieces])

    def visit_Call(self, node: ast.Call) -> None:
        name = _last_name(node.func)
        if name in _PATH_CALLS and node.args:
            self.visit(node.func)
            self._path(node.args)
            return
        if name in _IMPORTS and not _definite(node):
            self.found.unsure.append(_at(node, f"{name} of what is only known when it runs"))
        if isinstance(node.func, ast.Name) and name in _RUNS_TEXT and not _definite(node):
            self.found.hidden.append(_at(node, f"{name} of what is only known when it runs"))
        if name in _WALKS and self._from_a_place(node):
            self.found.walks = True
        if name in _BESIDE and "__file__" in _names(node):
            self._path(node.args if name == "with_name" else [])
            return
        self.found.reads_code |= name in _READS_CODE
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self.found.itself |= node.id == "__file__"

    def visit_Attribute(self, node: ast.Attribute) -> None:
        # Compiled functions run without their lines.
        compiled = node.attr in {"compile", "jit"} and _names(node.value) == {"torch"}
        # The path of another module: its text can be read, or be run elsewhere.
        self.found.reads_code |= node.attr in _READS_CODE or node.attr == "__file__"
        self.found.unseen |= compiled or node.attr in _UNTRACED
        if not (node.attr in _BESIDE and "__file__" in _names(node)):
            self.generic_visit(node)

    def visit_List(self, node: ast.List) -> None:
        self._command(node, node.elts)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        self._command(node, node.elts)

    def _command(self, node: ast.expr, words: list[ast.expr]) -> None:
        for word, following in pairwise(words):
            option = isinstance(word, ast.Constant) and word.value == "-m"
            if option and not isinstance(following, ast.Constant):
                self.found.hidden.append(_at(node, "`-m` of what is only known when it runs"))
        self.generic_visit(node)

    def _text(self, node: ast.expr, text: str) -> None:
        self.found.texts.add(text)
        if _FILLED_IN.search(text):
            self.found.hidden.append(_at(node, "a module name that is filled into a text"))

    def _import(self, name: str) -> None:
        self.found.imports.add(name)
        top, _, rest = name.partition(".")
        within = _WORKER_MODULES.get(top, ("",))
        self.found.unseen |= top in _WORKERS and rest.startswith(within)
        self.found.chance |= top in _CHANCE

    def _path(self, pieces: list[ast.expr]) -> None:
        """A path that is joined from pieces: the rest is filled in."""
        words = []
        for piece in pieces:
            if isinstance(piece, ast.Constant) and isinstance(piece.value, str):
                words.append(piece.value)
            elif isinstance(piece, ast.JoinedStr):
                words.append(_filled(piece))
                self.visit(piece)
            else:
                if words:
                    words.append(FILLED)
                self.visit(piece)
        if words:
            self.found.paths.add("/".join(words))

    def _from_a_place(self, node: ast.Call) -> bool:
        """Whether a walk begins at a place above this file, as in ``ROOT.rglob("*")``."""
        begins = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return any(
            _names(each) & self._places and not _holds_text(each)
            for each in (*begins, *node.args[:1])
        )


def _holds_text(node: ast.AST) -> bool:
    constants = (each for each in ast.walk(node) if isinstance(each, ast.Constant))
    return any(isinstance(each.value, str) for each in constants)


def _at(node: ast.expr, words: str) -> str:
    return f"line {node.lineno}: {words}"


def _walk(part: Part) -> Iterator[ast.AST]:
    for node in part.nodes:
        yield from ast.walk(node)


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _definite(call: ast.Call) -> bool:
    """Whether a call names what it imports or runs in its own text."""
    if _last_name(call.func) in _BY_PATH:
        return any(_holds_text(each) for each in call.args[1:2])
    given = call.args[:1]
    return bool(given) and isinstance(given[0], ast.Constant) and isinstance(given[0].value, str)


def _filled(node: ast.JoinedStr) -> str:
    return "".join(
        str(value.value) if isinstance(value, ast.Constant) else FILLED for value in node.values
    )
