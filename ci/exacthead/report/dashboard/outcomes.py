"""The outcomes of tests over runs, as arrays: 200 runs of 10,000 tests are two million outcomes."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import isnan
from statistics import median
from typing import TYPE_CHECKING

from exacthead.history.packed import VERDICTS, read
from exacthead.units.result import FAULTS, RED
from exacthead.verdict import Kind

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from exacthead.report.dashboard.data import Run

_FLAKY = VERDICTS.index("flaky")
_PASSES = frozenset({VERDICTS.index(Kind.PASSED), _FLAKY})
_FAULTS = frozenset(VERDICTS.index(kind) for kind in FAULTS)
_RED = frozenset(VERDICTS.index(kind) for kind in RED)
# Of so many last passes the time is typical.
_TYPICAL = 20


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
    def ends(self) -> list[str]:
        """What became of it each time, in words."""
        return [VERDICTS[code] for code in self.verdicts]

    @property
    def last(self) -> str:
        """What became of it the last time."""
        return VERDICTS[self.verdicts[-1]]

    @property
    def red(self) -> bool:
        """Whether it showed a fault the last time that is not a known one."""
        return self.verdicts[-1] in _FAULTS

    @property
    def odd(self) -> bool:
        """Whether a fresh process ever disagreed in one run."""
        return _FLAKY in self.verdicts

    @cached_property
    def reds(self) -> int:
        """In how many runs it showed a fault, known ones included."""
        return sum(self.verdicts.count(code) for code in _RED)

    @cached_property
    def typical(self) -> float | None:
        """The median time of its last twenty passes; None when none is known."""
        known = [seconds for _, seconds in islice(self._passes(), _TYPICAL)]
        return median(known) if known else None

    def passes(self, last: int) -> list[tuple[int, float]]:
        """The run and the time of each of so many last passes, the oldest first."""
        return list(islice(self._passes(), last))[::-1]

    def _passes(self) -> Iterator[tuple[int, float]]:
        """The same, the newest first."""
        backwards = zip(
            reversed(self.runs), reversed(self.seconds), reversed(self.verdicts), strict=True
        )
        return (
            (run, seconds)
            for run, seconds, code in backwards
            if code in _PASSES and not isnan(seconds)
        )


@dataclass
class _Block:
    """Items that had the same tests: after one run's outcomes those of the next, test by test."""

    tests: array[int]
    runs: array[int] = field(default_factory=lambda: array("I"))
    verdicts: bytearray = field(default_factory=bytearray)
    seconds: array[float] = field(default_factory=lambda: array("f"))


def read_outcomes(database: sqlite3.Connection, items: Iterable[tuple[int, Run]]) -> list[TestRow]:
    """The tests that are in any of the items, by node id.

    Args:
        database: of the newest schema.
        items: ids with their runs, the oldest run first.
    """
    made = {
        test: TestRow(nodeid, file)
        for test, nodeid, file in database.execute("SELECT id, nodeid, file FROM test")
    }
    for block in _blocks(database, items):
        width = len(block.tests)
        for at, test in enumerate(block.tests):
            row = made[test]
            row.runs.extend(block.runs)
            row.verdicts.extend(block.verdicts[at::width])
            row.seconds.extend(block.seconds[at::width])
    rows = sorted((row for row in made.values() if row.runs), key=lambda row: row.nodeid)
    for row in rows:
        _in_time(row)
    return rows


def _blocks(database: sqlite3.Connection, items: Iterable[tuple[int, Run]]) -> Iterable[_Block]:
    """All outcomes by the tests that were together: most items have the tests of the run before."""
    blocks: dict[bytes, _Block] = {}
    for item, run in items:
        columns = read(database, item)
        if columns is None:
            continue
        if columns.tests not in blocks:
            blocks[columns.tests] = _Block(columns.numbers())
        block = blocks[columns.tests]
        block.runs.append(run.number)
        block.verdicts.extend(columns.verdicts)
        block.seconds.extend(columns.seconds)
    return blocks.values()


def _in_time(row: TestRow) -> None:
    """Sort the outcomes of a test that was in items with other tests in between."""
    if list(row.runs) == sorted(row.runs):
        return
    order = sorted(range(len(row.runs)), key=row.runs.__getitem__)
    row.runs = array("I", [row.runs[at] for at in order])
    row.verdicts = bytearray(row.verdicts[at] for at in order)
    row.seconds = array("f", [row.seconds[at] for at in order])
