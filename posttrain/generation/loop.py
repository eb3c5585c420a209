"""An event loop in a thread of its own, which other threads hand work to and wait for."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


class LoopThread:
    """A running event loop.

    Args:
        name: of the thread, as stack dumps show it.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], deadline_s: float | None) -> T:
        """Run `work` in the loop, and wait for its result; without a deadline, for ever.

        Raises:
            TimeoutError: `deadline_s` seconds have passed; the work was cancelled.
        """
        answer = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return answer.result(deadline_s)
        except TimeoutError:
            answer.cancel()
            raise

    def stop(self, deadline_s: float) -> None:
        """End the loop. A thread that hangs keeps it, and ends with the process."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(deadline_s)
        if not self._thread.is_alive():
            self._loop.close()
