"""Tests over many runs: since when they fail, how flaky, how slow, and whether they slow down."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from exacthead.history.change import changes
from exacthead.units.result import FAULTS
from exacthead.verdict import Kind

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from exacthead.history.change import Change
    from exacthead.history.rows import RunRow

_FAULTS = frozenset(map(str, FAULTS | {Kind.QUARANTINED}))
# Of so many last passes the time is typical.
_TYPICAL = 20
# What takes less is not looked at for slowing down: it is the noise of the machine.
_SLOW_S = 0.05


@dataclass(frozen=True)
class Past:
    """One outcome of a test. ``run`` is the index of its run among those that were read."""

    run: int
    verdict: str
    seconds: float | None
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
        flaky_runs: how many runs saw it pass after a fault.
        quarantined: whether its last end was a known failure.
        typical: the median of its last passes, in seconds; None without any.
        slower: the last change of its times, when it made them longer; ``at`` counts its passes.
        slower_run: the index of the first run with the new level.
    """

    __test__ = False

    nodeid: str
    outcomes: tuple[Past, ...]
    since: int | None = None
    green: int | None = None
    row: int = 0
    score: float = 0.0
    flaky_runs: int = 0
    quarantined: bool = False
    typical: float | None = None
    slower: Change | None = None
    slower_run: int | None = None


def read_tests(
    connection: sqlite3.Connection, among: Sequence[RunRow], nodeids: Sequence[str] | None = None
) -> dict[str, TestHistory]:
    """Tests over some runs, by node id.

    Args:
        connection: of the history.
        among: the runs, the oldest first.
        nodeids: only these; None for all.
    """
    outcomes = _of_all(connection, among) if nodeids is None else None
    if nodeids is not None:
        outcomes = _of_some(connection, among, nodeids)
    return {nodeid: _history(nodeid, found, among) for nodeid, found in (outcomes or {}).items()}


def read_items(connection: sqlite3.Connection, among: Sequence[RunRow]) -> dict[str, TestHistory]:
    """The same of items: their own verdicts, by their names."""
    found: dict[str, list[Past]] = defaultdict(list)
    for index, run in enumerate(among):
        rows = connection.execute(
            "SELECT name, verdict, seconds FROM item WHERE run = ?", (run.id,)
        )
        for name, verdict, seconds in rows:
            found[name].append(Past(index, verdict, seconds, 1, flaky=False))
    return {name: _history(name, past, among) for name, past in found.items()}


def _of_all(connection: sqlite3.Connection, among: Sequence[RunRow]) -> dict[str, list[Past]]:
    found: dict[int, list[Past]] = defaultdict(list)
    for index, run in enumerate(among):
        rows = connection.execute(
            "SELECT test, verdict, seconds, attempts, flaky FROM outcome"
            " WHERE item IN (SELECT id FROM item WHERE run = ?)",
            (run.id,),
        )
        for test, *facts in rows:
            found[test].append(_past(index, facts))
    names = dict(connection.execute("SELECT id, nodeid FROM test"))
    return {names[test]: past for test, past in found.items()}


def _of_some(
    connection: sqlite3.Connection, among: Sequence[RunRow], nodeids: Sequence[str]
) -> dict[str, list[Past]]:
    indices = {run.id: index for index, run in enumerate(among)}
    found = {}
    for nodeid in nodeids:
        rows = connection.execute(
            "SELECT item.run, outcome.verdict, outcome.seconds, attempts, flaky FROM outcome"
            " JOIN item ON item.id = outcome.item"
            " WHERE test = (SELECT id FROM test WHERE nodeid = ?)",
            (nodeid,),
        )
        past = [_past(indices[run], facts) for run, *facts in rows if run in indices]
        if past:
            found[nodeid] = sorted(past, key=lambda each: each.run)
    return found


def _past(run: int, facts: Sequence[object]) -> Past:
    verdict, seconds, attempts, flaky = facts
    return Past(run, str(verdict), seconds, attempts, bool(flaky))  # type: ignore[arg-type]


def _history(nodeid: str, found: list[Past], among: Sequence[RunRow]) -> TestHistory:
    since, green, row = _row(found)
    passes = [
        (each.run, each.seconds)
        for each in found
        if each.verdict == Kind.PASSED and each.seconds is not None
    ]
    times = [seconds for _, seconds in passes]
    typical = median(times[-_TYPICAL:]) if times else None
    slower = _slower(times) if typical is not None and typical >= _SLOW_S else None
    return TestHistory(
        nodeid=nodeid,
        outcomes=tuple(found),
        since=since,
        green=green,
        row=row,
        score=_score(found, among),
        flaky_runs=len({each.run for each in found if each.flaky}),
        quarantined=found[-1].verdict == Kind.QUARANTINED,
        typical=typical,
        slower=slower,
        slower_run=passes[slower.at][0] if slower else None,
    )


def _row(found: list[Past]) -> tuple[int | None, int | None, int]:
    """The first run of the row of faults at the end, the last pass before it, its length."""
    since, runs = None, set()
    for each in reversed(found):
        if each.verdict in _FAULTS:
            since = each.run
            runs.add(each.run)
        elif each.verdict == Kind.PASSED:
            return since, each.run if since is not None else None, len(runs)
    return since, None, len(runs)


def _slower(times: list[float]) -> Change | None:
    last = changes(times)[-1:]
    return last[0] if last and last[0].after > last[0].before else None


@dataclass
class _Tally:
    """Attempts at one head on one runner, each in a fresh process."""

    passed: int = 0
    faults: int = field(default=0)


def _score(found: list[Past], among: Sequence[RunRow]) -> float:
    if not any(each.flaky or each.verdict in _FAULTS for each in found):
        return 0.0
    tallies: dict[tuple[str, str], _Tally] = defaultdict(_Tally)
    for each, run in ((each, among[each.run]) for each in found):
        if run.dirty:
            continue
        tally = tallies[run.head, run.runner]
        if each.verdict in _FAULTS:
            tally.faults += each.attempts
        elif each.verdict == Kind.PASSED:
            tally.passed += 1
            tally.faults += each.attempts - 1 if each.flaky else 0
    disagree = sum(each.passed * each.faults for each in tallies.values())
    pairs = sum(_pairs(each.passed + each.faults) for each in tallies.values())
    return disagree / pairs if pairs else 0.0


def _pairs(count: int) -> int:
    return count * (count - 1) // 2


def slowest(tests: dict[str, TestHistory], most: int) -> list[TestHistory]:
    """Those with the longest typical time, the longest first."""
    timed = (each for each in tests.values() if each.typical is not None)
    return sorted(timed, key=lambda each: -(each.typical or 0.0))[:most]


def slowing(tests: dict[str, TestHistory], most: int) -> list[TestHistory]:
    """Those whose times have become longer, by how much, the most first."""

    def longer(test: TestHistory) -> float:
        return test.slower.after - test.slower.before if test.slower else 0.0

    return sorted((e for e in tests.values() if e.slower), key=longer, reverse=True)[:most]


def flakiest(tests: dict[str, TestHistory], most: int) -> list[TestHistory]:
    """Those with the highest score; none of those that always do the same."""
    found = (each for each in tests.values() if each.score or each.flaky_runs)
    return sorted(found, key=lambda each: (-each.score, -each.flaky_runs, each.nodeid))[:most]


def red(tests: dict[str, TestHistory]) -> Iterator[TestHistory]:
    """Those whose last end was a fault, known or not."""
    return (each for each in tests.values() if each.since is not None)
