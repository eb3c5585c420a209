"""Facts of a run beside its outcomes: checks, metrics, coverage, builds."""

from __future__ import annotations

import sqlite3
import sys
from statistics import median
from typing import TYPE_CHECKING
from xml.parsers import expat

from exacthead.contracts import series
from exacthead.contracts.evaluate import read_json
from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from exacthead.history.records import Provenance
    from exacthead.runs.folder import ItemFolder

_XML = "coverage.xml"
# What could not be read, and why.
Unread = tuple["Path", Exception]


def insert(connection: sqlite3.Connection, into: str, *values: object) -> int:
    """Add one row and return its number.

    Raises:
        sqlite3.Error: it was not added.
    """
    places = ", ".join("?" * len(values))
    # The text is ours, and values are bound.
    statement = f"INSERT INTO {into} VALUES ({places})"  # noqa: S608
    row = connection.execute(statement, values).lastrowid
    if row is None:
        raise sqlite3.DatabaseError(f"no row was added to {into}")
    return row


def leg(connection: sqlite3.Connection, item: int, folder: ItemFolder) -> Iterator[Unread]:
    """The contract's checks and the metrics of a leg; gives what could not be read."""
    if folder.contract.exists():
        try:
            checked = read_json(folder.contract)
        except HarnessError as error:
            yield folder.contract, error
        else:
            connection.executemany(
                "INSERT INTO contract_check VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (item, each.name, each.kind, each.metric, str(each.verdict.kind),
                     each.verdict.reason, each.observed, each.bound)
                    for each in checked.checks
                ],
            )  # fmt: skip
    for name, points in series.read(folder.metrics).metrics.series.items():
        numbers = [float(each.value) for each in points if _is_number(each.value)]
        if numbers:
            connection.execute("INSERT OR IGNORE INTO metric (name) VALUES (?)", (name,))
            connection.execute(
                "INSERT INTO measurement SELECT ?, id, ?, ?, ?, ?, ? FROM metric WHERE name = ?",
                (
                    item,
                    len(numbers),
                    numbers[-1],
                    median(numbers),
                    min(numbers),
                    max(numbers),
                    name,
                ),
            )


def builds(connection: sqlite3.Connection, run: int, used: Provenance) -> None:
    """The workers and images that a run used, and how long it took to have them."""
    rows = [
        (run, "worker", each.name, each.key, each.how, each.seconds if each.how else None)
        for each in used.workers
    ]
    rows += [
        (run, "image", name, digest, "", used.image_seconds.get(name))
        for name, digest in used.images.items()
    ]
    connection.executemany("INSERT INTO build VALUES (?, ?, ?, ?, ?, ?)", rows)


def coverage(connection: sqlite3.Connection, run: int, folder: Path) -> Iterator[Unread]:
    """The coverage of a run by file; gives what could not be read."""
    if not (folder / _XML).exists():
        return
    from exacthead.cover.combine import read_files  # slow to import, and a job can do without

    try:
        files = read_files(folder / _XML)
    except (OSError, expat.ExpatError, KeyError, StopIteration) as error:
        yield folder / _XML, ValueError(f"{_XML}: {error}")
        return
    rows = [(run, each.path, each.covered, each.total) for each in files]
    connection.executemany("INSERT INTO coverage VALUES (?, ?, ?, ?)", rows)


def _summary(numbers: list[float]) -> tuple[int, float, float, float, float]:
    """How many, the last, the median, the least, the most."""
    return len(numbers), numbers[-1], median(numbers), min(numbers), max(numbers)


def _is_number(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    # JSON can hold an integer that no float can; NaN fails the comparison.
    return abs(value) <= sys.float_info.max
