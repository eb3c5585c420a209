"""Outcomes of an item as columns of numbers, beside its rows.

A dashboard reads millions of outcomes. As rows they cost more than everything that is made of them;
as columns they are read at the speed of the disk. The rows are what counts: a column is made of
them, and goes with its item.
"""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

# A code is the place in here, for ever; "flaky" is no verdict, and yet what a reader wants to see.
VERDICTS = (
    *("passed", "failed", "crashed", "timed_out", "skipped"),
    *("not_run", "quarantined", "interrupted", "flaky"),
)
_CODES = {name: code for code, name in enumerate(VERDICTS)}
_UNKNOWN = float("nan")


@dataclass(frozen=True)
class Columns:
    """The outcomes of one item, by the number of their test.

    Attributes:
        tests: the numbers, four bytes each; the same bytes for the same tests.
        verdicts: a code each.
        seconds: a time each; NaN when not known.
    """

    tests: bytes
    verdicts: bytes
    seconds: array[float]

    def numbers(self) -> array[int]:
        """The numbers of the tests."""
        return _unpacked("I", self.tests)


def write(
    connection: sqlite3.Connection,
    item: int,
    outcomes: Iterable[tuple[int, str, float | None, bool]],
) -> None:
    """Keep the columns of an item.

    Args:
        connection: of the history.
        item: its number.
        outcomes: test, verdict, seconds, whether it was flaky; one for each test.
    """
    rows = sorted(outcomes, key=lambda each: each[0])
    tests = array("I", [test for test, *_ in rows])
    codes = bytes(_CODES["flaky" if flaky else verdict] for _, verdict, _, flaky in rows)
    seconds = array("f", [_UNKNOWN if took is None else took for *_, took, _ in rows])
    connection.execute(
        "INSERT OR REPLACE INTO packed VALUES (?, ?, ?, ?)",
        (item, _packed(tests), codes, _packed(seconds)),
    )


def complete(connection: sqlite3.Connection) -> None:
    """Make the columns that are not there: those of what an older version has taken in."""
    missing = connection.execute(
        "SELECT id FROM item WHERE kind <> 'leg' AND id NOT IN (SELECT item FROM packed)"
    ).fetchall()
    for (item,) in missing:
        rows = connection.execute(
            "SELECT test, verdict, seconds, flaky FROM outcome WHERE item = ?", (item,)
        )
        write(connection, item, rows)


def read(connection: sqlite3.Connection, item: int) -> Columns | None:
    """The columns of an item; None of one without tests."""
    found = connection.execute(
        "SELECT tests, verdicts, seconds FROM packed WHERE item = ?", (item,)
    ).fetchone()
    if found is None or not found[0]:
        return None
    tests, verdicts, seconds = found
    return Columns(tests, verdicts, _unpacked("f", seconds))


def _packed(values: array[int] | array[float]) -> bytes:
    """Little-endian, on every machine."""
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def _unpacked(kind: str, data: bytes) -> array:  # type: ignore[type-arg]
    values = array(kind, data)
    if sys.byteorder == "big":
        values.byteswap()
    return values
