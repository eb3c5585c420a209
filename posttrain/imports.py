"""Python's own pauses: the garbage collector's, and the wait for the interpreter."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SWITCH_S = 0.0005
# Of the three generations: the last one is looked at after three million objects that stayed.
_COLLECTIONS = (1000, 1, 1000)


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
    libraries would otherwise stop for tenths of a second at every full collection. What comes later
    is looked at twice while it is new, a little at a time, and then seldom: Gym's ledger keeps
    thousands of tokens of every rollout, and a full collection of a few hundred rollouts takes half
    a second. And a thread hands the interpreter over after half a millisecond, not after five: an
    answer changes threads several times, and would wait for whoever computes at each.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTIONS)
    sys.setswitchinterval(_SWITCH_S)
