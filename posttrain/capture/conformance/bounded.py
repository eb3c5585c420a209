"""Work that may hang, since it is a sink's or a source's: each has a deadline."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TypeVar

from posttrain.capture.conformance.failure import Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

# A whole check, which may start some twenty processes; what takes longer does not end.
CHECK_S = 600.0


def together(works: Sequence[Callable[[], T]]) -> list[T]:
    """Begin works at the same time, each in a thread, and return what they return, in order.

    Raises:
        Failed: some did not end within ``CHECK_S`` seconds. Their threads are left alone, and keep
            no process alive.
    """
    start = threading.Barrier(len(works))
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def begin(place: int) -> None:
        try:
            start.wait(CHECK_S)
            results[place] = works[place]()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the caller gets it
            errors.append(error)

    threads = [
        threading.Thread(target=begin, args=[place], daemon=True) for place in range(len(works))
    ]
    for thread in threads:
        thread.start()
    end = time.monotonic() + CHECK_S
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    if errors:
        raise errors[0]
    if hung := len(works) - len(results):
        raise Failed(
            f"{hung} of {len(works)} threads did not end within {CHECK_S:g} s: the sink or the"
            " source hangs"
        )
    return [results[place] for place in range(len(works))]


def bounded(work: Callable[[], T]) -> T:
    """Return what a work returns: see :func:`together`."""
    (result,) = together([work])
    return result
