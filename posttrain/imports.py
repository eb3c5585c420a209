"""Python's own pauses: the garbage collector's, and the wait for the interpreter."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SWITCH_S = 0.0005


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector; what exists at the end is never looked at again.

    Importing vLLM spends a tenth of its time in collections.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def serve_promptly() -> None:
    """Let no request of this process wait for another one's work: call it once, before serving.

    The collector never looks again at what exists by now: a server that holds a gigabyte of
    libraries would otherwise stop for tenths of a second at every full collection. And a thread
    hands the interpreter over after half a millisecond, not after five: an answer changes threads
    several times, and would wait for whoever computes at each.
    """
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(_SWITCH_S)
