"""Suites: their workers and files, and what of them this machine cannot run."""

from __future__ import annotations

import os
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from exacthead.changes import own_folders, toplevel
from exacthead.git import git
from exacthead.images.start import no_engine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from exacthead.config import Harness
    from exacthead.tables import Runner, Suite

_IMPORT_S = 300.0
_FIND = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"


def suite_workers(harness: Harness, names: Iterable[str]) -> list[str]:
    """The names of the workers that suites use, sorted."""
    suites = [harness.suite(name) for name in names]
    return sorted({each for suite in suites for each in (suite.worker, *suite.roles.values())})


def test_files(harness: Harness, name: str) -> list[str]:
    """The test files below the paths of a suite, from the root, sorted."""
    paths = harness.suite(name).paths
    return sorted(
        path
        for path in repository_files(harness)
        if is_test(harness, path) and _below(harness.root, path, paths)
    )


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
    return sorted(path for path in files if is_test(harness, path) and not in_suite(harness, path))


def is_test(harness: Harness, path: str) -> bool:
    """Whether a file, given from the root, is called as test files are and is none by exception."""
    project = harness.project
    named = any(fnmatch(PurePosixPath(path).name, pattern) for pattern in project.test_files)
    return named and not _below(harness.root, path, project.not_tests)


def in_suite(harness: Harness, path: str) -> bool:
    """Whether a file, given from the root, is below a path of a suite."""
    paths = [path for suite in harness.suites.values() for path in suite.paths]
    return _below(harness.root, path, paths)


def _below(root: Path, path: str, folders: Sequence[str]) -> bool:
    """Whether a file is below one of the folders, as they are written or where links lead."""
    if any(PurePosixPath(path).is_relative_to(folder) for folder in folders):
        return True
    # A link to a file is where it stands; its folder, and what a suite names, is what is there.
    place = Path(os.path.realpath((root / path).parent), PurePosixPath(path).name)
    return any(place.is_relative_to(os.path.realpath(root / folder)) for folder in folders)


def unmet(
    suite: Suite, python: Path | None, runner: Runner, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """What the suite needs and this runner has not, a phrase each.

    Args:
        suite: with its requirements and resources.
        python: the interpreter of its worker; None before that is built, when no module is asked.
        runner: the machine's resources.
        environment: of the interpreter while it looks for a module.
    """
    missing = runner.short_of(suite)
    for name in suite.requires:
        kind, _, rest = name.partition(":")
        if kind == "accelerator" and not runner.accelerators:
            missing.append("no accelerator")
        elif name == "engine" and (problem := no_engine()):
            missing.append(problem)
        elif kind == "program" and not shutil.which(rest):
            missing.append(f"no {rest} on PATH")
        elif kind == "module" and python and not _importable(python, rest, environment):
            missing.append(f"no module {rest} in worker {suite.worker}")
    return tuple(missing)


def _importable(python: Path, module: str, environment: Mapping[str, str]) -> bool:
    done = subprocess.run(
        [str(python), "-I", "-c", _FIND, module],
        env=dict(environment),
        capture_output=True,
        check=False,
        timeout=_IMPORT_S,
    )
    return done.returncode == 0
