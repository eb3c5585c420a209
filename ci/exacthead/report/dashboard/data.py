"""What the dashboard shows, read from exacthead.sqlite in one pass for each of its tables.

A row of outcomes is kept as arrays: 200 runs of 10,000 tests are two million outcomes.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from exacthead.verdict import Kind

if TYPE_CHECKING:
    import sqlite3

# A verdict as a small number; "flaky" is no verdict, and yet what a reader wants to see.
VERDICTS = (*(str(kind) for kind in Kind), "flaky")
FLAKY = len(VERDICTS) - 1
_CODES = {name: code for code, name in enumerate(VERDICTS)}
PASSED = _CODES["passed"]
_GREEN = frozenset({PASSED, FLAKY, _CODES["quarantined"]})
_RED = frozenset(_CODES[name] for name in ("failed", "crashed", "timed_out"))


@dataclass(frozen=True)
class Run:
    """One run; ``number`` is its place in time, from 0."""

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
    def score(self) -> float:
        """How often a fresh process disagreed about it: flaky outcomes of all, from 0 to 1."""
        return self.verdicts.count(FLAKY) / len(self.verdicts)

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
class Checked:
    """A metric of a contract's item in one run: the last value that was recorded."""

    run: Run
    value: float


@dataclass(frozen=True)
class Data:
    """Everything, oldest run first.

    Attributes:
        runs: all.
        items: (item, runner) -> its runs.
        kinds: ``leg`` or ``suite`` by item.
        tests: those that ran at least once, by node id.
        faults: newest first.
        builds: oldest first.
        metrics: (item, metric) -> its values.
        coverage: covered and executable lines of each run that measured them.
        problems: what could not be read into the history, a sentence each.
    """

    runs: tuple[Run, ...]
    items: dict[tuple[str, str], list[ItemRun]]
    kinds: dict[str, str]
    tests: list[TestRow]
    faults: list[Fault]
    builds: list[Build]
    metrics: dict[tuple[str, str], list[Checked]]
    coverage: list[tuple[Run, int, int]]
    problems: list[str]


def read(database: sqlite3.Connection) -> Data:
    """All that the pages need.

    Args:
        database: of the newest schema.
    """
    by_id = _runs(database)
    items, kinds, item_runs = _items(database, by_id)
    return Data(
        runs=tuple(by_id.values()),
        items=items,
        kinds=kinds,
        tests=_tests(database, item_runs),
        faults=_faults(database, by_id),
        builds=_builds(database, by_id),
        metrics=_metrics(database, by_id),
        coverage=[
            (by_id[run], covered, total)
            for run, covered, total in database.execute(
                "SELECT coverage.run, sum(covered), sum(total) FROM coverage"
                " JOIN run ON run.id = coverage.run GROUP BY coverage.run ORDER BY started, name"
            )
        ],
        problems=[text for (text,) in database.execute("SELECT DISTINCT text FROM note")],
    )


def _runs(database: sqlite3.Connection) -> dict[int, Run]:
    rows = database.execute(
        "SELECT id, name, started, head, dirty, runner, flavour, state, seconds FROM run"
        " ORDER BY started, name"
    )
    return {
        row[0]: Run(number, *row[1:4], bool(row[4]), *row[5:]) for number, row in enumerate(rows)
    }


def _items(
    database: sqlite3.Connection, runs: dict[int, Run]
) -> tuple[dict[tuple[str, str], list[ItemRun]], dict[str, str], list[tuple[int, Run]]]:
    items: dict[tuple[str, str], list[ItemRun]] = {}
    kinds: dict[str, str] = {}
    order = []
    for item, run_id, name, kind, verdict, reason, seconds in database.execute(
        "SELECT item.id, run, item.name, kind, verdict, reason, item.seconds FROM item"
        " JOIN run ON run.id = item.run ORDER BY started, run.name, item.id"
    ):
        run = runs[run_id]
        items.setdefault((name, run.runner), []).append(ItemRun(run, verdict, reason, seconds))
        kinds[name] = kind
        order.append((item, run))
    return items, kinds, order


def _tests(database: sqlite3.Connection, items: list[tuple[int, Run]]) -> list[TestRow]:
    rows = {
        test: TestRow(nodeid, file)
        for test, nodeid, file in database.execute("SELECT id, nodeid, file FROM test")
    }
    unknown = float("nan")
    # Item by item along the primary key: sorting two million rows in the database takes longer.
    query = "SELECT test, verdict, seconds, flaky FROM outcome WHERE item = ?"
    for item, run in items:
        number = run.number
        for test, verdict, seconds, flaky in database.execute(query, (item,)):
            row = rows[test]
            row.runs.append(number)
            row.verdicts.append(FLAKY if flaky else _CODES[verdict])
            row.seconds.append(unknown if seconds is None else seconds)
    return sorted((row for row in rows.values() if row.runs), key=lambda row: row.nodeid)


def _faults(database: sqlite3.Connection, runs: dict[int, Run]) -> list[Fault]:
    return [
        Fault(runs[run], item, nodeid or "", verdict, failure_class, group, reason)
        for run, item, nodeid, verdict, failure_class, group, reason in database.execute(
            "SELECT run.id, item.name, nodeid, fault.verdict, class, grouping, fault.reason"
            " FROM fault JOIN item ON item.id = fault.item JOIN run ON run.id = item.run"
            " LEFT JOIN test ON test.id = fault.test ORDER BY started DESC, run.name DESC, fault.id"
        )
    ]


def _builds(database: sqlite3.Connection, runs: dict[int, Run]) -> list[Build]:
    return [
        Build(runs[run], *rest)
        for run, *rest in database.execute(
            "SELECT run, kind, build.name, key, how, build.seconds FROM build"
            " JOIN run ON run.id = build.run ORDER BY started, run.name, kind, build.name"
        )
    ]


def _metrics(
    database: sqlite3.Connection, runs: dict[int, Run]
) -> dict[tuple[str, str], list[Checked]]:
    """Those that a contract has checked, and what was timed."""
    metrics: dict[tuple[str, str], list[Checked]] = {}
    for run, item, name, last in database.execute(
        "SELECT run.id, item.name, metric.name, last FROM measurement"
        " JOIN metric ON metric.id = measurement.metric JOIN item ON item.id = measurement.item"
        " JOIN run ON run.id = item.run"
        " WHERE metric.name LIKE 'timing/%'"
        " OR metric.name IN (SELECT metric FROM contract_check)"
        " ORDER BY started, run.name"
    ):
        metrics.setdefault((item, name), []).append(Checked(runs[run], last))
    return metrics
