"""The stream: one JSON object a line, written at once, so that it outlives the process."""

from __future__ import annotations

import json
import os
from fcntl import F_DUPFD_CLOEXEC, fcntl
from os import close, fstat, getpid, write

# Out of the reach of tests that close "all" descriptors below some small number.
_HIGH = 220


def keep_high(descriptor: int) -> int:
    """The same open file under a high number that children do not inherit.

    Where the process may not have so many open files, the descriptor stays what it is.
    """
    try:
        high = fcntl(descriptor, F_DUPFD_CLOEXEC, _HIGH)
    except OSError:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - it takes no keyword
        return descriptor
    close(descriptor)
    return high


def identity(descriptor: int) -> tuple[int, int] | None:
    """What file a descriptor is open on; None when it is closed."""
    try:
        status = fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class LastingFile:
    """A file open for appending, opened again when a test has closed or replaced its descriptor.

    Args:
        path: absolute.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self._identity: tuple[int, int] | None = None

    def descriptor(self) -> int:
        """A descriptor that is open on this file and on no other."""
        if self._identity is None or identity(self._descriptor) != self._identity:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = keep_high(os.open(self._path, flags, 0o644))
            self._identity = identity(self._descriptor)
        return self._descriptor


class Stream:
    """Events of one process.

    A child that forked off inherits the object but not the right to write: its ``write`` does
    nothing.

    Args:
        path: the file, absolute.
    """

    def __init__(self, path: str) -> None:
        self._file = LastingFile(path)
        self._pid = getpid()
        self._getpid, self._write = getpid, write
        self._encode = json.JSONEncoder(separators=(",", ":")).encode

    @property
    def forked(self) -> bool:
        """Whether this is no longer the process that the stream belongs to."""
        return self._getpid() != self._pid

    def write(self, event: str, **fields: object) -> None:
        """Append one event; it is on its way to the file when this returns."""
        if not self.forked:
            self._append(self._encode({"event": event, **fields}))

    def begin(self, test: str, at: float) -> None:
        """Append ``begin`` of a test, at a time of the monotonic clock.

        This and the end of a plain pass are most of a stream: a string alone is encoded ten times
        as fast as an object.
        """
        if not self.forked:
            self._append(f'{{"event":"begin","test":{self._encode(test)},"at":{at}}}')

    def end(self, test: str, seconds: float, passed: list[str]) -> None:
        """Append ``end`` of a test: how long it took, and the phases that passed."""
        if not self.forked:
            names = '","'.join(passed)
            listed = f'["{names}"]' if passed else "[]"
            head = f'{{"event":"end","test":{self._encode(test)}'
            self._append(f'{head},"seconds":{seconds},"passed":{listed}}}')

    def write_as_child(self, event: str, **fields: object) -> None:
        """Append one event from a forked child: one write, so that no line is torn."""
        self._append(self._encode({"event": event, **fields}))

    def _append(self, text: str) -> None:
        line = f"{text}\n".encode()
        descriptor = self._file.descriptor()
        while line:
            line = line[self._write(descriptor, line) :]
