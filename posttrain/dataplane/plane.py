"""The data plane: rows with named fields, kept by id in partitions, shared by processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

# A field's value in one row. Arrays are one-dimensional, int64 or float32; integers have 64 bits.
Value: TypeAlias = np.ndarray | int | float | str | bytes
Row: TypeAlias = Mapping[str, Value]
# Describes a plane to another process: survives JSON and pickle.
Handle: TypeAlias = dict[str, str | int | float]


@dataclass(frozen=True)
class Served:
    """What one storage unit did since it started, in its own count."""

    puts: int  # requests
    gets: int  # requests
    clears: int  # requests
    rows: int  # held now
    rss_bytes: int  # its process's resident memory


class DataPlane(Protocol):
    """Rows by id in partitions. Every method is synchronous, thread-safe, and ends by a deadline.

    Any call raises `ClosedPlaneError` after `close`, `UnknownPartitionError` for a partition that
    was not registered, and an `UnavailableError` when the processes behind it cannot do it.
    """

    def register(self, partition: str, fields: Sequence[str], capacity: int | None = None) -> None:
        """Make a partition known; again with the same fields does nothing.

        Args:
            partition: its name, printable.
            fields: names of all fields that its rows may have, printable, no leading `_`.
            capacity: rows that it may hold at a time. None: without a bound, or, for a partition
                that is known, whatever it has.

        Raises:
            PartitionConflictError: it is known with other fields or another capacity; or a name or
                the capacity cannot be used.
        """

    def put(self, partition: str, rows: Mapping[str, Row]) -> None:
        """Store rows, all or none. On return every process of the plane can read them.

        Args:
            partition: where.
            rows: id to the row's fields, at least one; some of the registered ones may be absent.

        Raises:
            DuplicateKeyError: a row is there under one of the ids, with the same content or other.
            EvictedError: one of the ids was used before.
            CapacityError: they are too many for the partition.
            UnknownFieldError: a field is not registered.
            ValueTypeError: a value of a type or shape that a plane does not take, or of another
                kind than this field's earlier ones.
        """

    def get(
        self, partition: str, ids: Sequence[str], fields: Sequence[str]
    ) -> list[dict[str, Value]]:
        """Read fields of rows, in the order of the ids; no ids give an empty list.

        Values are copies; arrays are writable and equal to what was put to the bit.

        Raises:
            MissingKeyError: an id was never put.
            EvictedError: an id was cleared.
            UnknownFieldError: a field is not registered.
            MissingFieldError: a row was put without one of the fields.
        """

    def claim(self, partition: str, consumer: str, count: int, fields: Sequence[str]) -> list[str]:
        """Hand out ids of rows that have all the fields, oldest put first, at most `count`.

        No id is handed to the same consumer twice, whichever process asks.

        Raises:
            UnknownFieldError: a field is not registered.
            ValueTypeError: the count is negative.
        """

    def check(self, partition: str, ids: Sequence[str]) -> dict[str, frozenset[str]]:
        """Say which fields each row has; an id that is unknown or evicted has none."""

    def clear(
        self, partition: str, ids: Sequence[str] | None = None, *, unknown: bool = False
    ) -> None:
        """Evict rows and free their memory. Ids that are evicted already do no harm.

        Args:
            partition: where.
            ids: which; None for every row that is there.
            unknown: evict also ids that were never put, so that a put of them which is under way,
                or comes later, is refused and leaves nothing.

        Raises:
            MissingKeyError: an id was never put, and `unknown` was not asked for; nothing is
                evicted then.
        """

    def served(self) -> dict[str, Served]:
        """Ask each storage unit what it did, by its name; none in a plane without units."""

    def handle(self) -> Handle:
        """Describe this plane for `posttrain.dataplane.connect` in another process."""

    def close(self) -> None:
        """Give everything back; the plane that started storage processes ends them. Idempotent."""
