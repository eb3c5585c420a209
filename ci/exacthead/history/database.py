"""exacthead.sqlite: brought up to date from the run folders, or made again from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.classes.rules import load_rules
from exacthead.errors import HarnessError
from exacthead.history.folders import History
from exacthead.history.ingest import Ingest
from exacthead.history.schema import connect

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

NAME = "exacthead.sqlite"


@dataclass(frozen=True)
class Synced:
    """What bringing it up to date has done.

    Attributes:
        added: the ids of the runs that are new or have changed, the oldest first.
        notes: what could not be read, a sentence each.
    """

    added: tuple[str, ...]
    notes: tuple[str, ...]


def open_history(runs: Path) -> sqlite3.Connection:
    """The history beside the runs in a folder, as far as it is; made empty when missing.

    Raises:
        HarnessError: as :func:`exacthead.history.schema.connect`.
    """
    try:
        runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        todo = "give a folder that can be written to"
        raise HarnessError(f"the history in {runs}", str(error), todo) from error
    return connect(runs / NAME)


def sync(connection: sqlite3.Connection, runs: Path, root: Path | None = None) -> Synced:
    """Take in every run that has ended and is not there as it is now.

    Runs whose folders are gone stay: a history is longer than a disk. A folder that is no run's
    costs itself, and is a note each time.

    Args:
        connection: of an open history.
        runs: the folder of all runs.
        root: the checkout, for its own failure classes.

    Raises:
        HarnessError: the database cannot be written to, or failure classes are not valid.
    """
    history = History(runs)
    ingest = Ingest(connection, history, load_rules(root))
    known = dict(connection.execute("SELECT name, stamp FROM run"))
    ended = [each for each in history.runs() if known.get(each.id) != _stamp(each.folder.path)]
    for run in reversed(ended):
        ingest.add(run, _stamp(run.folder.path))
    return Synced(tuple(run.id for run in reversed(ended)), tuple(history.notes))


def rebuild(runs: Path, root: Path | None = None) -> Synced:
    """Make the history again from the run folders alone; what was there before is replaced.

    Raises:
        HarnessError: as :func:`sync`; the old history stays then.
    """
    path = runs / NAME
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    connection = connect(fresh)
    try:
        synced = sync(connection, runs, root)
    finally:
        connection.close()
    fresh.replace(path)
    return synced


def _stamp(run: Path) -> str:
    """Changes when the run's own result is written again."""
    status = (run / "result.json").stat()
    return f"{status.st_mtime_ns}-{status.st_size}"
