"""Ctrl-C and its like: one wish to stop, asked for by those who wait, never an exception midway."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import FrameType, TracebackType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While entered, SIGINT, SIGTERM and SIGHUP only set :attr:`asked`.

    An exception raised by a signal could land in the middle of any cleanup; a flag cannot. A second
    Ctrl-C finds the same flag set and changes nothing. Enter it in the main thread.
    """

    def __init__(self) -> None:
        # A plain attribute: a lock taken in a signal handler could wait for its own thread.
        self._signal: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Take over the signals."""
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the signals back to those who had them."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def asked(self) -> bool:
        """Whether someone wants the run to end."""
        return self._signal is not None

    @property
    def name(self) -> str:
        """The first signal's name, for reports; empty when there was none."""
        return self._signal.name if self._signal is not None else ""

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        again = self._signal is not None
        if not again:
            self._signal = signal.Signals(number)
        text = (
            "still ending\n"
            if again
            else "\nending everything of this run (at most five seconds)\n"
        )
        # Unbuffered, since the handler may run in the middle of a print. Who read it may have gone
        # by the same signal (`2>&1 | tee log`), and an error would leave the handler for anywhere.
        with contextlib.suppress(OSError):
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, text.encode())
