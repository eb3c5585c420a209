"""The schema of exacthead.sqlite: each version as what it adds to the one before."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# In the file's header, so that `file` and we tell it from any other database: "EXHD".
APPLICATION = 0x45584844
_BUSY_S = 10.0

_TABLES = """
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    started TEXT NOT NULL,
    head TEXT NOT NULL,
    tree TEXT NOT NULL,
    dirty INTEGER NOT NULL,
    runner TEXT NOT NULL,
    flavour TEXT NOT NULL,
    state TEXT NOT NULL,
    seconds REAL NOT NULL,
    machine TEXT NOT NULL,
    stamp TEXT NOT NULL
);
CREATE INDEX run_by_start ON run (started);
CREATE INDEX run_by_head ON run (head);
CREATE TABLE item (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    suite TEXT NOT NULL,
    verdict TEXT NOT NULL,
    reason TEXT NOT NULL,
    required INTEGER NOT NULL,
    seconds REAL NOT NULL,
    started REAL,
    peak_mb REAL NOT NULL,
    image TEXT NOT NULL,
    UNIQUE (run, name)
);
CREATE INDEX item_by_name ON item (name);
CREATE TABLE test (
    id INTEGER PRIMARY KEY,
    nodeid TEXT NOT NULL UNIQUE,
    file TEXT NOT NULL
);
CREATE TABLE outcome (
    item INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
    test INTEGER NOT NULL REFERENCES test,
    verdict TEXT NOT NULL,
    seconds REAL,
    attempts INTEGER NOT NULL,
    flaky INTEGER NOT NULL,
    PRIMARY KEY (item, test)
) WITHOUT ROWID;
CREATE INDEX outcome_by_test ON outcome (test);
CREATE TABLE fault (
    id INTEGER PRIMARY KEY,
    item INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
    test INTEGER REFERENCES test,
    verdict TEXT NOT NULL,
    signature TEXT NOT NULL,
    reason TEXT NOT NULL,
    class TEXT NOT NULL,
    rule TEXT NOT NULL,
    grouping TEXT NOT NULL
);
CREATE INDEX fault_by_item ON fault (item);
CREATE INDEX fault_by_test ON fault (test);
CREATE INDEX fault_by_group ON fault (grouping);
CREATE TABLE contract_check (
    item INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    metric TEXT NOT NULL,
    verdict TEXT NOT NULL,
    reason TEXT NOT NULL,
    observed TEXT NOT NULL,
    bound TEXT NOT NULL
);
CREATE INDEX contract_check_by_item ON contract_check (item);
CREATE TABLE metric (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);
CREATE TABLE measurement (
    item INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
    metric INTEGER NOT NULL REFERENCES metric,
    points INTEGER NOT NULL,
    last REAL NOT NULL,
    median REAL NOT NULL,
    least REAL NOT NULL,
    most REAL NOT NULL,
    PRIMARY KEY (item, metric)
) WITHOUT ROWID;
CREATE INDEX measurement_by_metric ON measurement (metric);
CREATE TABLE coverage (
    run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    file TEXT NOT NULL,
    covered INTEGER NOT NULL,
    total INTEGER NOT NULL,
    PRIMARY KEY (run, file)
) WITHOUT ROWID;
CREATE TABLE build (
    run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    key TEXT NOT NULL,
    how TEXT NOT NULL,
    seconds REAL,
    PRIMARY KEY (run, kind, name)
) WITHOUT ROWID;
CREATE TABLE note (
    run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    text TEXT NOT NULL
);
CREATE INDEX note_by_run ON note (run);
"""

_VIEWS = """
CREATE VIEW test_outcomes AS
SELECT test.nodeid, run.name AS run, run.started, run.head, run.dirty, run.runner,
       item.name AS item, outcome.verdict, outcome.seconds, outcome.attempts, outcome.flaky
FROM outcome
JOIN test ON test.id = outcome.test
JOIN item ON item.id = outcome.item
JOIN run ON run.id = item.run;
CREATE VIEW faults AS
SELECT run.name AS run, run.started, run.head, item.name AS item, test.nodeid, fault.verdict,
       fault.class, fault.grouping, fault.reason
FROM fault
JOIN item ON item.id = fault.item
JOIN run ON run.id = item.run
LEFT JOIN test ON test.id = fault.test;
CREATE VIEW measurements AS
SELECT metric.name AS metric, run.name AS run, run.started, run.head, item.name AS item,
       measurement.points, measurement.last, measurement.median, measurement.least,
       measurement.most
FROM measurement
JOIN metric ON metric.id = measurement.metric
JOIN item ON item.id = measurement.item
JOIN run ON run.id = item.run;
"""

_PACKED = """
CREATE TABLE packed (
    item INTEGER PRIMARY KEY REFERENCES item ON DELETE CASCADE,
    tests BLOB NOT NULL,
    verdicts BLOB NOT NULL,
    seconds BLOB NOT NULL
);
"""

# The n-th leads from version n-1 to version n; what was published is never edited, only added to.
STEPS = (_TABLES, _VIEWS, _PACKED)
VERSION = len(STEPS)


def connect(path: Path, steps: Sequence[str] = STEPS) -> sqlite3.Connection:
    """Open the database, made when missing, at the newest version; older ones are migrated.

    Several processes may have it open; each waits up to ten seconds for another's writing.

    Raises:
        HarnessError: it is another program's, a newer version's, damaged, or cannot be written to.
    """
    asked = f"the history {path}"
    try:
        connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
    except sqlite3.Error as error:
        raise HarnessError(asked, str(error), "give a folder that can be written to") from error
    try:
        connection.executescript(
            "PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -65536;"
        )
        _migrate(connection, asked, steps)
    except sqlite3.Error as error:
        connection.close()
        todo = "remove it: it is made again from the run folders"
        raise HarnessError(asked, str(error), todo) from error
    except HarnessError:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, asked: str, steps: Sequence[str]) -> None:
    application, version = (
        _pragma(connection, name) for name in ("application_id", "user_version")
    )
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application != APPLICATION and (version or tables):
        raise HarnessError(asked, "another program's database", "move it away")
    if version > len(steps):
        raise HarnessError(
            asked,
            f"version {version}; this harness knows versions up to {len(steps)}",
            "use the newer harness, or remove the file: it is made again from the run folders",
        )
    if version == len(steps):
        return
    with closing(connection.cursor()) as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have done it while we waited.
            for number in range(_pragma(connection, "user_version"), len(steps)):
                for statement in steps[number].split(";\n"):
                    cursor.execute(statement)
                cursor.execute(f"PRAGMA user_version = {number + 1}")
            cursor.execute(f"PRAGMA application_id = {APPLICATION}")
            cursor.execute("COMMIT")
        except sqlite3.Error:
            cursor.execute("ROLLBACK")
            raise


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
