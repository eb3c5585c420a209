"""What a repository's own configuration of pytest says of where its tests are."""

from __future__ import annotations

import shlex
from configparser import ConfigParser, Error
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# In the order in which pytest looks for one.
_INI_FIRST = (("pytest.ini", "pytest"), (".pytest.ini", "pytest"))
_INI_LAST = (("tox.ini", "pytest"), ("setup.cfg", "tool:pytest"))


@dataclass(frozen=True)
class PytestSettings:
    """What counts here; empty where nothing is said.

    Attributes:
        testpaths: where pytest looks when it is given no path; patterns too.
        python_files: what a file of tests is called.
        addopts: arguments that each call has.
    """

    testpaths: tuple[str, ...] = ()
    python_files: tuple[str, ...] = ()
    addopts: tuple[str, ...] = ()

    @property
    def distributes(self) -> bool:
        """Whether pytest-xdist would divide the tests among processes of its own."""
        return any(
            word.startswith(("-n", "--numprocesses")) and not word.startswith("--no")
            for word in self.addopts
        )


def read_pytest_settings(root: Path, pyproject: Mapping[str, Any]) -> PytestSettings:
    """Those of the first file that has any.

    Raises:
        HarnessError: a file cannot be read.
    """
    for name, section in _INI_FIRST:
        if found := _ini(root / name, section):
            return found
    tool = pyproject.get("tool", {}).get("pytest", {})
    # Its own table since pytest 9; the older one holds the same.
    table = tool.get("ini_options") or {k: v for k, v in tool.items() if k != "ini_options"}
    if table:
        return _settings(table)
    for name, section in _INI_LAST:
        if found := _ini(root / name, section):
            return found
    return PytestSettings()


def _ini(path: Path, section: str) -> PytestSettings | None:
    if not path.is_file():
        return None
    parser = ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (Error, UnicodeDecodeError) as error:
        raise HarnessError(f"read {path}", str(error), "mend its syntax") from error
    return _settings(dict(parser[section])) if parser.has_section(section) else None


def _settings(table: Mapping[str, Any]) -> PytestSettings:
    return PytestSettings(
        _words(table.get("testpaths", ())),
        _words(table.get("python_files", ())),
        _words(table.get("addopts", ())),
    )


def _words(value: Any) -> tuple[str, ...]:
    return tuple(shlex.split(value)) if isinstance(value, str) else tuple(map(str, value))
