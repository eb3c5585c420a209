"""A small project with real tests, measured file by file, and changed function by function."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from platform import python_version
from typing import TYPE_CHECKING

from exacthead.cover.item import combine_item
from exacthead.cover.settings import prepare
from exacthead.head import read_head
from exacthead.impact.map import Measured, read_map, record
from exacthead.impact.run import MEASURED
from exacthead.units.result import Attempt, TestResult
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from exacthead.impact.map import ImpactMap
    from unit.exacthead.conftest import Repository

KEYS = {"plain": "k"}
_OUTCOME = re.compile(r"^(PASSED|FAILED|ERROR) (\S+)", re.MULTILINE)
_RUN_S = 240


@dataclass(frozen=True)
class TestedProject:
    """A committed repository with tests in ``tests/``."""

    __test__ = False

    repository: Repository

    @property
    def root(self) -> Path:
        return self.repository.root

    def outcomes(self, *paths: str, **variables: str) -> dict[str, str]:
        """What became of each test, in one process of pytest."""
        command = (sys.executable, "-m", "pytest", "-rA", "-q", "-p", "no:cacheprovider", *paths)
        path = os.pathsep.join(filter(None, (str(self.root), variables.pop("path", ""))))
        done = subprocess.run(
            command,
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **variables},
            capture_output=True,
            text=True,
            timeout=_RUN_S,
            check=False,
        )
        sys.stdout.write(done.stdout)  # shown when the test fails
        found = {nodeid: outcome for outcome, nodeid in _OUTCOME.findall(done.stdout)}
        assert found, done.stdout + done.stderr
        return found

    def measure(self, items: Path) -> ImpactMap:
        """An impact run with an item for every test file, and the map made of it."""
        measured = []
        for number, test_file in enumerate(sorted((self.root / "tests").glob("test_*.py"))):
            folder = items / str(number)
            folder.mkdir(parents=True)
            prepared = prepare(folder, self.root, MEASURED, python=python_version())
            inside = os.pathsep.join(map(str, prepared.pythonpath))
            found = self.outcomes(str(test_file), path=inside, **prepared.environment)
            assert set(found.values()) == {"PASSED"}, found
            combine_item(folder)
            passed = Verdict(Kind.PASSED)
            results = tuple(TestResult(each, (Attempt(1, 0.1),), passed) for each in found)
            measured.append(Measured(folder, results))
        record(self.root, "all", read_head(self.root), KEYS, measured)
        impact_map, _ = read_map(self.root, "all", KEYS)
        assert impact_map is not None
        return impact_map


def mutations(sources: Mapping[str, str]) -> list[tuple[str, str]]:
    """For each function of ``sources`` that returns, its file with something else returned."""
    found = []
    for name, text in sources.items():
        for match in re.finditer(r"    return (.+)\n", text):
            wrong = f"    return ({match[1]}) + 1000\n"
            found.append((name, text[: match.start()] + wrong + text[match.end() :]))
    return found
