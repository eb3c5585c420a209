"""A data plane in the memory of one process, shared by its threads."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from itertools import count, islice
from typing import TYPE_CHECKING

from posttrain.dataplane.errors import ClosedPlaneError
from posttrain.dataplane.ledger import Entry, Ledger, Place
from posttrain.dataplane.values import copied, kinds_of, names_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from posttrain.dataplane.plane import Handle, Row, Served, Value

KIND = "memory"


class MemoryPlane:
    """See `DataPlane`. Nothing can time out; nothing survives the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ledger = Ledger()
        self._serials = count()
        self._values: dict[int, dict[str, Value]] = {}
        self._closed = False

    def register(self, partition: str, fields: Sequence[str], capacity: int | None = None) -> None:
        """See `DataPlane.register`."""
        with self._opened("register") as ledger:
            ledger.register(partition, names_of("fields", fields), capacity)

    def put(self, partition: str, rows: Mapping[str, Row]) -> None:
        """See `DataPlane.put`."""
        kinds = kinds_of(partition, rows)
        values = [{field: copied(value) for field, value in row.items()} for row in rows.values()]
        with self._opened("put") as ledger:
            serials = [*islice(self._serials, len(rows))]
            entries = {
                key: Entry(Place(serial, serial), frozenset(row))
                for (key, row), serial in zip(rows.items(), serials, strict=True)
            }
            ledger.publish(partition, entries, kinds)
            self._values |= zip(serials, values, strict=True)

    def get(
        self, partition: str, ids: Sequence[str], fields: Sequence[str]
    ) -> list[dict[str, Value]]:
        """See `DataPlane.get`."""
        with self._opened("get") as ledger:
            located = ledger.locate(partition, names_of("ids", ids), names_of("fields", fields))
            rows = [self._values[place.slot] for place in located.places]
        # A stored value is never changed, so it may be copied outside the lock.
        return [{field: copied(row[field]) for field in fields} for row in rows]

    def claim(self, partition: str, consumer: str, count: int, fields: Sequence[str]) -> list[str]:
        """See `DataPlane.claim`."""
        with self._opened("claim") as ledger:
            return ledger.claim(partition, consumer, count, names_of("fields", fields))

    def check(self, partition: str, ids: Sequence[str]) -> dict[str, frozenset[str]]:
        """See `DataPlane.check`."""
        with self._opened("check") as ledger:
            return ledger.check(partition, names_of("ids", ids))

    def clear(
        self, partition: str, ids: Sequence[str] | None = None, *, unknown: bool = False
    ) -> None:
        """See `DataPlane.clear`."""
        with self._opened("clear") as ledger:
            keys = None if ids is None else names_of("ids", ids)
            for place in ledger.evict(partition, keys, unknown):
                del self._values[place.slot]

    def served(self) -> dict[str, Served]:
        """Return nothing: there are no storage units."""
        with self._opened("served"):
            return {}

    def handle(self) -> Handle:
        """Describe this plane, to a process that will learn that it cannot reach it."""
        with self._opened("handle"):
            return {"kind": KIND, "pid": os.getpid()}

    def close(self) -> None:
        """See `DataPlane.close`."""
        with self._lock:
            self._closed = True
            self._values.clear()

    @contextmanager
    def _opened(self, asked: str) -> Iterator[Ledger]:
        with self._lock:
            if self._closed:
                raise ClosedPlaneError(asked, "this plane was closed", "make a new plane")
            yield self._ledger
