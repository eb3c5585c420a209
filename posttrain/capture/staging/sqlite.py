"""Staged calls in one SQLite file."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from posttrain.capture.errors import CaptureSetupError, StagingError
from posttrain.capture.staging.rows import FIELDS, changed
from posttrain.capture.staging.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from posttrain.dataplane import Row, Value

_DTYPES = {"token_ids": np.int64, "token_mask": np.float32, "logprobs": np.float32}
_COLUMNS = ", ".join(f"{name} BLOB NOT NULL" for name in FIELDS)
_CREATE = f"CREATE TABLE IF NOT EXISTS staged (key TEXT PRIMARY KEY, {_COLUMNS}) WITHOUT ROWID"
_INSERT = (
    f"INSERT INTO staged (key, {', '.join(FIELDS)}) "  # noqa: S608 - our own names
    f"VALUES ({', '.join('?' for _ in range(len(FIELDS) + 1))}) ON CONFLICT (key) DO NOTHING"
)
_KEYS = "key IN (SELECT value FROM json_each(?))"


class SqliteStore(Store):
    """One table; every write is a transaction that is on the disk when it returns.

    Args:
        database: the file, the same for every process; made when missing.
        deadline_s: how long a write waits for other writers, in seconds.

    Raises:
        CaptureSetupError: the file cannot be opened as a database.
    """

    def __init__(self, database: str | Path, deadline_s: float = 10.0) -> None:
        self._database = database
        self._deadline_s = deadline_s
        self._guard = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        try:
            with self._connection() as connection:
                connection.execute(_CREATE)
        except sqlite3.Error as error:
            raise CaptureSetupError(
                f"a database of staged calls at {database}",
                f"{type(error).__name__}: {error}",
                "name a file of its own in a folder that exists",
            ) from error

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection for one thread at a time; there are as many as were ever in use at once."""
        with self._guard:
            idle = self._idle
            connection = idle.pop() if idle else None
        if connection is None:
            connection = self._connect()
        kept = False
        try:
            yield connection
            with self._guard:
                # Another list is there after `close`.
                kept = idle is self._idle
                if kept:
                    idle.append(connection)
        finally:
            if not kept:
                connection.close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._database,
            timeout=self._deadline_s,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close the connections, those in use when their calls end. Who needs one opens one."""
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _insert(self, key: str, row: Row) -> bool:
        values = [_blob(row[name]) for name in FIELDS]
        with self._connected(f"stage {key}") as connection:
            return connection.execute(_INSERT, (key, *values)).rowcount == 1

    def _find(self, keys: Sequence[str], fields: Sequence[str]) -> Mapping[str, Row]:
        query = f"SELECT key, {', '.join(fields)} FROM staged WHERE {_KEYS}"  # noqa: S608
        with self._connected(f"fetch {len(keys)} staged calls") as connection:
            found = connection.execute(query, (json.dumps(list(keys)),)).fetchall()
        return {
            key: {name: _value(key, name, blob) for name, blob in zip(fields, blobs, strict=True)}
            for key, *blobs in found
        }

    def _delete(self, keys: Sequence[str]) -> None:
        query = f"DELETE FROM staged WHERE {_KEYS}"  # noqa: S608 - our own text
        with self._connected(f"retire {len(keys)} staged calls") as connection:
            connection.execute(query, (json.dumps(list(keys)),))

    @contextmanager
    def _connected(self, asked: str) -> Iterator[sqlite3.Connection]:
        """A connection whose errors are named.

        Raises:
            StagingError: in place of SQLite's.
        """
        try:
            with self._connection() as connection:
                yield connection
        except sqlite3.Error as error:
            raise StagingError(
                f"{asked} in {self._database}",
                f"{type(error).__name__}: {error}",
                "see whether the file is whole and its disk has room; then ask again",
            ) from error


def _blob(value: Value) -> bytes:
    return value if isinstance(value, bytes) else np.asarray(value).tobytes()


def _value(key: str, name: str, blob: bytes) -> Value:
    if name not in _DTYPES:
        return blob
    try:
        return np.frombuffer(blob, _DTYPES[name])
    except ValueError as error:
        raise changed(key, f"{name} of {len(blob)} bytes: {error}") from error
