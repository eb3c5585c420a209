"""Dump the stacks of all threads on SIGUSR1, for whoever ends a process that hangs."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
from pathlib import Path

FOLDER_VARIABLE = "EXACTHEAD_STACKS_DIR"


def register_stack_dump() -> Path | None:
    """Let SIGUSR1 append this process's stacks to `$EXACTHEAD_STACKS_DIR/<pid>.txt`.

    Every process of the stack calls this first. Calling it again only moves the file.

    Returns:
        The file, or None where the variable is not set and the signal keeps its meaning.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return None
    path = Path(folder) / f"{os.getpid()}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    # The handler writes to a bare descriptor, which has to stay open until the process ends.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    faulthandler.register(signal.SIGUSR1, file=descriptor, all_threads=True)
    return path


def request_stack_dumps() -> list[int]:
    """Ask every process of this machine that registered in the same folder for its stacks.

    Makes system calls only, so that a signal handler may call it.

    Returns:
        The processes that were asked.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    asked = []
    for path in sorted(Path(folder).glob("*.txt")) if folder else []:
        # The process may have ended meanwhile, and its number may be somebody else's by now.
        with contextlib.suppress(OSError):
            if path.stem.isdecimal() and _holds(int(path.stem), path):
                os.kill(int(path.stem), signal.SIGUSR1)
                asked.append(int(path.stem))
    return asked


def _holds(pid: int, path: Path) -> bool:
    """Whether the process has the file open, as it does from registering to its end."""
    wanted = path.stat()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            if os.path.samestat(descriptor.stat(), wanted):
                return True
    return False
