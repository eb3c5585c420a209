"""Calls of several threads made as one, where a call costs much and one more item in it little."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Waiting(Generic[Item, Result]):
    """One item, until it has its result or its thread is to lead."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.turn = threading.Event()
        self.result: Future[Result] = Future()


class Together(Generic[Item, Result]):
    """Group commit: what comes while a call is under way goes into the next one, together.

    A thread that finds no call under way makes one with its item alone, at once; nobody waits for
    company. When it is done, the first of those who wait makes the next call for all of them, so
    that no thread works for others longer than for itself.

    Args:
        call: takes one item or more, in the order in which they came, and gives for each a result
            or the exception to raise in its thread. What it raises itself is raised in all.
        most: items in one call, at most.
    """

    def __init__(
        self, call: Callable[[Sequence[Item]], Sequence[Result | Exception]], most: int
    ) -> None:
        self._call = call
        self._most = most
        self._lock = threading.Lock()
        self._queue: list[_Waiting[Item, Result]] = []
        self._busy = False

    def __call__(self, item: Item) -> Result:
        """The item's result, or what the call with it raised."""
        own = _Waiting[Item, Result](item)
        with self._lock:
            self._queue.append(own)
            lead = not self._busy
            self._busy = True
        if not lead:
            own.turn.wait()
            lead = not own.result.done()
        if lead:
            self._lead()
        return own.result.result()

    @property
    def waiting(self) -> int:
        """Items that are in no call yet."""
        with self._lock:
            return len(self._queue)

    def _lead(self) -> None:
        with self._lock:
            taken, self._queue = self._queue[: self._most], self._queue[self._most :]
        try:
            results = self._call([each.item for each in taken])
            for each, result in zip(taken, results, strict=True):
                if isinstance(result, Exception):
                    each.result.set_exception(result)
                else:
                    each.result.set_result(result)
        except BaseException as error:  # noqa: BLE001 - it belongs to every thread that waits
            for each in taken:
                if not each.result.done():
                    each.result.set_exception(error)
        finally:
            with self._lock:
                following = self._queue[0] if self._queue else None
                self._busy = following is not None
            for each in taken:
                each.turn.set()
            if following is not None:
                following.turn.set()
