"""TransferQueue's client on an event loop of its own, where a call can be given up at any time.

The library's synchronous client waits without a deadline, up to 600 s for a storage unit that died.
Its asynchronous one may be cancelled: it then drops the connection that the answer would come on.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from concurrent.futures import CancelledError, wait
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from posttrain.dataplane.batches import SERIAL, Batch
from posttrain.dataplane.indexes import IndexPool
from posttrain.dataplane.notices import Notices
from posttrain.dataplane.processes import CONTROLLER
from posttrain.dataplane.tq import AsyncTransferQueueClient, BatchMeta
from posttrain.dataplane.units import server_info

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Mapping, Sequence
    from concurrent.futures import Future

    from posttrain.dataplane.ledger import Place
    from posttrain.dataplane.processes import Address

JOIN_S = 5.0
NOTICE_S = 1.0


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
        self._client = AsyncTransferQueueClient(name, infos.pop(CONTROLLER), zmq_io_threads=1)
        try:
            self._client.initialize_storage_manager("SimpleStorage", {"zmq_info": infos})
        except BaseException:
            self._client.close()
            raise
        self._manager = self._client.storage_manager
        self._notices = Notices(self._manager.notify_data_update)
        self._pools: dict[str, IndexPool] = {}
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        thread.start()
        # Also when the process ends: sockets must not be closed under a thread that uses them.
        self._end = weakref.finalize(self, _end, self._loop, thread, self._client, self._notices)

    def submit(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Start work on the loop. Cancelling the future gives it up.

        Raises:
            CancelledError: this client was closed.
        """
        with self._lock:
            if not self._end.alive:
                work.close()
                raise CancelledError
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def write(self, partition: str, batches: Sequence[Batch]) -> list[list[int]]:
        """Store batches under indexes that are theirs alone; return these, one a row.

        When one cannot be stored, those before it are freed.
        """
        written: list[list[int]] = []
        try:
            for batch in batches:
                indexes = await self._write(partition, batch)
                written.append(indexes)
        except Exception:
            if written:
                await self.free(partition, [*chain.from_iterable(written)])
            raise
        return written

    async def _write(self, partition: str, batch: Batch) -> list[int]:
        # A unit keeps any values as they come. The library's own put makes tensors of them first,
        # row by row and back, which took most of its time.
        indexes = await self._pool(partition).take(len(batch.serials))
        columns: dict[str, Sequence[Any]] = {SERIAL: batch.serials, **batch.columns}
        puts = (
            self._manager._put_to_single_storage_unit(  # noqa: SLF001
                part.global_indexes,
                {
                    field: [values[row] for row in part.batch_positions]
                    for field, values in columns.items()
                },
                target_storage_unit=unit,
            )
            for unit, part in self._parts(indexes)
        )
        await asyncio.gather(*puts)
        await self._notices.add(partition, indexes, columns)
        return indexes

    def _parts(self, indexes: Sequence[int]) -> Collection[tuple[str, Any]]:
        """Which unit has which of the indexes, and at which places these are."""
        parts: dict[str, Any] = self._manager._group_by_hash(list(indexes))  # noqa: SLF001
        return parts.items()

    def _pool(self, partition: str) -> IndexPool:
        if partition not in self._pools:
            self._pools[partition] = IndexPool(partial(self._indexes, partition))
        return self._pools[partition]

    async def _indexes(self, partition: str, count: int) -> list[int]:
        meta = await self._client.async_get_meta(
            data_fields=[SERIAL], batch_size=count, partition_id=partition, mode="insert"
        )
        indexes: list[int] = meta.global_indexes
        if len(set(indexes)) != count:
            raise RuntimeError(f"TransferQueue gave {count} rows {len(set(indexes))} indexes")
        return indexes

    def undo(self, partition: str, writing: Future[list[list[int]]]) -> None:
        """Have a `write` freed that nobody waits for, once every unit has acknowledged it.

        Not before: what a unit is late with would come after its index was another row's.
        """

        def free(done: Future[list[list[int]]]) -> None:
            if done.cancelled() or done.exception() is not None:
                return
            work = self.free(partition, [*chain.from_iterable(done.result())])
            try:
                asyncio.run_coroutine_threadsafe(work, self._loop)
            except RuntimeError:  # this client was closed
                work.close()

        writing.add_done_callback(free)

    async def read(self, places: Sequence[Place], fields: Sequence[str]) -> Batch:
        """Read columns of rows, in the order of their places.

        Raises:
            StorageKeyNotFoundError: a unit has nothing under one of the indexes.
            RuntimeError: a unit's own error, or not every value came back.
        """
        parts = self._parts([place.slot for place in places])
        gets = (
            self._manager._get_from_single_storage_unit(  # noqa: SLF001
                part.global_indexes, [SERIAL, *fields], target_storage_unit=unit
            )
            for unit, part in parts
        )
        columns: dict[str, list[Any]] = {field: [None] * len(places) for field in (SERIAL, *fields)}
        for (unit, part), (_, found) in zip(parts, await asyncio.gather(*gets), strict=True):
            for field, column in columns.items():
                if len(found[field]) != len(part.batch_positions):
                    msg = (
                        f"{unit} gave {len(found[field])} {field!r} of {len(part.batch_positions)}"
                    )
                    raise RuntimeError(msg)
                for row, value in zip(part.batch_positions, found[field], strict=True):
                    column[row] = value
        return Batch(columns.pop(SERIAL), columns)

    async def free(self, partition: str, indexes: Sequence[int]) -> None:
        """Delete rows, whose indexes others may get from now on."""
        await self._notices.told()
        await self._client.async_clear_samples(
            BatchMeta(global_indexes=list(indexes), partition_ids=[partition] * len(indexes))
        )

    def close(self) -> None:
        """Give up what still runs, end the loop and close the connections. Idempotent."""
        with self._lock:
            self._end()


async def _give_up(notices: Notices) -> None:
    # One that the library has begun cannot be called back cleanly.
    with suppress(Exception):
        async with asyncio.timeout(NOTICE_S):
            await notices.told()
    running = asyncio.all_tasks() - {asyncio.current_task()}
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def _end(
    loop: asyncio.AbstractEventLoop,
    thread: threading.Thread,
    client: AsyncTransferQueueClient,
    notices: Notices,
) -> None:
    wait([asyncio.run_coroutine_threadsafe(_give_up(notices), loop)], JOIN_S)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(JOIN_S)
    # A thread that is stuck keeps its sockets until the process ends.
    if not thread.is_alive():
        loop.close()
        client.close()
