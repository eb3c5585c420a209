"""Indexes of TransferQueue that are this client's alone, fetched ahead of the rows.

The controller hands an index out once, until its row is cleared. Asked for at each put it is a
fifth of the time of one; asked for by the dozen and before they are needed it is nothing. Those
that a client has left when it ends are never handed out again, which costs a few bytes each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

AHEAD = 64


class IndexPool:
    """Of one partition; belongs to one event loop.

    Args:
        fetch: gives so many indexes, all different, that nobody else has.
        ahead: how many are fetched at once, at least; the next ones when half of them are left.
    """

    def __init__(self, fetch: Callable[[int], Awaitable[list[int]]], ahead: int = AHEAD) -> None:
        self._fetch = fetch
        self._ahead = ahead
        self._free: deque[int] = deque()
        self._filling: asyncio.Task[None] | None = None

    async def take(self, count: int) -> list[int]:
        """So many indexes, in the order in which they were handed out.

        Raises:
            Exception: what ``fetch`` raises, when there are too few without it.
        """
        while len(self._free) < count:
            filling = self._fill(count)
            # Another put that is given up must not take this one's indexes with it.
            await asyncio.shield(filling)
        taken = [self._free.popleft() for _ in range(count)]
        if len(self._free) < self._ahead // 2:
            self._fill(self._ahead)
        return taken

    def _fill(self, count: int) -> asyncio.Task[None]:
        if self._filling is None or self._filling.done():
            self._filling = asyncio.create_task(self._filled(max(count, self._ahead)))
            # What nobody waits for is asked again by whoever needs it, who then is told.
            self._filling.add_done_callback(_seen)
        return self._filling

    async def _filled(self, count: int) -> None:
        self._free.extend(await self._fetch(count))


def _seen(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
