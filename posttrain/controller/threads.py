"""Calls that block, awaited on an event loop that must not."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


async def in_thread(name: str, call: Callable[[], T]) -> T:
    """Run a call in a thread of its own, and return what it does or raise what it raises.

    A cancelled caller leaves it at work. The thread is a daemon, unlike those of the loop's own
    pool: one that hangs must not keep a process alive whose run has ended.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]

    def work() -> None:
        result, failure = None, None
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the caller gets it
            failure = error
        # The loop is closed when nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await answer


async def to_the_end(work: Coroutine[None, None, T]) -> T:
    """Await ``work`` to its end; cancellations in the meantime are raised after that, as one."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # A run that ends with an error cancels its tasks once more.
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        raise
