"""Being asked to stop while no item runs yet: one signal, one KeyboardInterrupt, then a clean end.

While items run, :class:`exacthead.runs.interrupt.Interrupts` has the signals.
"""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@contextmanager
def stoppable() -> Iterator[None]:
    """Within the block the first SIGINT, SIGTERM or SIGHUP raises KeyboardInterrupt.

    What is half built is removed on the way out; a second signal must not cut that short, so all
    further ones are ignored. Enter it in the main thread.
    """
    before = {number: signal.signal(number, _interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    for each in _SIGNALS:
        signal.signal(each, _ignore)  # not SIG_IGN, which children would inherit
    raise KeyboardInterrupt


def _ignore(number: int, frame: FrameType | None) -> None:
    del number, frame


def end_with_parent() -> None:
    """Get SIGTERM when the process that ``EXACTHEAD_PARENT`` names ends, however it ends.

    nox passes no signal on: without this, a run would outlive the nox that a CI system has ended.
    Does nothing where the variable is not set.

    Raises:
        KeyboardInterrupt: that process has ended already.
    """
    parent = os.environ.pop("EXACTHEAD_PARENT", "")
    if not parent:
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(parent):
        raise KeyboardInterrupt
