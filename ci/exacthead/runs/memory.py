"""The highest memory of a whole process tree, sampled for about one percent of a core.

Standard library only: the supervisor imports this in a bare interpreter.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from exacthead.runs.process import pss_mb, rss_pages

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.runs.process import Process

_COST_SHARE = 0.01
_LEAST_S = 0.5
_MOST_S = 2.0
# Pages that stop being shared raise the exact figure and leave the rough one as it is.
_LOOK_ANYWAY_S = 4.0
_GROWN = 1.005


class MemoryPeak:
    """Samples the proportional set size of what ``find`` lists; the highest is ``peak_mb``, in MiB.

    The exact figure costs a walk over all page tables. It is taken when the rough one (resident
    pages) has grown or other processes are there than the last time, and every few seconds.
    """

    def __init__(self, find: Callable[[], list[Process]]) -> None:
        self.peak_mb = 0.0
        self._find = find
        self._next = 0.0
        self._exact_at = 0.0
        self._pids: list[int] = []
        self._pages = 0

    def sample(self) -> None:
        """Take a sample if it is time for one."""
        if time.monotonic() < self._next:
            return
        cost = time.process_time()
        tree = self._find()
        pids, pages = [each.pid for each in tree], rss_pages(tree)
        if (
            pids != self._pids
            or pages > _GROWN * self._pages
            or time.monotonic() - self._exact_at > _LOOK_ANYWAY_S
        ):
            self.peak_mb = max(self.peak_mb, pss_mb(tree))
            self._pids, self._pages, self._exact_at = pids, pages, time.monotonic()
        wait = (time.process_time() - cost) / _COST_SHARE
        self._next = time.monotonic() + min(max(wait, _LEAST_S), _MOST_S)
