"""Runs and items as the history has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

# So many runs back are looked at for what is typical and for changes.
WINDOW = 60


@dataclass(frozen=True)
class RunRow:
    """One run. ``started`` is ISO 8601 in UTC, ``seconds`` that of its items together."""

    id: int
    name: str
    started: str
    head: str
    dirty: bool
    runner: str
    flavour: str
    state: str
    seconds: float
    machine: str


@dataclass(frozen=True)
class ItemRow:
    """One item of a run; seconds of wall time, memory in MiB."""

    id: int
    run: int
    name: str
    kind: str
    suite: str
    verdict: str
    reason: str
    seconds: float
    peak_mb: float


_RUN = "id, name, started, head, dirty, runner, flavour, state, seconds, machine"


def runs(connection: sqlite3.Connection, most: int = WINDOW, runner: str = "") -> list[RunRow]:
    """The newest runs, the oldest of them first.

    Args:
        connection: of the history.
        most: how many at most.
        runner: only those on that kind; empty for all.
    """
    rows = connection.execute(
        f"SELECT {_RUN} FROM run WHERE ? IN ('', runner) ORDER BY started DESC, name DESC LIMIT ?",  # noqa: S608 - our own column names
        (runner, most),
    ).fetchall()
    return [_run(list(row)) for row in reversed(rows)]


def _run(values: list[Any]) -> RunRow:
    values[4] = bool(values[4])  # SQLite has no truth values
    return RunRow(*values)


def items(connection: sqlite3.Connection, among: Sequence[RunRow]) -> dict[int, list[ItemRow]]:
    """The items of some runs, by the number of their run, each run's in the plan's order."""
    found: dict[int, list[ItemRow]] = {}
    for run in among:
        rows = connection.execute(
            "SELECT id, run, name, kind, suite, verdict, reason, seconds, peak_mb FROM item"
            " WHERE run = ? ORDER BY id",
            (run.id,),
        )
        found[run.id] = [ItemRow(*row) for row in rows]
    return found
