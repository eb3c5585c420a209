"""Kills: what the kernel's out-of-memory killer did while a process was at work."""

from __future__ import annotations

import time
from pathlib import Path

from exacthead.runs.oom import group_of, own_group

_LOOK_S = 0.05


class Kills:
    """Follows the counter of one process's control group, so that each kill has its time.

    Nothing in a dead process tells who sent its SIGKILL: a kill counted in its group while the test
    in flight ran is the kernel's word for it.
    """

    def __init__(self) -> None:
        # A process starts in the group of who starts it.
        self._group = own_group()
        self._membership = ""
        self._counted = self._group.kills()
        self._next = 0.0
        self._seen: list[tuple[float, int]] = []

    def look(self, pid: int) -> None:
        """Read the counter, if it is time to, in the group that the process is in now."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _LOOK_S
        self._count()
        try:
            membership = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
        except OSError:
            return
        if membership != self._membership:
            self._membership = membership
            group = group_of(membership)
            # Of a process that is about to end, version 1 says that it is in the topmost group.
            if group.folder not in {None, group.top, self._group.folder}:
                self._group, self._counted = group, group.kills()

    def since(self, begun: float) -> str:
        """What there is to say of kills since a time of the monotonic clock; empty for none.

        Called when the process is dead.
        """
        self._count()
        kills = sum(kills for at, kills in self._seen if at >= begun)
        if not kills:
            return ""
        place = "on the machine" if self._group.folder is None else "in its control group"
        return f"{kills} kill{'s' if kills > 1 else ''} {place}; {self._group.describe()}"

    def _count(self) -> None:
        counted = self._group.kills()
        if counted > self._counted:
            self._seen.append((time.monotonic(), counted - self._counted))
        self._counted = counted
