"""Whether the kernel's out-of-memory killer struck, without reading the kernel's log.

The kernel counts its kills in the control group of whom it killed, whoever's limit was reached:
``oom_kill`` in ``memory.events`` (version 2, https://docs.kernel.org/admin-guide/cgroup-v2.html)
and in ``memory.oom_control`` (version 1). Where no group counts memory, it counts them for the
whole machine in ``/proc/vmstat``.

Standard library only: the supervisor imports this in a bare interpreter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_MIB = 1 << 20
# What version 1 shows for "no limit" is the greatest multiple of a page; nothing has an exabyte.
_NO_LIMIT = 1 << 60
_EVENTS, _CONTROL = "memory.events", "memory.oom_control"


@dataclass(frozen=True)
class MemoryGroup:
    """Where the kernel counts a process's memory and its kills.

    Attributes:
        folder: of the control group; None for the whole machine.
        top: the mounted hierarchy's root; folders from there down to the group can set limits.
        proc: where the kernel tells of processes and of the machine.
    """

    folder: Path | None
    top: Path
    proc: Path

    def kills(self) -> int:
        """How many of its processes the out-of-memory killer has ended so far."""
        if self.folder is None:
            return _named(self.proc / "vmstat", "oom_kill")
        name = _EVENTS if (self.folder / _EVENTS).exists() else _CONTROL
        return _named(self.folder / name, "oom_kill")

    @property
    def limit(self) -> int | None:
        """How many bytes it may hold at most; None when only the machine's memory bounds it."""
        folder = self.folder
        limits = []
        while folder is not None:
            limits += [_number(folder / each) for each in ("memory.max", "memory.limit_in_bytes")]
            folder = None if folder == self.top else folder.parent
        return min((each for each in limits if each is not None and each < _NO_LIMIT), default=None)

    def describe(self) -> str:
        """The limit and what was used, in words."""
        if self.limit is None:
            total = _named(self.proc / "meminfo", "MemTotal:") // 1024
            return f"no memory limit but the machine's {total} MiB"
        peaks = ("memory.peak", "memory.max_usage_in_bytes")
        used = [_number(self.folder / each) for each in peaks] if self.folder else []
        peak = next((f", {each // _MIB} MiB used at most" for each in used if each), "")
        return f"memory limit {self.limit // _MIB} MiB{peak}"


def own_group(proc: Path = Path("/proc")) -> MemoryGroup:
    """The group that counts this process's memory.

    Args:
        proc: where the kernel tells of processes.
    """
    return group_of((proc / "self/cgroup").read_text(encoding="utf-8"), proc)


def group_of(membership: str, proc: Path = Path("/proc")) -> MemoryGroup:
    """The group that counts a process's memory.

    Args:
        membership: the content of ``/proc/PID/cgroup``.
        proc: where the kernel tells of processes.
    """
    mounts = _hierarchies(proc)
    for line in membership.splitlines():
        _, controllers, group = line.split(":", 2)
        version = "cgroup2" if not controllers else "cgroup"
        if controllers and "memory" not in controllers.split(","):
            continue
        for kind, root, top in mounts:
            # Inside a container the mount may show a part of the hierarchy only.
            if kind == version and PurePosixPath(group).is_relative_to(root):
                folder = top / PurePosixPath(group).relative_to(root)
                if any((folder / each).exists() for each in (_EVENTS, _CONTROL)):
                    return MemoryGroup(folder, top, proc)
    return MemoryGroup(None, Path(), proc)


def _hierarchies(proc: Path) -> list[tuple[str, str, Path]]:
    """The mounts that control memory: kind of the file system, what of it is shown, and where."""
    found = []
    for line in (proc / "self/mountinfo").read_text(encoding="utf-8").splitlines():
        fields, _, kinds = line.partition(" - ")
        kind, _, options = kinds.split(" ", 2)
        if kind == "cgroup2" or (kind == "cgroup" and "memory" in re.split("[ ,]", options)):
            root, place = fields.split(" ")[3:5]
            found.append((kind, root, Path(place)))
    return found


def _named(path: Path, name: str) -> int:
    """The number behind a name in a file of such lines; 0 where the kernel has none."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:  # the group is gone, or not ours to read
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), 0)


def _number(path: Path) -> int | None:
    """The number that a file holds; None for ``max``, or where there is no such file."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
