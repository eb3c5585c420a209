"""What the dashboard shows, read from exacthead.sqlite in one pass for each of its tables.

A row of outcomes is kept as arrays: 200 runs of 10,000 tests are two million outcomes.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING

from exacthead.history import rows, trends
from exacthead.history.tests import read_tests
from exacthead.verdict import Kind

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from exacthead.history.rows import RunRow
    from exacthead.history.tests import TestHistory
    from exacthead.history.trends import Series

# A verdict as a small number; "flaky" is no verdict, and yet what a reader wants to see.
VERDICTS = (*(str(kind) for kind in Kind), "flaky")
FLAKY = len(VERDICTS) - 1
PASSED = VERDICTS.index("passed")
_RED = frozenset(VERDICTS.index(name) for name in ("failed", "crashed", "timed_out"))


@dataclass(frozen=True)
class Run:
    """One run; ``number`` is its place in time among those that are shown, from 0."""

    number: int
    name: str
    started: str
    head: str
    dirty: bool
    runner: str
    flavour: str
    state: str
    seconds: float

    @property
    def label(self) -> str:
        """Its head in short, and whether it was exactly that."""
        return f"{self.head[:10]}{'*' if self.dirty else ''}"


@dataclass(frozen=True)
class ItemRun:
    """What became of one item in one run."""

    run: Run
    verdict: str
    reason: str
    seconds: float


@dataclass
class TestRow:
    """One test over all runs, oldest first.

    Attributes:
        nodeid: its name.
        file: that it lies in.
        runs: the place in time of each run that had it.
        verdicts: the codes of what became of it there.
        seconds: how long it took; NaN when not known.
    """

    __test__ = False  # for pytest, to which the name looks like a test class

    nodeid: str
    file: str
    runs: array[int] = field(default_factory=lambda: array("I"))
    verdicts: bytearray = field(default_factory=bytearray)
    seconds: array[float] = field(default_factory=lambda: array("f"))

    @property
    def last(self) -> str:
        """What became of it the last time."""
        return VERDICTS[self.verdicts[-1]]

    @property
    def red(self) -> bool:
        """Whether it showed a fault the last time."""
        return self.verdicts[-1] in _RED

    @property
    def odd(self) -> bool:
        """Whether a fresh process ever disagreed in one run."""
        return FLAKY in self.verdicts

    @property
    def reds(self) -> int:
        """In how many runs it showed a fault."""
        return sum(self.verdicts.count(code) for code in _RED)

    def times(self, last: int = 0) -> list[float]:
        """The known durations, of the last so many outcomes or of all."""
        return [each for each in self.seconds[-last:] if each == each]  # noqa: PLR0124 - NaN

    def usual(self, last: int = 20) -> float | None:
        """The median of the last durations; None when none is known."""
        known = self.times(last)
        return median(known) if known else None


@dataclass(frozen=True)
class Fault:
    """One fault in one run."""

    run: Run
    item: str
    nodeid: str
    verdict: str
    failure_class: str
    group: str
    reason: str


@dataclass(frozen=True)
class Build:
    """How a worker or an image came about in one run."""

    run: Run
    kind: str
    name: str
    key: str
    how: str
    seconds: float | None


@dataclass(frozen=True)
class Data:
    """Everything, oldest run first.

    Attributes:
        runs: the newest ones, so many as were asked for.
        items: (item, runner) -> its runs.
        kinds: ``leg`` or ``suite`` by item.
        tests: those that ran at least once, by node id.
        suspects: of them those that ever showed a fault, with what the history says of them.
        faults: newest first.
        builds: oldest first.
        metrics: those that a contract has checked or that were timed.
        coverage: of each set of items that ran together.
        build_times: of each worker and image.
        problems: what could not be read into the history, a sentence each.
    """

    runs: tuple[Run, ...]
    items: dict[tuple[str, str], list[ItemRun]]
    kinds: dict[str, str]
    tests: list[TestRow]
    suspects: dict[str, TestHistory]
    faults: list[Fault]
    builds: list[Build]
    metrics: list[Series]
    coverage: list[Series]
    build_times: list[Series]
    problems: list[str]

    def score(self, nodeid: str) -> float:
        """How often two fresh processes disagreed about a test, from 0 to 1."""
        suspect = self.suspects.get(nodeid)
        return suspect.score if suspect else 0.0


def read(database: sqlite3.Connection, most: int) -> Data:
    """All that the pages need.

    Args:
        database: of the newest schema.
        most: how many runs, the newest.
    """
    among = rows.runs(database, most)
    runs = tuple(
        Run(
            number=number,
            name=row.name,
            started=row.started,
            head=row.head,
            dirty=row.dirty,
            runner=row.runner,
            flavour=row.flavour,
            state=row.state,
            seconds=row.seconds,
        )
        for number, row in enumerate(among)
    )
    by_id = {row.id: run for row, run in zip(among, runs, strict=True)}
    items: dict[tuple[str, str], list[ItemRun]] = {}
    kinds: dict[str, str] = {}
    sets: dict[str, list[RunRow]] = {}
    listed = rows.items(database, among)
    for row, run in zip(among, runs, strict=True):
        for item in listed[row.id]:
            one = ItemRun(run, item.verdict, item.reason, item.seconds)
            items.setdefault((item.name, run.runner), []).append(one)
            kinds[item.name] = item.kind
        sets.setdefault(", ".join(sorted(each.name for each in listed[row.id])), []).append(row)
    tests = _tests(
        database, [(item.id, by_id[item.run]) for row in among for item in listed[row.id]]
    )
    suspects = [each.nodeid for each in tests if each.odd or each.reds]
    return Data(
        runs=runs,
        items=items,
        kinds=kinds,
        tests=tests,
        suspects=read_tests(database, among, suspects),
        faults=_faults(database, by_id),
        builds=_builds(database, by_id),
        metrics=_metrics(database, among),
        coverage=_coverage(database, among, sets),
        build_times=trends.builds(database, among),
        problems=[text for (text,) in database.execute("SELECT DISTINCT text FROM note")],
    )


def _tests(database: sqlite3.Connection, items: Sequence[tuple[int, Run]]) -> list[TestRow]:
    made = {
        test: TestRow(nodeid, file)
        for test, nodeid, file in database.execute("SELECT id, nodeid, file FROM test")
    }
    # There are millions of outcomes: the database turns words into numbers, and nothing is looked
    # up twice.
    adders = {
        test: (row.runs.append, row.verdicts.append, row.seconds.append)
        for test, row in made.items()
    }
    codes = " ".join(f"WHEN '{name}' THEN {code}" for code, name in enumerate(VERDICTS))
    # Item by item along the primary key: sorting all of them in the database takes longer.
    query = (
        f"SELECT test, CASE WHEN flaky THEN {FLAKY} ELSE CASE verdict {codes} END END, seconds"  # noqa: S608 - names of ours
        " FROM outcome WHERE item = ?"
    )
    unknown = float("nan")
    for item, run in items:
        number = run.number
        for test, verdict, seconds in database.execute(query, (item,)):
            add_run, add_verdict, add_seconds = adders[test]
            add_run(number)
            add_verdict(verdict)
            add_seconds(unknown if seconds is None else seconds)
    return sorted((row for row in made.values() if row.runs), key=lambda row: row.nodeid)


def _faults(database: sqlite3.Connection, runs: dict[int, Run]) -> list[Fault]:
    return [
        Fault(runs[run], *rest)
        for run, *rest in database.execute(
            "SELECT run.id, item.name, coalesce(nodeid, ''), fault.verdict, class, grouping,"
            " fault.reason FROM fault JOIN item ON item.id = fault.item"
            " JOIN run ON run.id = item.run LEFT JOIN test ON test.id = fault.test"
            " ORDER BY run.started DESC, run.name DESC, fault.id"
        )
        if run in runs
    ]


def _builds(database: sqlite3.Connection, runs: dict[int, Run]) -> list[Build]:
    return [
        Build(runs[run], *rest)
        for run, *rest in database.execute(
            "SELECT run, kind, build.name, key, how, build.seconds FROM build"
            " JOIN run ON run.id = build.run ORDER BY run.started, run.name, build.kind, build.name"
        )
        if run in runs
    ]


def _metrics(database: sqlite3.Connection, among: Sequence[RunRow]) -> list[Series]:
    checked = {name for (name,) in database.execute("SELECT DISTINCT metric FROM contract_check")}
    return [
        each
        for each in trends.metrics(database, among)
        if each.name in checked or each.name.startswith("timing/")
    ]


def _coverage(
    database: sqlite3.Connection, among: Sequence[RunRow], sets: dict[str, list[RunRow]]
) -> list[Series]:
    """Runs of other items cover other lines: one curve over all would only show who ran."""
    index = {row.id: number for number, row in enumerate(among)}
    found = []
    for name, part in sets.items():
        series = trends.coverage(database, part)
        points = tuple(replace(each, run=index[part[each.run].id]) for each in series.points)
        found.append(replace(series, item=name, points=points))
    return found
