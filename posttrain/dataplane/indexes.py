"""Indexes of TransferQueue that are this client's alone, fetched ahead of the rows.

The controller hands an index out once, until its row is cleared. Asked for at each put it is a
fifth of the time of one; asked for by the dozen and before they are needed it is nothing. Those
that a client has left when it ends are never handed out again, which costs a few bytes each.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import CancelledError, Future, wait
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

AHEAD = 64


class IndexPool:
    """Of one partition, for any number of threads.

    Args:
        fetch: begins to fetch so many indexes, all different, that nobody else has.
        ahead: how many are fetched at once, at least; the next ones when half of them are left.
    """

    def __init__(self, fetch: Callable[[int], Future[list[int]]], ahead: int = AHEAD) -> None:
        self._fetch = fetch
        self._ahead = ahead
        self._lock = threading.RLock()  # a fetch may be done at once
        self._free: deque[int] = deque()
        self._filling: Future[None] | None = None

    def take(self, count: int) -> Taking:
        """Begin to take so many indexes, in the order in which they were handed out."""
        return Taking(self, count)

    def now(self, count: int) -> list[int] | Future[None]:
        """So many indexes if there are; else what to wait for until there are more."""
        with self._lock:
            if len(self._free) < count:
                return self._fill(count)
            taken = [self._free.popleft() for _ in range(count)]
            if len(self._free) < self._ahead // 2:
                # What fails here is asked again by whoever needs it, who then is told.
                self._fill(self._ahead)
            return taken

    def _fill(self, count: int) -> Future[None]:
        if self._filling is None or self._filling.done():
            fetched = self._fetch(max(count, self._ahead))
            self._filling = Future()
            fetched.add_done_callback(partial(self._filled, self._filling))
        return self._filling

    def _filled(self, filling: Future[None], fetched: Future[list[int]]) -> None:
        # The indexes are here before anybody who waits for them looks.
        if fetched.cancelled():
            filling.set_exception(CancelledError())
        elif error := fetched.exception():
            filling.set_exception(error)
        else:
            with self._lock:
                self._free.extend(fetched.result())
            filling.set_result(None)


class Taking:
    """Indexes that are being taken, by one thread: see `IndexPool.take`."""

    def __init__(self, pool: IndexPool, count: int) -> None:
        self._pool = pool
        self._count = count
        self._taken: list[int] | None = None

    def wait(self, seconds: float) -> bool:
        """Whether they are taken, after so many seconds at most.

        Raises:
            Exception: what the fetch raises, when there are too few without it.
        """
        end = time.monotonic() + seconds
        while self._taken is None:
            found = self._pool.now(self._count)
            if isinstance(found, list):
                self._taken = found
            elif not wait([found], max(0.0, end - time.monotonic())).done:
                return False
            else:
                found.result()
        return True

    def result(self) -> list[int]:
        """The indexes, when they are taken."""
        if self._taken is None:
            msg = "these indexes are not taken yet"
            raise RuntimeError(msg)
        return self._taken

    def give_up(self) -> None:
        """Take none. What is fetched meanwhile stays for others."""
