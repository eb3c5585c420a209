"""Keep the garbage collector from large libraries, in which it finds nothing to free."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def keep_what_exists() -> None:
    """Have the collector never look again at what exists by now: call it once, before serving.

    A server that holds a gigabyte of libraries would otherwise stop for tenths of a second at every
    full collection, and each request with it.
    """
    gc.collect()
    gc.freeze()
