"""Groups: the common list of a shard, from which every process takes its next piece of work."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class Groups:
    """Groups of node ids in the order in which they are handed out.

    A process knows the groups by the snapshot that it was started with, so it gets only groups of
    that; what a dead process left over becomes a new group in front, for the processes that start
    after it.

    Args:
        groups: node ids, group by group.
    """

    def __init__(self, groups: Iterable[Sequence[str]]) -> None:
        self._groups = [list(group) for group in groups]
        self._pending = deque(range(len(self._groups)))

    def __len__(self) -> int:
        """How many groups wait."""
        return len(self._pending)

    def group(self, index: int) -> list[str]:
        """The node ids of one group."""
        return self._groups[index]

    def snapshot(self) -> list[list[str]]:
        """All groups by their number; those that do not wait any more are empty."""
        waiting = set(self._pending)
        return [group if i in waiting else [] for i, group in enumerate(self._groups)]

    def take(self, known: int) -> int | None:
        """Hand out the next group of the first ``known``; None when none of these waits."""
        for index in self._pending:
            if index < known:
                self._pending.remove(index)
                return index
        return None

    def rest(self, known: int, *, alone: bool) -> list[int]:
        """Which groups a process may be handed next.

        Args:
            known: how many groups its snapshot has.
            alone: nobody else takes groups, so that it is the next one for sure.
        """
        waiting = [index for index in self._pending if index < known]
        return waiting[:1] if alone else waiting

    def put_back(self, nodeids: Sequence[str]) -> None:
        """Make what a process left over the first group that waits."""
        if nodeids:
            self._groups.append(list(nodeids))
            self._pending.appendleft(len(self._groups) - 1)

    def drop(self, unwanted: Callable[[str], bool]) -> list[str]:
        """Take tests out of the groups that wait; returns them in order."""
        dropped = []
        for index in list(self._pending):
            dropped += [each for each in self._groups[index] if unwanted(each)]
            # A new list: snapshots that were handed out keep theirs.
            self._groups[index] = [each for each in self._groups[index] if not unwanted(each)]
            if not self._groups[index]:
                self._pending.remove(index)
        return dropped
