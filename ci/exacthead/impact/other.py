"""Other files: what a change of a file that is no Python can matter to."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# What decides how every test is collected, built or run, by pattern of the path.
_EVERYTHING = (
    *("pyproject.toml", "*/pyproject.toml", "harness.toml", "*/harness.toml"),
    *("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg"),
    *("*.lock", "*.pth", "*requirements*.txt", "*.lock.txt", "ci/locks/*", "*.coveragerc"),
    *(".gitignore", "*/.gitignore", ".gitattributes", "*/.gitattributes", ".gitmodules"),
    # what a build makes extension modules from, and these
    *("*.c", "*.cc", "*.cpp", "*.cu", "*.h", "*.hpp", "*.pyx", "*.pxd", "*.rs", "*.so"),
)
# Python files that every interpreter runs when it starts, whoever imports them.
_EVERY_INTERPRETER = frozenset({"sitecustomize.py", "usercustomize.py"})
# Texts for people: what no test names, no test reads.
_PROSE = ("*.md", "*.rst", "LICENSE*", "*/LICENSE*")
# Recorded by the harness; they decide where a test runs and not what becomes of it.
_RECORDS = ("ci/durations.json",)


def decides_everything(path: str) -> bool:
    """Whether a change of ``path`` can matter to every test, whatever they name."""
    name = path.rsplit("/", 1)[-1]
    return name in _EVERY_INTERPRETER or _matches(path, _EVERYTHING)


def is_prose(path: str) -> bool:
    """Whether a file is a text for people."""
    return _matches(path, _PROSE)


def is_link(path: str) -> bool:
    """Whether what is written in a file that is no Python counts as named by who names the file.

    Not so for prose, which nothing follows, for what runs everything anyway, and for records, which
    name whatever was measured.
    """
    return not _matches(path, (*_EVERYTHING, *_PROSE, *_RECORDS))


def unexplained(paths: Iterable[str], named: Mapping[str, str]) -> list[str]:
    """Those of the changed files that are no Python of which nobody can say who reads them.

    Args:
        paths: changed files that are no Python.
        named: for each that a test file of any suite, or what it imports, names: who does.
    """
    harmless = (*_PROSE, *_RECORDS)
    return [path for path in paths if path not in named and not _matches(path, harmless)]


def _matches(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)
