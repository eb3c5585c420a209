"""Columns of outcomes: made with a run, made of the rows of older versions, gone with the run."""

from __future__ import annotations

import math
from contextlib import closing
from typing import TYPE_CHECKING

from exacthead.history.database import NAME, open_history, sync
from exacthead.history.folders import History
from exacthead.history.packed import VERDICTS, read
from exacthead.history.schema import connect
from exacthead.verdict import Kind
from unit.exacthead.triage.making import outcome

if TYPE_CHECKING:
    import sqlite3

    from unit.exacthead.triage.making import Runs


def columns(connection: sqlite3.Connection, item: int) -> list[tuple[int, str, float | None]]:
    found = read(connection, item)
    assert found is not None
    seconds = [None if math.isnan(each) else round(each, 6) for each in found.seconds]
    verdicts = [VERDICTS[code] for code in found.verdicts]
    return list(zip(found.numbers(), verdicts, seconds, strict=True))


def rows(connection: sqlite3.Connection, item: int) -> list[tuple[int, str, float | None]]:
    return connection.execute(
        "SELECT test, CASE WHEN flaky THEN 'flaky' ELSE verdict END, seconds FROM outcome"
        " WHERE item = ? ORDER BY test",
        (item,),
    ).fetchall()


def made(runs: Runs) -> None:
    runs.add(
        {
            "unit.own": [
                outcome("u/test_b.py::b", Kind.FAILED, Kind.PASSED),
                outcome("u/test_a.py::a", Kind.CRASHED),
                outcome("u/test_a.py::c", Kind.PASSED),
            ],
            "unit.none": [],
        }
    )


def test_the_columns_say_what_the_rows_say(runs: Runs) -> None:
    made(runs)
    with closing(open_history(runs.folder)) as connection:
        sync(connection, History(runs.folder))

        assert columns(connection, 1) == rows(connection, 1)
        assert [verdict for _, verdict, _ in columns(connection, 1)] == [
            "flaky", "crashed", "passed",
        ]  # fmt: skip
        assert read(connection, 2) is None
        connection.execute("DELETE FROM run")
        assert connection.execute("SELECT count(*) FROM packed").fetchone() == (0,)


def test_what_an_older_version_took_in_gets_its_columns(runs: Runs) -> None:
    made(runs)
    with closing(open_history(runs.folder)) as connection:
        sync(connection, History(runs.folder))
        expected = columns(connection, 1)
        # As version 2 left it.
        connection.executescript("DROP TABLE packed; PRAGMA user_version = 2;")

    with closing(connect(runs.folder / NAME)) as connection:
        assert read(connection, 1) is None
        assert sync(connection, History(runs.folder)) == []
        assert columns(connection, 1) == expected
