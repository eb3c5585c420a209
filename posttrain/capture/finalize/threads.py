"""Threads for an event loop's blocking calls, with less around each call than an executor has.

A rollout is one call of about two milliseconds. ``asyncio.to_thread`` puts two futures, their locks
and a task's context around it, which is a twentieth of that; here it is one future and one queue.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    Calls = SimpleQueue[Callable[[], None] | None]

T = TypeVar("T")


class Threads:
    """Makes blocking calls; as many at once as there are threads.

    The threads begin with the first call and end when this object is gone. A call that does not
    come back keeps its thread, and does not keep the process.

    Args:
        count: of threads.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._begun = False
        self._calls: Calls = SimpleQueue()
        weakref.finalize(self, self._calls.put, None)

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in one of the threads; its result, or what it raises.

        Whoever is cancelled while waiting leaves the call as it is.
        """
        if not self._begun:
            self._begin()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._calls.put(partial(_make, loop, answer, function, arguments))
        return await answer

    def _begin(self) -> None:
        self._begun = True
        for number in range(self._count):
            name = f"staging-{number}"
            # It must not know this object, which would never be gone.
            threading.Thread(target=_serve, args=(self._calls,), name=name, daemon=True).start()


def _serve(calls: Calls) -> None:
    """Make calls until there is None, and hand that on to the next thread."""
    while (call := calls.get()) is not None:
        call()
        # What it holds belongs to the one who waits.
        del call
    calls.put(None)


def _make(
    loop: asyncio.AbstractEventLoop,
    answer: asyncio.Future[T],
    function: Callable[..., T],
    arguments: tuple[Any, ...],
) -> None:
    if answer.cancelled():  # before it began
        return
    give: Callable[[], None]
    try:
        give = partial(answer.set_result, function(*arguments))
    except BaseException as error:  # noqa: BLE001 - it belongs to the one who waits
        give = partial(answer.set_exception, error)
    # A loop that is closed has nobody who waits.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(_unless_over, answer, give)


def _unless_over(answer: asyncio.Future[Any], give: Callable[[], None]) -> None:
    if not answer.done():
        give()
