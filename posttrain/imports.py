"""Import large libraries without the garbage collector, which finds nothing to free in them."""

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
