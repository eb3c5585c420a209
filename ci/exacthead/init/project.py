"""What a repository says of itself: name, Python, packages, dependencies, tests."""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from exacthead.errors import HarnessError
from exacthead.git import git_bytes, names
from exacthead.init.pytest_settings import read_pytest_settings
from exacthead.tables import Project as Defaults

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_GROUPS = ("test", "tests", "testing")
_OTHERWISE = ("dev",)
# What tests run with, and what measures them.
_TOOLS = ("pytest", "coverage")
_NEWEST = 14
_OLDEST = 8
_NO_PACKAGES = frozenset({"build", "doc", "docs", "examples", "scripts", *_GROUPS})


@dataclass(frozen=True)
class Project:
    """What a harness.toml can be written from.

    Attributes:
        name: the project's.
        python: the minor version for its worker.
        requirements: its dependencies, and those of its tests.
        unknown: what its build alone can tell, a phrase each.
        pythonpath: the folder that its packages are imported from.
        sources: its packages.
        paths: where its tests are.
        not_tests: folders of files that are called as tests are, which its pytest passes over.
        test_files: what a test file is called, where that is another than usual.
        arguments: further ones of pytest.
    """

    name: str
    python: str
    requirements: tuple[str, ...]
    unknown: tuple[str, ...]
    pythonpath: str
    sources: tuple[str, ...]
    paths: tuple[str, ...]
    not_tests: tuple[str, ...]
    test_files: tuple[str, ...]
    arguments: tuple[str, ...]


def read_project(root: Path) -> Project:
    """Read the checkout at ``root``.

    Raises:
        HarnessError: it is no git checkout with a pyproject.toml that has a name, there is no test,
            or no Python would do.
    """
    path = root / "pyproject.toml"
    try:
        pyproject = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        todo = "run it at the root of a Python project, or write ci/harness.toml by hand"
        raise HarnessError(f"read {path}", "no such file", todo) from None
    except ValueError as error:
        raise HarnessError(f"read {path}", str(error), "mend its syntax") from error
    project: dict[str, Any] = pyproject.get("project", {})
    name = str(project.get("name") or root.resolve().name)
    listed = git_bytes(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    files = sorted({each for each in names(listed) if (root / each).is_file()})
    settings = read_pytest_settings(root, pyproject)
    patterns = settings.python_files or Defaults.model_fields["test_files"].default
    tests = [each for each in files if any(fnmatch(PurePosixPath(each).name, p) for p in patterns)]
    paths = _paths(root, tests, settings.testpaths)
    pythonpath, sources = _packages(files, name)
    dynamic = project.get("dynamic", [])
    unknown = ("its dependencies",) if "dependencies" in dynamic or not project else ()
    return Project(
        name=name,
        python=_python(str(project.get("requires-python", ""))),
        requirements=_requirements(name, project, pyproject.get("dependency-groups", {})),
        unknown=unknown,
        pythonpath=pythonpath,
        sources=sources,
        paths=paths,
        not_tests=_folders(each for each in tests if not _below(each, paths)),
        test_files=settings.python_files,
        arguments=("-n", "0") if settings.distributes else (),
    )


def _python(asked: str) -> str:
    """The harness's own minor version if the project allows it, else the newest that it allows."""
    try:
        allowed = SpecifierSet(asked)
    except InvalidSpecifier as error:
        raise HarnessError("requires-python", str(error), "mend it in pyproject.toml") from error
    newest_first = sorted(range(_OLDEST, _NEWEST + 1), reverse=True)
    for minor in (sys.version_info.minor, *newest_first):
        # A floor may be a patch release: some of the minor version is enough.
        if any(allowed.contains(f"3.{minor}.{patch}") for patch in (0, 50)):
            return f"3.{minor}"
    raise HarnessError(
        f"a Python for requires-python {asked!r}",
        f"none of 3.{_OLDEST} to 3.{_NEWEST}",
        "mend it in pyproject.toml, or write ci/harness.toml by hand",
    )


def _requirements(
    name: str, project: Mapping[str, Any], groups: Mapping[str, Any]
) -> tuple[str, ...]:
    """Dependencies, those of the first sort of test group that there is, and the tools."""
    extras = _canonical(project.get("optional-dependencies", {}))
    tables = _canonical(groups)
    found = list(project.get("dependencies", []))
    for wanted in (_GROUPS, _OTHERWISE):
        chosen = [each for each in wanted if each in extras or each in tables]
        for each in chosen:
            found += _extra(name, each, extras, set()) + _group(each, tables, set())
        if chosen:
            break
    there = {canonicalize_name(Requirement(line).name) for line in found}
    found += [tool for tool in _TOOLS if tool not in there]
    return tuple(dict.fromkeys(line for line in found if not _is_itself(line, name)))


def _canonical(tables: Mapping[str, Any]) -> dict[str, Any]:
    return {str(canonicalize_name(name)): table for name, table in tables.items()}


def _extra(name: str, extra: str, extras: Mapping[str, Any], seen: set[str]) -> list[str]:
    """The requirements of an extra, with those of the extras that it takes in."""
    if extra in seen or extra not in extras:
        return []
    seen.add(extra)
    lines: list[str] = []
    for line in extras[extra]:
        inner = map(canonicalize_name, Requirement(line).extras) if _is_itself(line, name) else ()
        lines += [line, *(each for more in inner for each in _extra(name, more, extras, seen))]
    return lines


def _group(group: str, groups: Mapping[str, Any], seen: set[str]) -> list[str]:
    """The requirements of a dependency group, with those of the groups that it includes."""
    if group in seen or group not in groups:
        return []
    seen.add(group)
    lines: list[str] = []
    for each in groups[group]:
        if isinstance(each, str):
            lines.append(each)
        else:
            lines += _group(canonicalize_name(each["include-group"]), groups, seen)
    return lines


def _is_itself(line: str, name: str) -> bool:
    return canonicalize_name(Requirement(line).name) == canonicalize_name(name)


def _packages(files: Iterable[str], name: str) -> tuple[str, tuple[str, ...]]:
    """The folder that code is imported from, and the packages in it: the project's, else all."""
    found: dict[str, list[str]] = {"src": [], ".": []}
    for file in files:
        path = PurePosixPath(file)
        if path.name == "__init__.py":
            if len(path.parts) == 3 and path.parts[0] == "src":  # noqa: PLR2004 - src/package/file
                found["src"].append(str(path.parent))
            elif len(path.parts) == 2 and path.parts[0] not in _NO_PACKAGES:  # noqa: PLR2004
                found["."].append(str(path.parent))
    folder = "src" if found["src"] or any(file.startswith("src/") for file in files) else "."
    own = re.sub(r"[-.]+", "_", name).lower()
    named = [each for each in found[folder] if PurePosixPath(each).name.lower() == own]
    return folder, tuple(named or found[folder])


def _paths(root: Path, tests: list[str], testpaths: Iterable[str]) -> tuple[str, ...]:
    """Where pytest looks, if the project says so, else the folders that have tests."""
    said = sorted({str(each.relative_to(root)) for path in testpaths for each in root.glob(path)})
    found = tuple(said) or _folders(tests)
    if not any(_below(test, found) for test in tests):
        raise HarnessError(
            f"tests in {root}",
            f"no file that is called as tests are{' below ' + ', '.join(found) if found else ''}",
            "write one (test_*.py), or say what they are called: python_files",
        )
    return found


def _folders(tests: Iterable[str]) -> tuple[str, ...]:
    """The folders of files; of those in a folder for tests that one, of those at the root none."""
    folders = set()
    for test in tests:
        parents = [each for each in reversed(PurePosixPath(test).parents) if each.name]
        own = next((each for each in parents if each.name in _GROUPS), None)
        folders.add(str(own or (parents[-1] if parents else test)))
    return tuple(sorted(each for each in folders if not _below(each, folders - {each})))


def _below(path: str, folders: Iterable[str]) -> bool:
    return any(PurePosixPath(path).is_relative_to(folder) for folder in folders)
