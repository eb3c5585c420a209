"""The processes that a pytest process started, and their end."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path

from exacthead.runs.process import Process, all_processes, members, read_process, send

# Every process that a pytest process starts inherits this variable.
MARK = "EXACTHEAD_TEST_PROCESS"

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.02
_KILL_S = 5.0

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """In a new process, before its program: end when the driver ends, however that happens."""
    if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def family(pid: int, mark: str) -> list[Process]:
    """A pytest process and what it started, the living ones.

    They are found by descent, by session (orphans keep it) and by the mark in their environment.
    """
    own = read_process(pid)
    found = {each.pid: each for each in members(None, pid)}
    if own is not None and own.state not in "ZX":
        found[pid] = own
    for each in all_processes().values():
        if each.pid not in found and (each.session == pid or _is_marked(each.pid, mark)):
            found[each.pid] = each
    found.pop(os.getpid(), None)
    return list(found.values())


def end(pid: int, mark: str, *, grace_s: float) -> None:
    """End a pytest process and all that it started: SIGTERM, then SIGKILL.

    Args:
        pid: the pytest process, a session leader.
        mark: the value of ``MARK`` in its environment.
        grace_s: how long it may take after SIGTERM; 0 kills at once.
    """
    deadline = time.monotonic() + grace_s
    if grace_s > 0:
        for each in family(pid, mark):
            send(each, signal.SIGTERM)
            send(each, signal.SIGCONT)
        while time.monotonic() < deadline and family(pid, mark):
            time.sleep(_POLL_S)
    deadline = time.monotonic() + _KILL_S
    while (left := family(pid, mark)) and time.monotonic() < deadline:
        for each in left:
            send(each, signal.SIGKILL)
        time.sleep(_POLL_S)


def _is_marked(pid: int, mark: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False  # gone meanwhile, or another user's
    return f"{MARK}={mark}".encode() in environment.split(b"\0")
