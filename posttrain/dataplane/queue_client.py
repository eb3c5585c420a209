"""TransferQueue's client: values straight to its storage units, the rest on an event loop.

The library's synchronous client waits without a deadline, up to 600 s for a storage unit that died.
Its asynchronous one may be cancelled: it then drops the connection that the answer would come on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import weakref
from concurrent.futures import CancelledError, wait
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from posttrain.dataplane.batches import SERIAL, Batch
from posttrain.dataplane.indexes import IndexPool
from posttrain.dataplane.processes import CONTROLLER
from posttrain.dataplane.tq import AsyncTransferQueueClient, BatchMeta
from posttrain.dataplane.transfers import Part, Reading, Writing
from posttrain.dataplane.unit_calls import UnitCalls
from posttrain.dataplane.units import server_info
from posttrain.dataplane.watch import OnLoop

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from posttrain.dataplane.connections import Call
    from posttrain.dataplane.indexes import Taking
    from posttrain.dataplane.ledger import Place
    from posttrain.dataplane.processes import Address

_LOG = logging.getLogger(__name__)
JOIN_S = 5.0
GIVE_UP_S = 1.0
UNDO_S = 0.1
# The controller's own form of a field whose values are no tensors.
_KNOWN = {"dtype": None, "shape": None, "is_nested": False, "is_non_tensor": True}


class QueueClient:
    """Writes, reads and frees rows by TransferQueue's own indexes.

    Args:
        name: for TransferQueue's logs.
        addresses: of the controller and the storage units, by name; the units in the same order in
            every process, as it decides which unit holds an index.

    Raises:
        TimeoutError: the controller did not answer.
    """

    def __init__(self, name: str, addresses: Mapping[str, Address]) -> None:
        infos = {process: server_info(address) for process, address in addresses.items()}
        units = [where for process, where in addresses.items() if process != CONTROLLER]
        self._client = AsyncTransferQueueClient(name, infos.pop(CONTROLLER), zmq_io_threads=1)
        try:
            self._client.initialize_storage_manager("SimpleStorage", {"zmq_info": infos})
        except BaseException:
            self._client.close()
            raise
        self._manager = self._client.storage_manager
        self._units = UnitCalls(units)
        self._pools: dict[str, IndexPool] = {}
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._closed = False
        thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        thread.start()
        # Also when the process ends: sockets must not be closed under a thread that uses them.
        parts = self._loop, thread, self._client, self._units
        self._end = weakref.finalize(self, _end, *parts, os.getpid())

    def submit(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Start work on the loop. Cancelling the future gives it up.

        Raises:
            CancelledError: this client was closed.
        """
        with self._lock:
            if self._closed:
                work.close()
                raise CancelledError
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def take(self, partition: str, count: int) -> Taking:
        """Begin to take so many indexes that are this client's alone."""
        pool = self._pools.get(partition)
        if pool is None:
            fetch = partial(self._fetch, partition)
            pool = self._pools.setdefault(partition, IndexPool(fetch))
        return pool.take(count)

    def write(self, partition: str, indexes: Sequence[int], batches: Sequence[Batch]) -> Writing:
        """Begin to store batches, row after row under the indexes.

        Raises:
            CancelledError: this client was closed.
        """
        parts: list[Part] = []
        writing = Writing(parts, partial(self._undo, partition))
        rest = iter(indexes)
        try:
            for batch in batches:
                columns: dict[str, Sequence[Any]] = {SERIAL: batch.serials, **batch.columns}
                for unit, slots, rows in self._routed([*islice(rest, len(batch.serials))]):
                    # A unit keeps any values as they come. The library's own put makes tensors of
                    # them first, row by row and back, which took most of its time.
                    values = {
                        field: [every[row] for row in rows] for field, every in columns.items()
                    }
                    call = self._units.put(unit, slots, values)
                    parts.append(Part(unit, slots, rows, call))
        except BaseException:
            writing.give_up()
            raise
        return writing

    def read(self, places: Sequence[Place], fields: Sequence[str]) -> Reading:
        """Begin to read columns of rows, in the order of their places.

        Raises:
            CancelledError: this client was closed.
        """
        parts: list[Part] = []
        reading = Reading(parts, len(places), fields)
        try:
            for unit, slots, rows in self._routed([place.slot for place in places]):
                call = self._units.get(unit, slots, [SERIAL, *fields])
                parts.append(Part(unit, slots, rows, call))
        except BaseException:
            reading.give_up()
            raise
        return reading

    def _routed(self, indexes: Sequence[int]) -> Iterator[tuple[str, list[int], list[int]]]:
        """Which unit has which of the indexes, and at which places these are."""
        for unit, part in self._manager._group_by_hash([*indexes]).items():  # noqa: SLF001
            yield unit, part.global_indexes, part.batch_positions

    def _fetch(self, partition: str, count: int) -> Future[list[int]]:
        return self.submit(self._indexes(partition, count))

    async def _indexes(self, partition: str, count: int) -> list[int]:
        meta = await self._client.async_get_meta(
            data_fields=[SERIAL], batch_size=count, partition_id=partition, mode="insert"
        )
        indexes: list[int] = meta.global_indexes
        if len(set(indexes)) != count:
            raise RuntimeError(f"TransferQueue gave {count} rows {len(set(indexes))} indexes")
        return indexes

    def _undo(self, partition: str, parts: Sequence[Part]) -> None:
        try:
            self.submit(self._undone(partition, parts))
        except CancelledError:  # nobody needs room in a plane that is closed
            for part in parts:
                part.call.drop()

    async def _undone(self, partition: str, parts: Sequence[Part]) -> None:
        """Free what units have stored of rows, as soon as each has said that it has.

        Not before: what a unit is late with would come after its index was another row's.
        """
        waiting = [*parts]
        try:
            while waiting:
                ended = [part for part in waiting if part.call.wait(0)]
                waiting = [part for part in waiting if part not in ended]
                for part in ended:
                    try:
                        await self.free(partition, part.indexes)
                    except Exception:  # noqa: BLE001 - the others' are to be freed all the same
                        _LOG.exception("rows of a failed put stay in unit %s", part.unit)
                if waiting:
                    await asyncio.sleep(UNDO_S)
        finally:
            for part in waiting:
                part.call.drop()

    def free_later(self, partition: str, evicting: Call) -> None:
        """Delete the rows that the ledger will say it evicted."""
        try:
            self.submit(self._freed(partition, evicting))
        except CancelledError:
            evicting.drop()

    async def _freed(self, partition: str, evicting: Call) -> None:
        try:
            while not evicting.wait(0):  # noqa: ASYNC110 - a plain socket tells no loop
                await asyncio.sleep(UNDO_S)
            if places := evicting.result():
                await self.free(partition, [place.slot for place in places])
        finally:
            evicting.drop()

    def begin_to_free(self, partition: str, indexes: Sequence[int]) -> OnLoop[None]:
        """Begin to delete rows: see `free`.

        Raises:
            CancelledError: this client was closed.
        """
        return OnLoop(self.submit(self.free(partition, indexes)))

    async def free(self, partition: str, indexes: Sequence[int]) -> None:
        """Delete rows, whose indexes others may get from now on."""
        # A put does not tell TransferQueue's controller, since all readers ask the ledger; but what
        # the controller has never heard of it cannot clear.
        await self._manager.notify_data_update(partition, [*indexes], {SERIAL: {**_KNOWN}})
        await self._client.async_clear_samples(
            BatchMeta(global_indexes=list(indexes), partition_ids=[partition] * len(indexes))
        )

    def close(self) -> None:
        """Give up what still runs, end the loop and close the connections. Idempotent."""
        with self._lock:
            self._closed = True
        self._end()


async def _give_up() -> None:
    running = asyncio.all_tasks() - {asyncio.current_task()}
    if running:
        # What the library has begun is seldom called back cleanly.
        _, running = await asyncio.wait(running, timeout=GIVE_UP_S)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def _end(
    loop: asyncio.AbstractEventLoop,
    thread: threading.Thread,
    client: AsyncTransferQueueClient,
    units: UnitCalls,
    pid: int,
) -> None:
    if pid != os.getpid():  # a fork's; the loop and its thread are the other process's
        return
    units.close()
    wait([asyncio.run_coroutine_threadsafe(_give_up(), loop)], JOIN_S)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(JOIN_S)
    # A thread that is stuck keeps its sockets until the process ends.
    if not thread.is_alive():
        loop.close()
        client.close()
