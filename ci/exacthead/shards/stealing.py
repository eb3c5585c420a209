"""Stealing: when the processes of a shard end, if each takes the next group as it gets free."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def wall(times: Iterable[int], processes: int) -> int:
    """The time until the last group ends (Graham's list scheduling).

    Args:
        times: of the groups, in the order in which they are handed out.
        processes: how many run at once.
    """
    free = [0] * processes
    for time in times:
        heapq.heapreplace(free, free[0] + time)
    return max(free)
