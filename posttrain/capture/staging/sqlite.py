"""Staged calls in one SQLite file."""

from __future__ import annotations

import json
import sqlite3
import threading
from typing import TYPE_CHECKING

import numpy as np

from posttrain.capture.errors import CaptureSetupError
from posttrain.capture.staging.rows import FIELDS
from posttrain.capture.staging.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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
        self._local = threading.local()
        self._guard = threading.Lock()
        self._open: list[sqlite3.Connection] = []
        try:
            self._connection().execute(_CREATE)
        except sqlite3.Error as error:
            self.close()
            raise CaptureSetupError(
                f"a database of staged calls at {database}",
                f"{type(error).__name__}: {error}",
                "name a file of its own in a folder that exists",
            ) from error

    def _connection(self) -> sqlite3.Connection:
        """Return this thread's connection."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = sqlite3.connect(
                self._database,
                timeout=self._deadline_s,
                isolation_level=None,
                # Only `close` runs in another thread than the one that it belongs to.
                check_same_thread=False,
            )
            with self._guard:
                self._open.append(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            self._local.connection = connection
        return connection

    def close(self) -> None:
        """Close the connections of all threads."""
        with self._guard:
            for connection in self._open:
                connection.close()
            self._open.clear()
        self._local = threading.local()

    def _insert(self, key: str, row: Row) -> bool:
        values = [_blob(row[name]) for name in FIELDS]
        try:
            return self._connection().execute(_INSERT, (key, *values)).rowcount == 1
        except sqlite3.Error as error:
            raise OSError(f"{self._database}: {error}") from error

    def _find(self, keys: Sequence[str], fields: Sequence[str]) -> Mapping[str, Row]:
        query = f"SELECT key, {', '.join(fields)} FROM staged WHERE {_KEYS}"  # noqa: S608
        rows = self._connection().execute(query, (json.dumps(list(keys)),))
        return {
            key: {name: _value(name, blob) for name, blob in zip(fields, blobs, strict=True)}
            for key, *blobs in rows
        }

    def _delete(self, keys: Sequence[str]) -> None:
        self._connection().execute(f"DELETE FROM staged WHERE {_KEYS}", (json.dumps(list(keys)),))  # noqa: S608


def _blob(value: Value) -> bytes:
    return value if isinstance(value, bytes) else np.asarray(value).tobytes()


def _value(name: str, blob: bytes) -> Value:
    return np.frombuffer(blob, _DTYPES[name]) if name in _DTYPES else blob
