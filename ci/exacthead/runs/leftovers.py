"""What an item leaves behind besides processes: shared memory, listening ports, accelerator memory.

Standard library only: the supervisor imports this in a bare interpreter.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.runs.process import all_processes, command_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from exacthead.runs.process import Process

_LISTEN = "0A"
_LOOK_AGAIN_S = 5.0
_DELETED = " (deleted)"

# Name in the folder, and the inode that tells it from a later file of the same name.
Identity = tuple[str, int]


class SharedMemory:
    """Watches a folder of shared memory for names that one item creates.

    The kernel does not record who created a file there. A name that is new since the item's start
    counts as the item's when one of its processes is seen holding it (open or mapped). Other legs
    create names in the same folder at the same time, so what nobody was seen holding is only told.
    """

    def __init__(self, folder: Path = Path("/dev/shm")) -> None:  # noqa: S108 - that is the place
        self.folder = folder
        self._before = self._list()
        self._ours: set[Identity] = set()
        self._next_look: dict[Identity, tuple[float, float]] = {}

    def _list(self) -> set[Identity]:
        if not self.folder.is_dir():
            return set()
        with os.scandir(self.folder) as entries:
            return {(entry.name, entry.inode()) for entry in entries}

    def look(self, find: Callable[[], list[Process]]) -> None:
        """Attribute new names; ``find`` (which costs a walk over /proc) is called only for those.

        A name that was looked at in vain is looked at again after twice the time, up to 5 s.
        """
        now = time.monotonic()
        due = [
            identity
            for identity in self._list() - self._before - self._ours
            if self._next_look.get(identity, (0.0, 0.0))[0] <= now
        ]
        if not due:
            return
        held = _held_below(self.folder, find())
        for identity in due:
            if identity[0] in held:
                self._ours.add(identity)
                continue
            wait = min(2 * self._next_look.get(identity, (0.0, 0.05))[1], _LOOK_AGAIN_S)
            self._next_look[identity] = (now + wait, wait)

    def left(self) -> list[str]:
        """Names that the item created and that are still there."""
        return sorted(name for name, _ in self._ours & self._list())

    def unexplained(self) -> list[str]:
        """Names that are new since the start and that no process holds or was seen holding."""
        new = self._list() - self._before - self._ours
        if not new:
            return []
        held = _held_below(self.folder, all_processes().values())
        return sorted(name for name, _ in new if name not in held)

    def remove_left(self) -> list[str]:
        """Remove the item's names unless a process outside uses them; returns what was kept."""
        left = self._ours & self._list()
        if not left:
            return []
        held = _held_below(self.folder, all_processes().values())
        for name, _ in left:
            path = self.folder / name
            if name in held:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        return self.left()


def _held_below(folder: Path, processes: Iterable[Process]) -> set[str]:
    """Names right below ``folder`` under which some process has a file open or mapped."""
    prefix = f"{folder}/"
    paths: set[str] = set()
    for process in processes:
        paths.update(open_files(process.pid))
        try:
            maps = Path(f"/proc/{process.pid}/maps").read_bytes().decode(errors="surrogateescape")
        except OSError:
            continue
        paths.update(
            line[line.index(prefix) :] for line in maps.split("\n") if f" {prefix}" in line
        )
    return {
        path.removesuffix(_DELETED).removeprefix(prefix).split("/")[0]
        for path in paths
        if path.startswith(prefix)
    }


def open_files(pid: int) -> list[str]:
    """What the process's descriptors point at, as the kernel words it; empty when it is gone."""
    try:
        links = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return []
    targets = []
    for link in links:
        try:
            targets.append(str(link.readlink()))
        except OSError:
            continue
    return targets


@dataclass(frozen=True)
class Listener:
    """A listening TCP socket."""

    port: int
    inode: int


def listeners() -> list[Listener]:
    """Every listening TCP socket of this network namespace, IPv4 and IPv6."""
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except FileNotFoundError:
            continue  # a kernel without IPv6
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN:
                found.append(Listener(int(fields[1].rpartition(":")[2], 16), int(fields[9])))
    return found


def accelerator_mb() -> dict[int, int]:
    """Accelerator memory in MiB by pid, from nvidia-smi; empty on a machine without it."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {}
    query = [tool, "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return {}
    rows = (line.split(",") for line in done.stdout.splitlines())
    # In a container the driver may print [N/A] for either column.
    numbers = ([cell.strip() for cell in row] for row in rows)
    used: dict[int, int] = {}
    for row in numbers:
        if len(row) == 2 and all(cell.isdigit() for cell in row):  # noqa: PLR2004 - two columns
            used[int(row[0])] = used.get(int(row[0]), 0) + int(row[1])
    return used


def describe(processes: list[Process]) -> list[str]:
    """One sentence for each leftover process: pid, command, what it listens on and occupies."""
    if not processes:
        return []
    ports = {f"socket:[{each.inode}]": each.port for each in listeners()}
    accelerators = accelerator_mb()
    sentences = []
    for process in processes:
        held = sorted({ports[each] for each in open_files(process.pid) if each in ports})
        details = [f"listening on {', '.join(map(str, held))}"] if held else []
        if process.pid in accelerators:
            details.append(f"{accelerators[process.pid]} MiB of accelerator memory")
        suffix = f" ({'; '.join(details)})" if details else ""
        sentences.append(f"process {process.pid} `{command_line(process.pid)}`{suffix}")
    return sentences
