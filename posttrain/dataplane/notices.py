"""What TransferQueue's controller is told of rows that are there, behind the puts and not in them.

The controller keeps a status of each row. A plane's readers ask the ledger instead, so no put has
to wait for it; but a row can only be cleared once its status exists. The rows of all puts within
`GATHER_S` are one notice, so that the threads that put seldom meet the loop's.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

GATHER_S = 0.1
# The controller's own form of a field of which it knows nothing but the name.
_FIELD = {"dtype": None, "shape": None, "is_nested": False, "is_non_tensor": False}


class Notices:
    """Of one client.

    Args:
        loop: on which the controller is told.
        tell: TransferQueue's own notice: partition, indexes, fields.
        gather_s: seconds until rows are told of that nobody waits for.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tell: Callable[[str, list[int], dict[str, dict[str, Any]]], Awaitable[None]],
        gather_s: float = GATHER_S,
    ) -> None:
        self._loop = loop
        self._tell = tell
        self._gather_s = gather_s
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, frozenset[str]], list[int]] = defaultdict(list)
        self._planned = False
        self._telling: asyncio.Task[None] | None = None

    def add(self, partition: str, indexes: Sequence[int], fields: Collection[str]) -> None:
        """Have the controller told of rows; from any thread, while the loop is not closed."""
        with self._lock:
            self._waiting[partition, frozenset(fields)] += indexes
            planned, self._planned = self._planned, True
        if not planned:
            self._loop.call_soon_threadsafe(self._loop.call_later, self._gather_s, self._begin)

    async def told(self) -> None:
        """Wait until the controller knows of all rows that were added so far; called on the loop.

        Raises:
            Exception: what ``tell`` raised; it is tried again with the next row or call.
        """
        while self._waiting or self._running():
            # One call that is given up must not take the others' notices with it.
            await asyncio.shield(self._begin())

    def _running(self) -> bool:
        return self._telling is not None and not self._telling.done()

    def _begin(self) -> asyncio.Task[None]:
        with self._lock:
            self._planned = False
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell_all())
            # What fails while nobody waits is told again before the next row is cleared.
            self._telling.add_done_callback(_seen)
        return self._telling

    async def _tell_all(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    return
                (partition, fields), indexes = self._waiting.popitem()
            try:
                await self._tell(partition, indexes, {field: {**_FIELD} for field in fields})
            except BaseException:
                with self._lock:
                    self._waiting[partition, fields] += indexes
                raise


def _seen(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
