"""Whether the kernel's out-of-memory killer struck, without reading the kernel's log.

Standard library only: the supervisor imports this in a bare interpreter.
"""

from __future__ import annotations

from pathlib import Path


def oom_kills() -> int:
    """Processes that the out-of-memory killer has ended so far.

    Counted in this process's own control group where the kernel counts there (``memory.events`` of
    version 2, ``memory.oom_control`` of version 1), else on the whole machine (``/proc/vmstat``).
    """
    for path in (*_group_files(), Path("/proc/vmstat")):
        try:
            lines = path.read_text(encoding="ascii").splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return 0


def _group_files() -> list[Path]:
    files = []
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            files.append(Path(f"/sys/fs/cgroup{group}/memory.events"))
        elif "memory" in controllers.split(","):
            files.append(Path(f"/sys/fs/cgroup/memory{group}/memory.oom_control"))
    return files
