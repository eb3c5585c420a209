"""Map: which functions ran while each test ran, from an earlier run that measured them.

Tests that shared an item share what ran in it: one test may use what another left in memory (a
cache, a fixture of wider scope, an actor). So a map is the finer, the fewer tests an item had.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coverage import CoverageData
from coverage.exceptions import CoverageException

from exacthead.bootstrap import cache_folder
from exacthead.cover.item import DATA, read_item
from exacthead.errors import HarnessError
from exacthead.git import git, git_bytes
from exacthead.impact.imports import Evidence
from exacthead.impact.source import Part, ran, read_parts
from exacthead.runs.files import write_text
from exacthead.runs.folder import folder_name
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from exacthead.head import Head
    from exacthead.units.result import TestResult

_FORMAT = 1
# What coverage's contexts have behind the node id.
_PHASES = ("|setup", "|call", "|teardown", "|child")


@dataclass(frozen=True)
class Trace:
    """What ran in one item.

    Attributes:
        tests: the tests whose evidence this is: measured, and passed at their first attempt.
        ran: by file, the functions that ran; of a file that was only imported there are none.
        partial: why more may have run than that; empty when the coverage was complete.
    """

    tests: frozenset[str]
    ran: Mapping[str, frozenset[str]]
    partial: str = ""


@dataclass(frozen=True)
class ImpactMap:
    """What one suite's tests ran, at one commit, in workers of these keys."""

    suite: str
    commit: str
    keys: Mapping[str, str]
    traces: tuple[Trace, ...]

    def evidence(self) -> dict[str, Evidence]:
        """The evidence of each test that has some."""
        measured = frozenset(path for trace in self.traces for path in trace.ran)
        found: dict[str, Evidence] = {}
        for trace in self.traces:
            shared = Evidence(trace.ran, measured, trace.partial)
            for test in trace.tests:
                found[test] = shared
        return found


@dataclass(frozen=True)
class Measured:
    """One item of an impact run: its folder, with combined coverage, and what its tests did."""

    folder: Path
    results: tuple[TestResult, ...]


def record(
    root: Path, suite: str, head: Head, keys: Mapping[str, str], items: Iterable[Measured]
) -> tuple[Path, tuple[str, ...]]:
    """Make the map of a suite from an impact run, in place of the one before.

    Args:
        root: the checkout.
        suite: the suite's name.
        head: the run's head.
        keys: the keys of the workers that the suite uses, by name.
        items: the suite's items.

    Returns:
        The map's file, and what a report must say: whose evidence is missing or partial, and why.

    Raises:
        HarnessError: the head was dirty, or no item has evidence of anything.
    """
    if head.dirty:
        raise HarnessError(
            f"an impact map of suite {suite!r}",
            f"the run's checkout was no commit ({head})",
            "commit first: what changed since then is asked of git",
        )
    sources = _Sources(root, head.commit)
    traces, notes = [], []
    for item in items:
        try:
            trace, left = _trace(item, sources)
        except HarnessError as error:
            left = f"no evidence of {len(item.results)} tests: {error.found}"
        else:
            traces.append(trace)
        notes += [f"{item.folder.name}: {left}"] if left else []
    if not any(trace.tests for trace in traces):
        raise HarnessError(
            f"an impact map of suite {suite!r}",
            "; ".join(notes) or "no items",
            "run it with contexts in its coverage",
        )
    data = {
        "format": _FORMAT,
        "suite": suite,
        "commit": head.commit,
        "keys": dict(sorted(keys.items())),
        "traces": [_as_data(trace) for trace in traces],
    }
    path = map_file(root, suite)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(data, separators=(",", ":")) + "\n")
    return path, tuple(notes)


def read_map(root: Path, suite: str, keys: Mapping[str, str]) -> tuple[ImpactMap | None, str]:
    """The map of a suite, if it can be used with workers of these keys, and a line about it."""
    path = map_file(root, suite)
    if not path.exists():
        return None, "no impact map: judged by imports alone"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != _FORMAT:
            return None, f"the impact map is of format {data['format']}: judged by imports alone"
        found = ImpactMap(data["suite"], data["commit"], data["keys"], _traces(data["traces"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise HarnessError(
            f"the impact map {path}", f"{type(error).__name__}: {error}", "remove it"
        ) from error
    if other := sorted(name for name in keys if found.keys.get(name) != keys[name]):
        names = ", ".join(other)
        return None, f"the impact map is of another worker ({names}): judged by imports alone"
    try:
        git(root, "cat-file", "-e", f"{found.commit}^{{commit}}")
    except HarnessError:
        short = found.commit[:12]
        return None, f"the impact map's commit {short} is not here: judged by imports alone"
    return found, f"impact map of {found.commit[:12]}"


def map_file(root: Path, suite: str) -> Path:
    """Where the map of a suite is kept."""
    return cache_folder(root) / "impact" / f"{folder_name(suite)}.json"


class _Sources:
    """The parts of files as they were at a commit."""

    def __init__(self, root: Path, commit: str) -> None:
        self._root = root
        self._commit = commit
        listed = git(root, "ls-tree", "-r", "--name-only", "-z", commit)
        self._files = frozenset(filter(None, listed.split("\0")))
        self._parts: dict[str, dict[str, Part]] = {}

    def find(self, name: str) -> str | None:
        """The file that a measured name means; a copy of a file elsewhere means that file."""
        if name in self._files:
            return name
        words = name.strip("/").split("/")
        tails = ("/".join(words[at:]) for at in range(1, len(words) - 1))
        return next((tail for tail in tails if tail in self._files), None)

    def ran(self, path: str, lines: Iterable[int]) -> frozenset[str]:
        """The functions of a file that have any of these lines."""
        if path not in self._parts:
            text = git_bytes(self._root, "show", f"{self._commit}:./{path}").decode()
            self._parts[path] = read_parts(text)
        return ran(self._parts[path], set(lines))


def _trace(item: Measured, sources: _Sources) -> tuple[Trace, str]:
    """What ran in an item, and why some of its tests have no evidence."""
    coverage = read_item(item.folder)
    data = CoverageData(str(item.folder / DATA))
    try:
        data.read()
        contexts = data.measured_contexts()
        lines = {name: data.lines(name) or [] for name in data.measured_files()}
    except CoverageException as error:
        raise HarnessError(f"read {item.folder / DATA}", str(error), "run it again") from error
    finally:
        data.close(force=True)
    seen = {_test(context) for context in contexts}
    plain = frozenset(result.nodeid for result in item.results if _plain(result))
    found: dict[str, frozenset[str]] = {}
    for name in sorted(lines):
        if path := sources.find(name):
            found[path] = found.get(path, frozenset()) | sources.ran(path, lines[name])
    partial = "" if coverage.complete else f"its coverage is incomplete ({coverage.reasons[0]})"
    left = len(item.results) - len(plain & seen)
    reason = f"no evidence of {left} tests: they did not pass at once, or were not measured"
    return Trace(plain & seen, found, partial), reason if left else partial


def _plain(result: TestResult) -> bool:
    return len(result.attempts) == 1 and result.attempts[0].verdict.kind is Kind.PASSED


def _test(context: str) -> str:
    for phase in _PHASES:
        if context.endswith(phase):
            return context.removesuffix(phase)
    return context


def _as_data(trace: Trace) -> dict[str, Any]:
    ran_there = {path: sorted(functions) for path, functions in sorted(trace.ran.items())}
    return {"tests": sorted(trace.tests), "ran": ran_there, "partial": trace.partial}


def _traces(data: Sequence[dict[str, Any]]) -> tuple[Trace, ...]:
    return tuple(
        Trace(
            frozenset(each["tests"]),
            {path: frozenset(functions) for path, functions in each["ran"].items()},
            each["partial"],
        )
        for each in data
    )
