"""A foreign project as a git repository, tested by the harness and by pytest alone."""

from __future__ import annotations

import io
import json
import os
import pwd
import re
import subprocess
import tarfile
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exacthead.environ import clean_environment
from exacthead.fetch import Pin, fetch_wheel
from exacthead.junit import CaseRecord, Problem, read_junit
from exacthead.pip_config import default_index
from exacthead.workers.index import read_indexes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from unit.foreign.projects import Project

SHARDS = 3
_LIMIT_S = 900
# An item has a home of its own; where packages come from is said in that of the machine's user,
# whose uv has most of them in its cache.
_ISOLATED = ("EXACTHEAD_", "COVERAGE_", "PYTHON", "XDG_")


def user_environment() -> dict[str, str]:
    """The variables of a shell of the user who runs these tests."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(_ISOLATED)}
    return {**kept, "HOME": pwd.getpwuid(os.getuid()).pw_dir}


@dataclass(frozen=True)
class _SourceDistribution(Pin):
    """A source distribution; ``ending`` is its whole name."""

    def names(self, file: str) -> bool:
        """Whether a file's name says that it is this source distribution."""
        return file == self.ending


def unpack(project: Project, folder: Path) -> Path:
    """Fetch the project's source distribution, from where this machine's pip would, into a folder.

    Returns:
        The folder of its files.
    """
    file, digest = f"{project.stem}.tar.gz", frozenset({project.sha256})
    pin = _SourceDistribution(project.name, project.version, file, digest)
    indexes = read_indexes(user_environment())
    known = indexes.default_index or indexes.no_index
    content = fetch_wheel(pin, indexes, None if known else default_index())
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")
    return folder / project.stem


def run(command: list[str], cwd: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """The exit code and everything that was printed."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=_LIMIT_S,
        check=False,
    )
    return done.returncode, done.stdout


@dataclass(frozen=True)
class Finished:
    """A run that is over: its folder, its exit code and everything that was printed."""

    folder: Path
    code: int
    printed: str

    def told(self) -> Told:
        """What its ``junit.xml`` says."""
        return told(self.folder / "junit.xml")


@dataclass(frozen=True)
class Checkout:
    """A repository with a harness.toml.

    Attributes:
        project: whose it is.
        root: its folder.
        harness: the interpreter of the environment that the harness is installed in.
    """

    project: Project
    root: Path
    harness: Path

    @property
    def written(self) -> Path:
        """The harness.toml as ``init`` wrote it."""
        return self.root.parent / "written.toml"

    def git(self, *arguments: str) -> None:
        """Run git in it."""
        who = ["-c", "user.name=Tester", "-c", "user.email=tester@example.test"]
        code, said = run(["git", *who, *arguments], self.root, user_environment())
        assert code == 0, said

    def exacthead(self, *arguments: str) -> tuple[int, str]:
        """Call the installed harness as its user would."""
        command = [str(self.harness), "-m", "exacthead", *arguments]
        return run(command, self.root, user_environment())

    def finished(self, *arguments: str) -> Finished:
        """Call a command of the harness that makes a run."""
        code, printed = self.exacthead(*arguments)
        begun = re.search(r"^exacthead: run folder (.+)$", printed, re.MULTILINE)
        assert begun, printed
        return Finished(Path(begun[1]), code, printed)

    def worker(self) -> Path:
        """The interpreter of its one worker."""
        (python,) = (self.root / ".cache/workers/workers").glob("*/bin/python")
        return python

    def plain(self, folder: Path, *before: str, **variables: str) -> int:
        """Run pytest alone in the worker and leave ``junit.xml`` in ``folder``.

        It runs over files of its own: what tests leave behind is no change of the checkout.

        Args:
            folder: empty.
            before: how the interpreter starts pytest, if not directly.
            variables: further ones.

        Returns:
            Its exit code.
        """
        root = unpack(self.project, folder)
        command = [str(self.worker()), *before, "-m", "pytest"]
        command += [*self.project.paths, *self.project.arguments]
        command += ["-p", "no:cacheprovider", "-p", "no:randomly"]
        code, printed = run(
            [*command, f"--junitxml={folder / 'junit.xml'}"],
            root,
            {
                **clean_environment(user_environment()),
                "PYTHONPATH": str(root / "src"),
                **variables,
            },
        )
        assert code in {0, 1}, printed
        return code


@dataclass(frozen=True)
class Told:
    """What a JUnit file says: each test by class name and name, with its outcomes, and totals."""

    cases: Mapping[tuple[str, str], tuple[str, ...]]
    totals: Counter[str]
    nodeids: Mapping[str, str]


def told(path: Path) -> Told:
    """Read a JUnit file of pytest or of the harness."""
    cases: dict[tuple[str, str], tuple[str, ...]] = {}
    nodeids: dict[str, str] = {}
    totals: Counter[str] = Counter()
    for record in read_junit(path):
        assert not isinstance(record, Problem), record.text
        if isinstance(record, CaseRecord):
            outcome = _outcome(record)
            key = record.classname, record.name
            cases[key] = (*cases.get(key, ()), outcome)
            totals[outcome] += 1
            if nodeid := record.properties.get("nodeid"):
                assert nodeid not in nodeids, f"{nodeid} has two results"
                nodeids[nodeid] = outcome
    return Told({key: tuple(sorted(each)) for key, each in cases.items()}, totals, nodeids)


def _outcome(record: CaseRecord) -> str:
    """An expected failure is a skip to JUnit; pytest tells them apart by type, we by message."""
    expected = any(
        result.type == "pytest.xfail" or result.message.startswith("xfail")
        for result in record.results
    )
    return "xfailed" if record.outcome == "skipped" and expected else record.outcome


def counted(python: Path, data: Path, root: Path) -> dict[str, tuple[list[int], list[int]]]:
    """Lines by file as coverage's own report tells them: those that ran, those that did not.

    Args:
        python: an interpreter that has coverage.
        data: with names relative to ``root``.
        root: the folder of the sources.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [str(python), "-m", "coverage", "json", "-q", f"--rcfile={relative(folder)}"]
        command += [f"--data-file={data}", "-o", str(report)]
        code, said = run(command, root, clean_environment(user_environment()))
        assert code == 0, said
        files: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))["files"]
    return {name: (each["executed_lines"], each["missing_lines"]) for name, each in files.items()}


def relative(folder: Path | str) -> Path:
    """A configuration of coverage, in ``folder``, for data that names files relative to a root."""
    path = Path(folder, "relative.toml")
    path.write_text("[tool.coverage.run]\nrelative_files = true\n", encoding="utf-8")
    return path
