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


def request_stack_dump(pid: int) -> None:
    """Ask a process of this machine that has called `register_stack_dump` for its stacks."""
    with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
        os.kill(pid, signal.SIGUSR1)
