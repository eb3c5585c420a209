"""Claims: locked files that say who holds them, and end with their holder however it ends.

The lock is the kernel's (``flock``) on a descriptor of ours. A child process that is given the
descriptor keeps the lock alive, so a builder that is killed does not hand its worker over while an
orphan of it still writes there. Nothing is decided by a process id, which may be another's by now.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

import psutil
from filelock import lock_descriptor, unlock_descriptor

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_POLL_S = 0.02
_INSTANT_S = 5.0


@dataclass(frozen=True)
class Holder:
    """Who holds a claim, for people: process id, host, since when, and for what."""

    pid: int
    host: str
    since: str
    purpose: str

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}, since {self.since}: {self.purpose}"


@dataclass(frozen=True)
class Claim:
    """A held claim. ``descriptor`` may be passed on to child processes (``pass_fds``)."""

    path: Path
    descriptor: int


@contextmanager
def hold(path: Path, purpose: str, *, deadline: float) -> Iterator[Claim]:
    """Hold the claim on ``path`` exclusively, waiting for it until ``deadline``.

    Args:
        path: the lock file; it is created and stays.
        purpose: what for, as waiters will read it.
        deadline: a point of :func:`time.monotonic`, in seconds.

    Raises:
        HarnessError: another holds it past the deadline; the error names the holder.
    """
    started = time.monotonic()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        while not lock_descriptor(descriptor, blocking=False):
            if time.monotonic() >= deadline:
                raise _too_late(path, purpose, time.monotonic() - started)
            time.sleep(_POLL_S)
        try:
            _sign(descriptor, purpose)
            yield Claim(path, descriptor)
        finally:
            # Explicit, since a child that outlived its purpose may still have the descriptor.
            unlock_descriptor(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def try_hold(path: Path, purpose: str) -> Iterator[Claim | None]:
    """Like :func:`hold`, but give None at once where another holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not lock_descriptor(descriptor, blocking=False):
            yield None
            return
        try:
            _sign(descriptor, purpose)
            yield Claim(path, descriptor)
        finally:
            unlock_descriptor(descriptor)
    finally:
        os.close(descriptor)


def holder(path: Path) -> Holder | None:
    """Who signed the claim on ``path`` last; None when nobody did or is just doing so."""
    try:
        return Holder(**json.loads(path.read_bytes()))
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def is_held(path: Path) -> bool:
    """Whether anybody holds the claim on ``path`` now."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        # Shared: two that look at once must not take each other for the holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def mark(folder: Path, purpose: str) -> Iterator[Claim]:
    """Leave a mark of one's own in ``folder``, among others', for as long as the block runs."""
    folder.mkdir(exist_ok=True)
    path = folder / uuid4().hex
    # Nobody else wants this path; only a reader of marks may hold it for an instant.
    with hold(path, purpose, deadline=time.monotonic() + _INSTANT_S) as claim:
        try:
            yield claim
        finally:
            path.unlink(missing_ok=True)


def marks(folder: Path) -> list[Holder]:
    """Those whose marks in ``folder`` are alive; marks of ended processes do not count."""
    return [
        holder(path) or Holder(0, "unknown", "unknown", "a process that has not signed yet")
        for path in sorted(folder.glob("*"))
        if is_held(path)
    ]


def _sign(descriptor: int, purpose: str) -> None:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    signature = Holder(os.getpid(), socket.gethostname(), since, purpose)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(asdict(signature)).encode(), 0)


def _too_late(path: Path, purpose: str, waited_s: float) -> HarnessError:
    found = holder(path)
    who = str(found) if found else "a process that has not signed yet"
    if found and found.host == socket.gethostname() and not psutil.pid_exists(found.pid):
        who += " (it has ended; a process that it started still holds the lock)"
    return HarnessError(
        purpose,
        f"after {waited_s:.1f} s of waiting the lock {path} is held by {who}",
        "wait for that process or end it, or allow a longer deadline",
    )
