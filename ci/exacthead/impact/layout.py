"""Layout: the files of a checkout, and which of them a module name or a path in a text means."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from exacthead.bootstrap import cache_folder
from exacthead.git import git_bytes, names
from exacthead.impact.mention import FILLED, mentions
from exacthead.impact.other import is_link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_ENTRY_POINT = re.compile(rf"({_MODULE.pattern}):[\w.]+")
# What follows these words in a command or a program is a module's name.
_ASKED = re.compile(rf"(?:-m|\bimport|\bfrom)\s+({_MODULE.pattern})")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")
# A word that can be a file's name: it has an ending or a folder.
_FILE = re.compile(rf"[\w./{FILLED}-]*[./][\w./{FILLED}-]*")


def is_python(path: str) -> bool:
    """Whether ``path`` is a Python source file."""
    return path.endswith(".py")


@cache
def ancestors(path: str) -> tuple[str, ...]:
    """The folders above ``path``, the nearest first, the root as the empty text last."""
    parts = path.split("/")
    return tuple("/".join(parts[:end]) for end in range(len(parts) - 1, -1, -1))


def join(folder: str, name: str) -> str:
    """``name`` in ``folder``, where the root is the empty text."""
    return f"{folder}/{name}" if folder else name


@dataclass(frozen=True)
class Layout:
    """The files of a checkout. All paths are relative to its root, with ``/``.

    Attributes:
        files: every file that is tracked or not ignored, and deleted ones that still matter.
        import_roots: the folders on the tests' PYTHONPATH; the root itself is the empty text.
    """

    files: frozenset[str]
    import_roots: tuple[str, ...]

    @cached_property
    def python(self) -> tuple[str, ...]:
        """The Python files, sorted."""
        return tuple(sorted(filter(is_python, self.files)))

    @cached_property
    def links(self) -> tuple[str, ...]:
        """The files that can lead to others: Python, scripts, data; no prose. Sorted."""
        return tuple(sorted(path for path in self.files if is_python(path) or is_link(path)))

    @cached_property
    def _folders(self) -> frozenset[str]:
        """The folders below the root that hold such files."""
        return frozenset(folder for path in self.links for folder in ancestors(path) if folder)

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        named: dict[str, list[str]] = {}
        for path in self.links:
            named.setdefault(path.rsplit("/", 1)[-1], []).append(path)
        return named

    def module(self, name: str, importer: str) -> set[str]:
        """The files that ``import name`` in the file ``importer`` may run.

        The packages in the name count. Where a name could mean several files, all count:
        which one wins is the interpreter's matter. A name that is no file here gives nothing.

        Args:
            name: dotted; relative when it starts with dots.
            importer: the path of the importing file.
        """
        if name.startswith("."):
            rest = name.lstrip(".")
            above = ancestors(importer)
            level = len(name) - len(rest)
            bases = list(above[level - 1 : level])
        else:
            rest = name
            bases = [*self.import_roots, *self._first_folders(importer)]
            top = name.split(".", 1)[0]
            if top not in sys.stdlib_module_names and not any(map(self._holds(top), bases)):
                # Whoever puts a folder on sys.path can import from it, so all folders count.
                bases = self._tops.get(top, [])
        return self._modules(rest, bases)

    def _modules(self, name: str, bases: Iterable[str]) -> set[str]:
        """The files of a module and of the packages in its name, searched for in ``bases``."""
        words = name.split(".") if name else []
        found: set[str] = set()
        for base in bases:
            for count in range(1, len(words) + 1):
                found |= self._at(join(base, "/".join(words[:count])))
        return found

    def named_in(self, text: str, importer: str) -> set[str]:
        """The files that a text names, as modules or by their own names.

        A whole text may be a module (``a.b``), an object in one (``a.b.c``, ``a.b:c``) or a path;
        inside a command or a program, dotted names of modules, what follows ``-m``, ``import`` or
        ``from``, and names of files count.
        """
        found: set[str] = set()
        if _MODULE.fullmatch(text):
            found |= self._runnable(text, importer)
        elif entry := _ENTRY_POINT.fullmatch(text):
            found |= self._runnable(entry[1], importer)
        else:
            for name in _ASKED.findall(text):
                found |= self._runnable(name, importer)
            for name in _DOTTED.findall(text):
                top, second, *_ = name.split(".")
                if self._named(f"{top}.{second}", importer) - self._named(top, importer):
                    found |= self._runnable(name, importer)
        for word in _FILE.findall(text):
            found |= self._by_file_name(word)
        return found

    def below(self, path: str, importer: str) -> set[str]:
        """The files below the folder that ``path`` names, from the root or from beside."""
        wanted = PurePosixPath(path).as_posix().strip("/")
        own = ancestors(importer)[0]
        found: set[str] = set()
        for folder in {wanted, join(own, wanted)} & self._folders:
            found |= {each for each in self.links if each.startswith(f"{folder}/")}
        return found

    @cached_property
    def _tops(self) -> dict[str, list[str]]:
        """By name, the folders outside of packages that a module of that name lies in."""
        found: dict[str, set[str]] = {}
        for path in self.python:
            for place in (path.removesuffix(".py"), *ancestors(path)[:-1]):
                folder, _, name = place.rpartition("/")
                if join(folder, "__init__.py") not in self.files:
                    found.setdefault(name, set()).add(folder)
        return {name: sorted(folders) for name, folders in found.items()}

    def _holds(self, top: str) -> Callable[[str], bool]:
        def holds(base: str) -> bool:
            place = join(base, top)
            return f"{place}.py" in self.files or place in self._folders

        return holds

    def _at(self, place: str) -> set[str]:
        """The files that importing the module at ``place`` (a path without its ending) runs."""
        return {f"{place}.py", join(place, "__init__.py")} & self.files

    def _named(self, name: str, importer: str) -> set[str]:
        # A module of a package is never named without it, so that most words are only words.
        beside = ancestors(importer)[:1]
        alone = join(beside[0], "__init__.py") not in self.files
        return self._modules(name, [*self.import_roots, *(beside if alone else ())])

    def _runnable(self, name: str, importer: str) -> set[str]:
        # `-m package` runs its __main__ too, but not those of the packages around it.
        return self._named(name, importer) | self._named(f"{name}.__main__", importer)

    def _by_file_name(self, word: str) -> set[str]:
        name = word.rsplit("/", 1)[-1]
        if "." not in name and not re.match(r"\./|\w*[.\w]/\w", word):
            return set()  # of an address (`/run`), say
        if FILLED not in name:
            return {path for path in self._by_name.get(name, ()) if mentions(word, path)}
        # Of `{name}.py` nothing is definite but the folder it lies in, and that has a name.
        definite = name.rpartition(".")[0].strip(FILLED)
        return {path for path in self.links if definite and mentions(word, path)}

    def _first_folders(self, importer: str) -> list[str]:
        """Where a script, or pytest for a test file, looks first: beside it, and above packages."""
        beside, *above = ancestors(importer)
        folders = [beside]
        while above and join(folders[-1], "__init__.py") in self.files:
            folders.append(above.pop(0))
        return folders


def read_layout(root: Path, pythonpath: Iterable[str], deleted: Iterable[str] = ()) -> Layout:
    """The layout of the checkout at ``root``; ``deleted`` files count as if they were there."""
    listed = names(git_bytes(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"))
    # The harness's own folders are nobody's source, also where nobody ignores them.
    own = tuple(
        f"{folder.relative_to(root).as_posix()}/"
        for folder in (root / "runs", cache_folder(root))
        if folder.is_relative_to(root)
    )
    files = frozenset({*(path for path in listed if not path.startswith(own)), *deleted})
    folders = (PurePosixPath(path).as_posix() for path in pythonpath)
    roots = tuple("" if folder == "." else folder for folder in folders)
    return Layout(files, tuple(dict.fromkeys((*roots, ""))))
