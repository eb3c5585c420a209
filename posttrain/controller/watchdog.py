"""The stall watchdog: a run whose pumps get nowhere ends, and says what each was waiting for."""

from __future__ import annotations

import asyncio
import faulthandler
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from posttrain.controller.failures import StallError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# How often the watchdog looks, at most, in seconds.
LOOK_S = 0.5


@dataclass
class Pulse:
    """What one pump is at.

    Attributes:
        name: of the pump.
        waiting: what it waits for, or has last waited for.
        beaten: when it last got anywhere, by the monotonic clock.
    """

    name: str
    waiting: str = "its start"
    beaten: float = 0.0

    def beat(self) -> None:
        """Say that the pump got somewhere."""
        self.beaten = time.monotonic()

    @contextmanager
    def wait(self, what: str) -> Iterator[None]:
        """Say what the block waits for; when it is there, the pump got somewhere."""
        self.waiting = what
        yield
        self.beat()


class Watchdog:
    """Watches the pumps of one event loop.

    Args:
        stall_s: seconds without a beat of any pump after which the run ends.
        stream: where the stacks go; needs a file descriptor.
        on_stall: called after that, to have other processes dump theirs; must return quickly.
    """

    def __init__(
        self, stall_s: float, stream: TextIO, on_stall: Callable[[], object] | None = None
    ) -> None:
        self._stall_s = stall_s
        self._stream = stream
        self._on_stall = on_stall
        self._pulses: list[Pulse] = []

    def pulse(self, name: str) -> Pulse:
        """The pulse of a pump, which it must keep."""
        pulse = Pulse(name)
        pulse.beat()
        self._pulses.append(pulse)
        return pulse

    async def guard(self) -> NoReturn:
        """Look until the pumps stall.

        Raises:
            StallError: with what each pump waits for and for how long; all stacks were dumped.
        """
        with self._alarm():
            while True:
                # A loop that is blocked never comes here; the alarm then rings in its midst.
                self._arm(self._stall_s + 2 * LOOK_S)
                left = self._last() + self._stall_s - time.monotonic()
                if left <= 0:
                    self._dump(asyncio.all_tasks())
                    raise self._error("no pump got anywhere")
                await asyncio.sleep(min(left, LOOK_S))

    def _last(self) -> float:
        return max(pulse.beaten for pulse in self._pulses)

    def _error(self, what: str) -> StallError:
        now = time.monotonic()
        pumps = "".join(
            f"\n    {pulse.name}: waits for {pulse.waiting}, last got somewhere"
            f" {now - pulse.beaten:.1f} s ago"
            for pulse in self._pulses
        )
        return StallError(
            f"progress within {self._stall_s:g} s (controller.stall_s)",
            f"{what}:{pumps}",
            "see the stacks in the log; if a call may take that long, raise controller.stall_s",
        )

    def _dump(self, tasks: set[asyncio.Task[Any]]) -> None:
        self._stream.write("stall: stacks of all tasks and threads:\n")
        for task in tasks:
            task.print_stack(file=self._stream)
        self._stream.flush()
        faulthandler.dump_traceback(file=self._stream, all_threads=True)
        if self._on_stall is not None:
            self._on_stall()

    @contextmanager
    def _alarm(self) -> Iterator[None]:
        if not _in_main_thread():
            # Only there can a signal interrupt; elsewhere a blocked loop is the caller's to see.
            yield
            return

        def ring(_number: int, _frame: Any) -> NoReturn:
            self._dump(set())
            raise self._error("the event loop is blocked")

        before = signal.signal(signal.SIGALRM, ring)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    @staticmethod
    def _arm(seconds: float) -> None:
        if _in_main_thread():
            # Again and again: what is next in the loop may block as well.
            signal.setitimer(signal.ITIMER_REAL, seconds, seconds)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
