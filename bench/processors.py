"""What processors a process and all of its descendants took, those that were left behind too."""

from __future__ import annotations

import ctypes
import os
import resource
import time

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_PATIENCE_S = 10.0


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that their times are counted."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def processor_seconds() -> float:
    """Seconds of processors so far, of this process and of every descendant.

    Call it while no child is running: it waits for those that are about to end.

    Raises:
        TimeoutError: a descendant does not end.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            child, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if child == 0:
            if time.monotonic() > deadline:
                raise TimeoutError("a process that was left behind does not end")
            time.sleep(0.01)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
