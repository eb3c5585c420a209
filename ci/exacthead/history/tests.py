"""Tests over many runs: since when they fail, and how flaky they are."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exacthead.units.result import RED
from exacthead.verdict import Kind

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from exacthead.history.rows import RunRow


@dataclass(frozen=True)
class Past:
    """One outcome of a test. ``run`` is the index of its run among those that were read."""

    run: int
    verdict: str
    attempts: int
    flaky: bool


@dataclass(frozen=True)
class TestHistory:
    """One test over the runs that were read.

    Attributes:
        nodeid: the test's.
        outcomes: the oldest first; none of the runs without it.
        since: the index of the first run of the unbroken row of faults that it is in; None when
            its last end was none. What did not run, or skipped itself, breaks no row.
        green: the index of the last run before that row in which it passed.
        row: how many runs the row has.
        score: how often two fresh processes at one head disagreed: the share of all pairs of
            attempts, on clean heads and one runner, of which one passed and one showed a fault.
            0 for a test that always does the same, also for one that always fails.
    """

    __test__ = False

    nodeid: str
    outcomes: tuple[Past, ...]
    since: int | None = None
    green: int | None = None
    row: int = 0
    score: float = 0.0


def read_tests(
    connection: sqlite3.Connection, among: Sequence[RunRow], nodeids: Iterable[str]
) -> dict[str, TestHistory]:
    """Tests over some runs, by node id; without those that were in none of them.

    Args:
        connection: of the history.
        among: the runs, the oldest first.
        nodeids: of the tests.
    """
    indices = {run.id: index for index, run in enumerate(among)}
    found = {}
    for nodeid in nodeids:
        rows = connection.execute(
            "SELECT item.run, outcome.verdict, attempts, flaky FROM outcome"
            " JOIN item ON item.id = outcome.item"
            " WHERE test = (SELECT id FROM test WHERE nodeid = ?)",
            (nodeid,),
        )
        past = [
            Past(indices[run], verdict, attempts, bool(flaky))
            for run, verdict, attempts, flaky in rows
            if run in indices
        ]
        if past:
            found[nodeid] = _history(nodeid, sorted(past, key=lambda each: each.run), among)
    return found


def read_items(connection: sqlite3.Connection, among: Sequence[RunRow]) -> dict[str, TestHistory]:
    """The same of items: their own verdicts, by their names."""
    found: dict[str, list[Past]] = defaultdict(list)
    for index, run in enumerate(among):
        rows = connection.execute("SELECT name, verdict FROM item WHERE run = ?", (run.id,))
        for name, verdict in rows:
            found[name].append(Past(index, verdict, 1, flaky=False))
    return {name: _history(name, past, among) for name, past in found.items()}


def _history(nodeid: str, found: list[Past], among: Sequence[RunRow]) -> TestHistory:
    since, green, row = _row(found)
    return TestHistory(
        nodeid=nodeid,
        outcomes=tuple(found),
        since=since,
        green=green,
        row=row,
        score=_score(found, among),
    )


def _row(found: list[Past]) -> tuple[int | None, int | None, int]:
    """The first run of the row of faults at the end, the last pass before it, its length."""
    since, runs = None, set()
    for each in reversed(found):
        if each.verdict in RED:
            since = each.run
            runs.add(each.run)
        elif each.verdict == Kind.PASSED:
            return since, each.run if since is not None else None, len(runs)
    return since, None, len(runs)


@dataclass
class _Tally:
    """Attempts at one head on one runner, each in a fresh process."""

    passed: int = 0
    faults: int = field(default=0)


def _score(found: list[Past], among: Sequence[RunRow]) -> float:
    if not any(each.flaky or each.verdict in RED for each in found):
        return 0.0
    tallies: dict[tuple[str, str], _Tally] = defaultdict(_Tally)
    for each, run in ((each, among[each.run]) for each in found):
        if run.dirty:
            continue
        tally = tallies[run.head, run.runner]
        if each.verdict in RED:
            tally.faults += each.attempts
        elif each.verdict == Kind.PASSED:
            tally.passed += 1
            tally.faults += each.attempts - 1 if each.flaky else 0
    disagree = sum(each.passed * each.faults for each in tallies.values())
    pairs = sum(_pairs(each.passed + each.faults) for each in tallies.values())
    return disagree / pairs if pairs else 0.0


def _pairs(count: int) -> int:
    return count * (count - 1) // 2
