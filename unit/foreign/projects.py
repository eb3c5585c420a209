"""The foreign projects: which source distributions, and what is written to test them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Project:
    """A project whose source distribution ships its tests.

    Attributes:
        name: as package indexes have it.
        version: pinned, so that the numbers below hold.
        sha256: of the source distribution.
        requirements: of its worker, beside pytest and coverage.
        no_deps: further ones, without dependencies.
        arguments: of pytest, beside the folders of tests.
        source: the folder of the package whose lines are counted.
        paths: where its own configuration of pytest has its tests.
        tests: at least so many.
    """

    name: str
    version: str
    sha256: str
    requirements: tuple[str, ...]
    no_deps: tuple[str, ...]
    arguments: tuple[str, ...]
    source: str
    paths: tuple[str, ...]
    tests: int

    @property
    def stem(self) -> str:
        """The name of its source distribution without the ending, and of the folder in it."""
        return f"{self.name.replace('-', '_')}-{self.version}"

    def completed(self, written: str) -> str:
        """What ``init`` wrote, with what no file of the project tells: versions, further arguments.

        Args:
            written: the text of its ``ci/harness.toml``.
        """
        found = re.search(r"(?ms)^requirements = \[.*?\]$", written)
        assert found, written
        requirements = ["pytest==9.2.0", "coverage==7.17.5", *self.requirements]
        more = f"requirements = {requirements}\nno_deps = {list(self.no_deps)}"
        assert "\narguments" not in written
        arguments = f"arguments = {list(self.arguments)}\n"
        return written.replace(found[0], more) + arguments


# Fixtures of every kind, temporary folders, captured output, child processes, odd and long ids; its
# configuration deselects most of what it collects. Its tests ask for its installed metadata.
CLICK = Project(
    name="click",
    version="8.5.1",
    sha256="9bbfada76703fd1d784b83eea012e3e8c6a001a876543ef104fa56aaaeb072b4",
    requirements=(),
    no_deps=("click==8.5.1",),
    arguments=(),
    source="src/click",
    paths=("tests",),
    tests=2000,
)
# Classes of unittest beside functions, heavy parametrisation, strict expected failures, skips that
# depend on the machine, warnings as errors. Left out is what takes most of the time or asks whether
# the machine's own time zones are the newest; some of the rest may fail for them, alike everywhere.
DATEUTIL = Project(
    name="python-dateutil",
    version="4.0.0",
    sha256="d7295ff14fdc0f92f662100bfb6c551d160ca090f2939f1ec5b9794265c03f06",
    requirements=("attrs", "freezegun", "hypothesis", "pytest-cov", "tzdata"),
    no_deps=(),
    arguments=("--ignore=tests/property", "--ignore=tests/test_tzpath_data.py"),
    source="src/dateutil",
    paths=("docs/exercises/solutions", "tests"),
    tests=5000,
)
