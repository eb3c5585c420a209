"""A data plane over TransferQueue, for the processes of one Ray cluster.

Values are in TransferQueue's storage units; which rows there are is in the plane's ledger, an actor
that all processes ask. A row is written under indexes that TransferQueue hands out for it alone,
and published in the ledger after the units have acknowledged it: a reader sees all of a put or
nothing, and a writer that dies leaves nothing to see.
"""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posttrain.dataplane.batches import batches, rows_of
from posttrain.dataplane.bounds import (
    DEADLINE_S,
    START_S,
    UNITS,
    cluster_address,
    in_range,
    in_this_process,
)
from posttrain.dataplane.connect import TRANSFER_QUEUE
from posttrain.dataplane.errors import HandleError, LostRowError, PlaneError, UnavailableError
from posttrain.dataplane.late import LatePuts, Put, content_of
from posttrain.dataplane.late_claims import LateClaims
from posttrain.dataplane.ledger import Entry, Located, Place, known_field
from posttrain.dataplane.processes import READ_LOG, Deadline, Processes, closed
from posttrain.dataplane.queue_client import QueueClient
from posttrain.dataplane.tq import StorageKeyNotFoundError
from posttrain.dataplane.values import kinds_of, names_of
from posttrain.dataplane.watch import PROBE_S, served, watched

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from posttrain.dataplane.plane import Handle, Row, Served, Value

SERIAL_BITS = 62  # of a random number; it tells two rows apart that had one index after another
# A fixed threshold, so that the allocator gives the memory of large rows back when they go.
ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(128 << 10),
    "OMP_NUM_THREADS": "1",
    "TQ_NUM_THREADS": "1",
}


class TransferQueuePlane:
    """See `DataPlane`. Made by `start` or, for a plane that runs, by `posttrain.dataplane.connect`.

    After an `UnavailableError` of `put` no process sees the rows, with one exception: the ledger
    was late with the last step, so that they may be there, now or soon. The same put by this plane
    then waits for what became of the first one, and puts what is not there. To be sure that they do
    not come, `clear` them with `unknown`.
    """

    def __init__(self, processes: Processes, deadline_s: float, *, owner: bool) -> None:
        self._processes = processes
        self._deadline_s = deadline_s
        self._owner = owner
        self._closed = False
        self._pid = os.getpid()
        self._client = QueueClient(processes.name, processes.addresses)
        self._late = LatePuts(processes, self._free_late)
        self._claims = LateClaims(processes)
        self._fields: dict[str, frozenset[str]] = {}

    @classmethod
    def start(
        cls,
        *,
        python: Path | None = None,
        environment: Mapping[str, str] | None = None,
        units: int = UNITS,
        deadline_s: float = DEADLINE_S,
        start_s: float = START_S,
    ) -> TransferQueuePlane:
        """Start a plane's processes in this Ray cluster; they end with `close`, or this process.

        Args:
            python: interpreter of a worker that has TransferQueue; this process's by default.
            environment: variables of the processes besides those that limit their threads.
            units: storage units, at least 2.
            deadline_s: seconds after which any call of the plane ends, here and where it is joined.
            start_s: seconds until all processes must run.

        Raises:
            HandleError: Ray is not initialised here, or an argument is out of its range.
            UnavailableError: a process did not start.
        """
        asked = f"start a data plane of {units} storage units with a deadline of {deadline_s} s"
        in_range(asked, units, deadline_s)
        cluster_address(asked)
        chosen = ENVIRONMENT | dict(environment or {})
        processes = Processes.start(python or Path(sys.executable), chosen, units, start_s)
        try:
            return cls(processes, deadline_s, owner=True)
        except TimeoutError as error:
            processes.end()
            raise UnavailableError(asked, str(error), READ_LOG) from error

    @classmethod
    def join(cls, handle: Handle) -> TransferQueuePlane:
        """Reach a plane that another process started: see `posttrain.dataplane.connect`."""
        asked = f"connect to the data plane {handle!r}"
        here = cluster_address(asked)
        if here != handle.get("cluster"):
            raise HandleError(
                asked,
                f"this process is in the Ray cluster {here}",
                "connect from a process of the cluster in which the plane was started",
            )
        deadline_s = float(handle.get("deadline_s", 0))
        in_range(asked, UNITS, deadline_s)
        processes = Processes.find(str(handle.get("name")), Deadline(deadline_s))
        processes.look(asked)
        try:
            return cls(processes, deadline_s, owner=False)
        except TimeoutError as error:
            processes.look(asked)
            raise UnavailableError(asked, str(error), READ_LOG) from error

    def register(self, partition: str, fields: Sequence[str], capacity: int | None = None) -> None:
        """See `DataPlane.register`."""
        asked = f"register partition {partition!r}"
        names = names_of("fields", fields)
        self._ledger(asked, "register", partition, names, capacity)

    def put(self, partition: str, rows: Mapping[str, Row]) -> None:
        """See `DataPlane.put`."""
        asked = f"put {len(rows)} rows into partition {partition!r}"
        deadline = self._deadline(asked)
        kinds = kinds_of(partition, rows)
        late = self._late.settle(asked, deadline, partition, rows)
        if late is not None and late.content == content_of(rows, kinds):
            # The same call again. Here it fails when they were cleared since.
            self._processes.ledger(asked, deadline, "locate", partition, [*rows], [])
            return
        self._known(asked, deadline, partition, kinds)
        if not rows:
            return
        # Whether these rows may come is asked once, when they are in place: seldom may they not.
        serials = {key: secrets.randbits(SERIAL_BITS) for key in rows}
        groups = batches(rows, kinds, serials)
        taking = partial(self._client.take, partition, len(rows))
        slots = watched(asked, taking, deadline, self._processes)
        write = partial(self._client.write, partition, slots, [batch for _, batch in groups])
        watched(asked, write, deadline, self._processes)
        keys = chain.from_iterable(keys for keys, _ in groups)
        places = {key: Place(serials[key], slot) for key, slot in zip(keys, slots, strict=True)}
        # The order of the rows is the order in which they are claimed.
        entries = {key: Entry(places[key], frozenset(row)) for key, row in rows.items()}
        publishing = self._processes.ask_ledger(asked, "publish", partition, entries, kinds)
        try:
            self._processes.answer(asked, publishing, deadline)
        except UnavailableError:
            # Perhaps it is published, or will be. A ledger that failed says no more.
            if not publishing.answered:
                self._late.add(Put(partition, places, content_of(rows, kinds), publishing))
            raise
        except PlaneError:
            publishing.drop()
            # Others came first. These rows were never seen, and nobody else has their places.
            # That these cannot be given back says less than why.
            with suppress(UnavailableError):
                self._free(asked, deadline, partition, places.values())
            raise

    def get(
        self, partition: str, ids: Sequence[str], fields: Sequence[str]
    ) -> list[dict[str, Value]]:
        """See `DataPlane.get`."""
        keys, names = names_of("ids", ids), names_of("fields", fields)
        asked = f"get {len(keys)} rows of partition {partition!r}"
        deadline = self._deadline(asked)
        located: Located = self._processes.ledger(asked, deadline, "locate", partition, keys, names)
        if not keys or not names:
            return [{} for _ in keys]
        read = partial(self._client.read, located.places, names)
        try:
            batch = watched(asked, read, deadline, self._processes)
            lost = batch.serials != [place.serial for place in located.places]
            found = "a storage unit holds another row in the place of one of them"
        except StorageKeyNotFoundError as error:
            lost, found = True, str(error)
        if lost:
            # Says so when a row was cleared meanwhile.
            self._processes.ledger(asked, deadline, "locate", partition, keys, names)
            raise LostRowError(asked, found, READ_LOG)
        return rows_of(batch, names, located.kinds)

    def claim(self, partition: str, consumer: str, count: int, fields: Sequence[str]) -> list[str]:
        """See `DataPlane.claim`."""
        asked = f"claim rows of partition {partition!r} for {consumer!r}"
        names = names_of("fields", fields)
        return self._claims.claim(asked, self._deadline(asked), (partition, consumer, count, names))

    def check(self, partition: str, ids: Sequence[str]) -> dict[str, frozenset[str]]:
        """See `DataPlane.check`."""
        keys = names_of("ids", ids)
        asked = f"check {len(keys)} ids of partition {partition!r}"
        found: dict[str, frozenset[str]] = self._ledger(asked, "check", partition, keys)
        return found

    def clear(
        self, partition: str, ids: Sequence[str] | None = None, *, unknown: bool = False
    ) -> None:
        """See `DataPlane.clear`."""
        asked = f"clear rows of partition {partition!r}"
        keys = None if ids is None else names_of("ids", ids)
        deadline = self._deadline(asked)
        evicting = self._processes.ask_ledger(asked, "evict", partition, keys, unknown)
        try:
            places = self._processes.answer(asked, evicting, deadline)
        except UnavailableError:
            # Perhaps they are evicted, or will be, and no other call learns what there is to free.
            self._client.free_later(partition, evicting)
            raise
        except PlaneError:
            evicting.drop()
            raise
        self._free(asked, deadline, partition, places)

    def served(self) -> dict[str, Served]:
        """See `DataPlane.served`."""
        asked = "ask the storage units what they served"
        return served(asked, self._deadline(asked), self._processes)

    def pids(self) -> dict[str, int]:
        """Return the process ids of the ledger, the controller and each storage unit, by name."""
        return self._processes.pids(self._deadline("name the processes of the plane"))

    def handle(self) -> Handle:
        """See `DataPlane.handle`."""
        asked = "describe the plane"
        self._deadline(asked)
        return {
            "kind": TRANSFER_QUEUE,
            "name": self._processes.name,
            "cluster": cluster_address(asked),
            "deadline_s": self._deadline_s,
        }

    def close(self) -> None:
        """See `DataPlane.close`. In a process that was forked it does nothing."""
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        self._client.close()
        self._late.close()
        self._claims.close()
        self._processes.leave()
        if self._owner:
            self._processes.end()

    def _known(
        self, asked: str, deadline: Deadline, partition: str, rows: Mapping[str, Collection[str]]
    ) -> None:
        """Refuse what would leave a partition or a field in TransferQueue that nobody registered.

        Raises:
            UnknownPartitionError: the partition.
            UnknownFieldError: a field.
        """
        if partition not in self._fields:
            fields = self._processes.ledger(asked, deadline, "fields", partition)
            self._fields[partition] = fields
        for key, row in rows.items():
            for field in row:
                known_field(partition, self._fields[partition], field, f"put row {key!r}")

    def _deadline(self, asked: str) -> Deadline:
        in_this_process(asked, self._pid)
        if self._closed:
            raise closed(asked)
        return Deadline(self._deadline_s - PROBE_S)

    def _ledger(self, asked: str, method: str, *arguments: Any) -> Any:
        return self._processes.ledger(asked, self._deadline(asked), method, *arguments)

    def _free(
        self, asked: str, deadline: Deadline, partition: str, places: Collection[Place]
    ) -> None:
        if places:
            indexes = [place.slot for place in places]
            begin = partial(self._client.begin_to_free, partition, indexes)
            watched(asked, begin, deadline, self._processes)

    def _free_late(self, partition: str, places: Collection[Place], deadline: Deadline) -> None:
        self._free("give back what a late put had written", deadline, partition, places)
