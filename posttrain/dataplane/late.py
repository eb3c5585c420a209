"""Puts whose last step the ledger was late with: whether they took place is known only later."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posttrain.dataplane.errors import ClosedPlaneError, PlaneError, UnavailableError
from posttrain.dataplane.values import to_wire

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from posttrain.dataplane.connections import Call
    from posttrain.dataplane.ledger import Place
    from posttrain.dataplane.plane import Row
    from posttrain.dataplane.processes import Deadline, Processes
    from posttrain.dataplane.values import Kind


@dataclass(frozen=True)
class Put:
    """A put of this process whose rows are written, and perhaps published.

    Attributes:
        partition: where.
        places: of the rows, by their ids.
        content: digest of what was put: see `content_of`.
        publishing: the ledger's call, which will end or has ended.
    """

    partition: str
    places: Mapping[str, Place]
    content: str
    publishing: Call


class LatePuts:
    """Those of one plane. May be used by several threads.

    A late answer does come, unless the ledger dies.

    Args:
        processes: of the plane.
        free: gives the places of rows that were refused back, by partition and places.
    """

    def __init__(
        self, processes: Processes, free: Callable[[str, Collection[Place], Deadline], None]
    ) -> None:
        self._processes = processes
        self._free = free
        self._lock = threading.Lock()
        self._puts: list[Put] = []

    def add(self, put: Put) -> None:
        """Remember a put that nobody knows the end of."""
        with self._lock:
            self._puts.append(put)

    def close(self) -> None:
        """Forget them all."""
        with self._lock:
            puts, self._puts = self._puts, []
        for put in puts:
            put.publishing.drop()

    def settle(
        self, asked: str, deadline: Deadline, partition: str, ids: Collection[str]
    ) -> Put | None:
        """See what became of the puts that have ended by now, and of the one of these ids.

        Returns:
            The put of exactly these ids, when it took place after all. It is told once.

        Raises:
            UnavailableError: the ledger still does not say what became of it.
        """
        found = None
        while put := self._take(partition, ids):
            try:
                self._processes.answer(asked, put.publishing, deadline)
            except UnavailableError:
                if not put.publishing.answered:
                    self.add(put)
                raise
            except ClosedPlaneError:
                raise
            except PlaneError:
                # Refused: nobody has seen these rows, and nobody else has their places.
                self._free(put.partition, put.places.values(), deadline)
            else:
                found = put if _same(put, partition, ids) else found
        return found

    def _take(self, partition: str, ids: Collection[str]) -> Put | None:
        """Take out a put that has ended, or that of these ids, which is worth waiting for."""
        with self._lock:
            for place, put in enumerate(self._puts):
                if _same(put, partition, ids) or _ended(put):
                    return self._puts.pop(place)
        return None


def content_of(rows: Mapping[str, Row], kinds: Mapping[str, Mapping[str, Kind]]) -> str:
    """A digest of rows, equal for equal ids, fields and bits."""
    digest = hashlib.sha256()
    for key in sorted(rows):
        for field in sorted(rows[key]):
            kind = kinds[key][field]
            content = to_wire(rows[key][field], kind)
            digest.update(repr((key, field, kind, len(content))).encode())
            digest.update(content)
    return digest.hexdigest()


def _same(put: Put, partition: str, ids: Collection[str]) -> bool:
    return put.partition == partition and put.places.keys() == set(ids)


def _ended(put: Put) -> bool:
    try:
        return put.publishing.wait(0)
    except CancelledError:  # the plane is being closed: whoever asks for the answer is told
        return True
