"""Where every process of an item stands, asked before a timeout ends it.

The protocol: a Python process that wants its stacks in the report registers, at its start,
``faulthandler.register(SIGUSR1, file=open(f"{EXACTHEAD_STACKS_DIR}/{pid}.txt", "w"))``. SIGUSR1
ends a process that does not catch it, so only those whose kernel mask says they do are asked. Of
the others, /proc says what there is to say.

Standard library only: the supervisor imports this in a bare interpreter.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.runs.process import command_line, send

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.runs.process import Process

STACKS_VARIABLE = "EXACTHEAD_STACKS_DIR"

_QUIET_S = 0.2
_FACTS = ("State:", "PPid:", "Threads:", "VmRSS:", "SigBlk:", "SigIgn:", "SigCgt:")


def catches(pid: int, number: int) -> bool:
    """Whether the process has a handler for the signal ``number``."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    for line in status.splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def dump(
    processes: list[Process], folder: Path, *, wait_s: float, hurry: Callable[[], bool]
) -> str:
    """Ask every process for its stacks and say what the kernel knows of it.

    Args:
        processes: the item's processes.
        folder: where they write ``<pid>.txt``.
        wait_s: how long they may take.
        hurry: asked while waiting; true cuts it short.

    Returns:
        One text, a section for each process.
    """
    asked = [
        process
        for process in processes
        if (folder / f"{process.pid}.txt").exists() and catches(process.pid, signal.SIGUSR1)
    ]
    files = [folder / f"{process.pid}.txt" for process in asked if send(process, signal.SIGUSR1)]
    _wait_until_written(files, wait_s, hurry)
    return "\n".join(_section(process, folder) for process in processes)


def _wait_until_written(files: list[Path], wait_s: float, hurry: Callable[[], bool]) -> None:
    """Wait until every file has something in it and none has grown for a moment."""
    deadline = time.monotonic() + wait_s
    sizes: list[int] = []
    changed = time.monotonic()
    while files and time.monotonic() < deadline and not hurry():
        now = [file.stat().st_size for file in files]
        if now != sizes:
            sizes, changed = now, time.monotonic()
        if all(sizes) and time.monotonic() - changed >= _QUIET_S:
            return
        time.sleep(_QUIET_S / 10)


def _section(process: Process, folder: Path) -> str:
    lines = [f"== process {process.pid} ({process.name}): {command_line(process.pid)}"]
    status = _read(f"/proc/{process.pid}/status")
    lines += [f"   {line}" for line in status.splitlines() if line.startswith(_FACTS)]
    threads = sorted(Path(f"/proc/{process.pid}/task").glob("*"), key=lambda path: int(path.name))
    for thread in threads:
        name, waits_in = _read(f"{thread}/comm").strip(), _read(f"{thread}/wchan").strip()
        lines.append(f"   thread {thread.name} {name}: waits in {waits_in or '(not told)'}")
        lines += [f"      {frame}" for frame in _read(f"{thread}/stack").splitlines()]
    stacks = folder / f"{process.pid}.txt"
    text = stacks.read_text(encoding="utf-8", errors="replace") if stacks.exists() else ""
    lines.append(text.rstrip() or "   (no Python stacks: it did not register for SIGUSR1)")
    return "\n".join(lines) + "\n"


def _read(path: str) -> str:
    """A file of /proc; empty when the thread has gone or the kernel keeps it to root."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
