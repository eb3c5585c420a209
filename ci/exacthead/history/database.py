"""exacthead.sqlite: brought up to date from the run folders, or made again from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.classes.rules import load_rules
from exacthead.errors import HarnessError
from exacthead.history.ingest import Ingest
from exacthead.history.packed import complete
from exacthead.history.schema import connect

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from exacthead.history.folders import History

NAME = "exacthead.sqlite"


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


def sync(connection: sqlite3.Connection, history: History, root: Path | None = None) -> list[str]:
    """Take in every run that has ended and is not there as it is now.

    Runs whose folders are gone stay: a history is longer than a disk. A folder that is no run's
    costs itself, and is a note each time.

    Args:
        connection: of an open history.
        history: the run folders; what cannot be read of them becomes a note there.
        root: the checkout, for its own failure classes.

    Returns:
        The ids of the runs that are new or have changed, the oldest first.

    Raises:
        HarnessError: the database cannot be written to, or failure classes are not valid.
    """
    ingest = Ingest(connection, history, load_rules(root))
    known = dict(connection.execute("SELECT name, stamp FROM run"))
    ended = [each for each in history.runs() if known.get(each.id) != _stamp(each.folder.path)]
    for run in reversed(ended):
        ingest.add(run, _stamp(run.folder.path))
    complete(connection)
    return [run.id for run in reversed(ended)]


def rebuild(history: History, root: Path | None = None) -> list[str]:
    """Make the history again from the run folders alone; what was there before is replaced.

    Raises:
        HarnessError: as :func:`sync`; the old one stays then.
    """
    path = history.runs_folder / NAME
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    connection = connect(fresh)
    try:
        added = sync(connection, history, root)
    finally:
        connection.close()
    fresh.replace(path)
    return added


def _stamp(run: Path) -> str:
    """Changes when the run's own result is written again."""
    status = (run / "result.json").stat()
    return f"{status.st_mtime_ns}-{status.st_size}"
