"""Run by every Python process of an item whose coverage is measured, right after that has started.

Coverage keeps what it saw in memory and writes it when the interpreter ends in good order. A Ray
actor that is killed, a segmentation fault or a process that ``exec`` replaces never get there. So
each line goes into a journal too when it is first seen: a file that is mapped into memory, which
the kernel keeps whatever ends the process. With ``sys.monitoring`` a line is reported once, so that
this costs next to nothing; the C tracer has no such place, and its processes have no journal.

Format of ``NAME.0``, ``NAME.1`` ..., in the byte order of the machine: eight bytes of header
(``EXHJ``, a byte that is 1 as long as nothing was lost, one of padding, the file's size in KiB as
a 16-bit integer), then pairs of 32-bit integers, the number of a file from 1 and a line; the first
zero is the end. ``NAME.names`` holds the files' names in the order of their numbers, each with a
zero byte after it.

Standard library only, Python 3.9 and newer. A process that does not find this module (another
PYTHONPATH, ``python -I``) is measured all the same and only lacks the journal.
"""

from __future__ import annotations

import importlib.util
import itertools
import mmap
import os
import signal
import struct
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

CONTEXT_VARIABLE = "EXACTHEAD_COVER_CONTEXT"
MAGIC = b"EXHJ"
HEADER = struct.Struct("=4sBxH")
RECORD = struct.Struct("=II")
SEGMENT = 1 << 16


class Journal:
    """Lines seen by this process, kept by the kernel.

    Args:
        base: the path that its files' names begin with.
        size: bytes of a segment, a multiple of 1024.

    Raises:
        OSError: the first segment cannot be made.
    """

    def __init__(self, base: str, size: int = SEGMENT) -> None:
        self.base = base
        self.size = size
        self.names = 0
        self.segments = {0: self._segment(0)}
        self.slots = itertools.count()  # its next() needs no lock

    def _segment(self, number: int) -> mmap.mmap:
        path = f"{self.base}.{number}"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # Reserved now: on a full disk this is an error, the first write would be a signal.
            os.posix_fallocate(handle, 0, self.size)
            # Untracked where that can be had: a program that closes all its descriptors, and opens
            # others of the same number, would lose those when the map is freed.
            options: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
            segment = mmap.mmap(handle, self.size, **options)
        finally:
            os.close(handle)
        segment[: HEADER.size] = HEADER.pack(MAGIC, 1, self.size >> 10)
        return segment

    def file(self, name: str) -> int:
        """Give a file its number."""
        try:
            handle = os.open(f"{self.base}.names", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                os.write(handle, name.encode("utf-8", "surrogateescape") + b"\0")
            finally:
                os.close(handle)
        except OSError:
            self._lost()
        self.names += 1
        return self.names

    def line(self, number: int, line: int) -> None:
        """Note a line of the file of that number."""
        segment, offset = 0, 0
        while not offset:  # each segment begins with a header
            segment, offset = divmod(next(self.slots) * RECORD.size, self.size)
        try:
            if segment not in self.segments:
                self.segments[segment] = self._segment(segment)
        except OSError:
            self._lost()
        else:
            self.segments[segment][offset : offset + RECORD.size] = RECORD.pack(number, line)

    def _lost(self) -> None:
        self.segments[0][: HEADER.size] = HEADER.pack(MAGIC, 0, self.size >> 10)


class Lines(set[int]):
    """Lines of one file: coverage's set, which also writes into the journal."""

    def __init__(self, journal: Journal, number: int) -> None:
        super().__init__()
        self.journal = journal
        self.number = number

    def add(self, line: int) -> None:
        """Coverage calls this for each line that it sees."""
        if line not in self:
            super().add(line)
            self.journal.line(self.number, line)


class Files(dict[str, set[int]]):
    """File name to lines: coverage's dictionary, whose sets become :class:`Lines`."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self.journal = journal

    def __setitem__(self, name: str, lines: Iterable[int]) -> None:
        kept = Lines(self.journal, self.journal.file(name))
        super().__setitem__(name, kept)
        for line in lines:
            kept.add(line)


class Log:
    """The log as a text file that is open only while something is written.

    Coverage would keep a descriptor, and a program that closes all of them and opens its own would
    find coverage's last words in its file.
    """

    closed = False

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def write(self, text: str) -> int:
        """Add text to the end."""
        with self.path.open("a", encoding="utf-8") as file:
            return file.write(text)

    def flush(self) -> None:
        """Nothing is held back."""


def attach(coverage: Any) -> None:
    """Put a journal below a started ``Coverage``, and say so in its log.

    Nothing happens where its parts are not what they are known to be: then the process has no
    journal, and the harness takes its data as lost if they were not saved.
    """
    collector = getattr(coverage, "_collector", None)
    tracers = getattr(collector, "tracers", [])
    if len(tracers) != 1 or type(tracers[0]).__name__ != "SysMonitor":
        return
    tracer, log = tracers[0], coverage.get_option("run:debug_file")
    if collector is None or tracer.data is not collector.data or collector.data or not log:
        return
    base = str(Path(log).parent / f"journal.{os.getpid()}.{os.urandom(4).hex()}")
    context = coverage.get_option("run:context") or ""
    try:
        journal = Journal(base)
        Log(log).write(f"{os.getpid()}.0000: exacthead journal {(base, context)!r}\n")
    except OSError:
        return
    collector.data = tracer.data = Files(journal)
    output = getattr(getattr(coverage, "_debug", None), "output", None)
    if output is not None and not isinstance(output.outfile, Log):
        output.outfile.close()
        output.outfile = Log(log)
    # A SIGTERM finds nothing left to save, so the program gets its own reaction to it back.
    if signal.getsignal(signal.SIGTERM) == getattr(coverage, "_on_sigterm", None):
        before = getattr(coverage, "_old_sigterm", None)
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


def follow() -> None:
    """Attach to the measurement that runs, if one does, and to those of forked children."""
    module = sys.modules.get("coverage")
    coverage = module and module.Coverage.current()
    if coverage:
        attach(coverage)
        # Coverage registers a hook of its own at every start, and hooks run in that order: this
        # one is behind it in each generation.
        os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    follow()
    context = os.environ.get(CONTEXT_VARIABLE)
    coverage = sys.modules["coverage"].Coverage.current()
    core = getattr(coverage, "_core", None)
    if context and getattr(core, "supports_dynamic_contexts", False):
        coverage.switch_context(context)


def hand_over() -> None:
    """Run the ``sitecustomize`` that this one hides, if there is one."""
    here = Path(__file__).resolve().parent
    others = [path for path in sys.path if Path(path).resolve() != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    follow()
    hand_over()
