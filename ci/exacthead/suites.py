"""Suites: their workers and files, and what of them this machine cannot run."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property, lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from exacthead.changes import own_folders, toplevel
from exacthead.git import git
from exacthead.images.start import CONTAINED, no_engine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.tables import Runner, Suite

_IMPORT_S = 300.0
# What no container has, whatever its image.
_OUTSIDE = {"engine": CONTAINED, "index": "no package index: a container is told of none"}
_FIND = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"


def suite_workers(harness: Harness, names: Iterable[str]) -> list[str]:
    """The names of the workers that suites use, sorted."""
    suites = [harness.suite(name) for name in names]
    return sorted({each for suite in suites for each in (suite.worker, *suite.roles.values())})


@dataclass(frozen=True)
class Belonging:
    """Which test files belong to which suite; files are listed, and links followed, once."""

    harness: Harness

    def of(self, name: str) -> list[str]:
        """The test files below the paths of a suite, from the root, sorted."""
        paths = self.harness.suite(name).paths
        return sorted(path for path in self._tests if self._folders.below(path, paths))

    @cached_property
    def _tests(self) -> list[str]:
        files = repository_files(self.harness)
        return [path for path in files if is_test(self.harness, path, self._folders)]

    @cached_property
    def _folders(self) -> Folders:
        return Folders(self.harness.root)


@dataclass(frozen=True)
class Folders:
    """Which files are below which folders of a checkout; each link is followed once."""

    root: Path
    _real: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    def below(self, path: str, folders: Sequence[str]) -> bool:
        """Whether a file is below one of the folders, as they are written or where links lead."""
        if any(_within(path, _plain(folder)) for folder in folders):
            return True
        # A link to a file is where it stands; its folder, and what a suite names, is what is there.
        parent, _, name = path.rpartition("/")
        place = f"{self._resolved(parent)}/{name}"
        return any(_within(place, self._resolved(folder)) for folder in folders)

    def _resolved(self, folder: str) -> str:
        if folder not in self._real:
            self._real[folder] = os.path.realpath(self.root / folder)
        return self._real[folder]


@lru_cache
def _plain(folder: str) -> str:
    return PurePosixPath(folder).as_posix()


def _within(path: str, folder: str) -> bool:
    return folder in {".", path} or path.startswith(f"{folder}/")


def repository_files(harness: Harness) -> list[str]:
    """What git tracks or would track, from the root; no files of workers and runs.

    These need not be ignored.
    """
    hidden = own_folders(harness.root, toplevel(harness.root))
    excluded = ("--exclude-standard", *(f"--exclude={pattern}" for pattern in hidden))
    listed = git(harness.root, "ls-files", "-z", "--cached", "--others", *excluded)
    return [path for path in dict.fromkeys(listed.split("\0")) if (harness.root / path).is_file()]


def orphans(harness: Harness, files: Iterable[str]) -> list[str]:
    """The test files among ``files`` (paths from the root) that are in no suite, sorted."""
    folders = Folders(harness.root)
    return sorted(
        path
        for path in files
        if is_test(harness, path, folders) and not in_suite(harness, path, folders)
    )


def is_test(harness: Harness, path: str, folders: Folders | None = None) -> bool:
    """Whether a file, given from the root, is called as test files are and is none by exception."""
    project = harness.project
    named = any(fnmatch(path.rpartition("/")[2], pattern) for pattern in project.test_files)
    return named and not (folders or Folders(harness.root)).below(path, project.not_tests)


def in_suite(harness: Harness, path: str, folders: Folders | None = None) -> bool:
    """Whether a file, given from the root, is below a path of a suite."""
    paths = [path for suite in harness.suites.values() for path in suite.paths]
    return (folders or Folders(harness.root)).below(path, paths)


def unmet(
    suite: Suite,
    python: Path | None,
    runner: Runner,
    environment: Mapping[str, str],
    *,
    inside: bool = False,
) -> tuple[str, ...]:
    """What the suite needs and this runner has not, a phrase each.

    Args:
        suite: with its requirements and resources.
        python: the interpreter of its worker; None before that is built, when no module is asked.
        runner: the machine's resources.
        environment: of the interpreter while it looks for a module.
        inside: whether it runs in an image: then programs and an engine are not looked for here.
    """
    missing = runner.short_of(suite)
    for name in suite.requires:
        kind, _, rest = name.partition(":")
        if kind == "accelerator" and not runner.accelerators:
            missing.append("no accelerator")
        elif name == "engine" and not inside and (problem := no_engine()):
            missing.append(problem)
        elif kind == "program" and not inside and not shutil.which(rest):
            missing.append(f"no {rest} on PATH")
        elif kind == "module" and python and not _importable(python, rest, environment):
            missing.append(f"no module {rest} in worker {suite.worker}")
    return tuple(missing)


def unmet_in_containers(suite: Suite) -> tuple[str, ...]:
    """What the suite needs and no container has, a phrase each."""
    return tuple(_OUTSIDE[name] for name in suite.requires if name in _OUTSIDE)


def _importable(python: Path, module: str, environment: Mapping[str, str]) -> bool:
    done = subprocess.run(
        [str(python), "-I", "-c", _FIND, module],
        env=dict(environment),
        capture_output=True,
        check=False,
        timeout=_IMPORT_S,
    )
    return done.returncode == 0
