"""Captured output without loss: the raw bytes of each phase, taken before pytest reads them.

pytest decodes what it captures with ``errors="replace"``. Its capture files are read here through
descriptors of our own with ``pread``, which moves no offset, at the moment when pytest has put back
what ``capsys`` and ``capfd`` held and has not yet emptied the files. Without those files (``-s``,
``--capture=sys``) what reaches the descriptors lands in the process's own log, which is sliced by
phase; both streams are one there.
"""

from __future__ import annotations

import os
import sys
from os import fstat
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from exacthead.units.inside.stream import Stream

_CHUNK = 1 << 16
_STANDARD = (("stdout", 1), ("stderr", 2))


class Output:
    """What each phase writes, kept until its report names the phase.

    Args:
        stream: where it goes.
        log: the process's own log, absolute.
        decoded: reads text between two offsets of a file.
        identity: tells what a descriptor is open on.
        keep_high: moves a descriptor out of reach.
    """

    def __init__(
        self,
        stream: Stream,
        log: str,
        decoded: Callable[[int, int, int], Iterator[str]],
        identity: Callable[[int], tuple[int, int] | None],
        keep_high: Callable[[int], int],
    ) -> None:
        self._stream = stream
        self._log = log
        self._decoded = decoded
        self._identity_of = identity
        self._keep_high = keep_high
        self._files: list[tuple[str, int, tuple[int, int] | None]] = []
        self._pending: list[tuple[str, str]] = []
        self._held: dict[str, tuple[int, list[str]]] = {}

    def attach(self, config: pytest.Config) -> dict[str, int]:
        """Join pytest's capture.

        Returns:
            The descriptors of the capture files by stream; empty when output goes to the log.
        """
        manager: Any = config.pluginmanager.getplugin("capturemanager")
        method = config.getoption("capture", None)  # it is gone with -p no:capture
        if manager is not None and method == "fd":
            self._take_files(manager)
            self._hold_back(manager)
        else:
            slices = _LogSlices(self._log, self._decoded, self._pending.append)
            config.pluginmanager.register(slices)
        if manager is not None:
            self._listen(manager, memory=method == "sys")
        return {name: descriptor for name, descriptor, _ in self._files}

    def _take_files(self, manager: Any) -> None:
        """While pytest captures, the standard descriptors are its capture files."""
        manager.resume_global_capture()
        try:
            owned = [(name, self._keep_high(os.dup(fd))) for name, fd in _STANDARD]
        finally:
            manager.suspend_global_capture()
        self._files = [(name, fd, self._identity_of(fd)) for name, fd in owned]

    def _hold_back(self, manager: Any) -> None:
        """Read what ``capfd`` holds at the end of a phase before it is put back as text.

        It has a capture file of its own then, on which the standard descriptors are open.
        """
        original = manager.deactivate_fixture

        def deactivate_fixture() -> None:
            if getattr(manager, "_capture_fixture", None) is not None:
                for (name, own, file), (_, standard) in zip(self._files, _STANDARD):  # noqa: B905 - strict= came with Python 3.10
                    if self._identity_of(standard) not in {None, file}:
                        raw = list(self._decoded(standard, 0, fstat(standard).st_size))
                        self._held[name] = (fstat(own).st_size, raw)
            original()

        manager.deactivate_fixture = deactivate_fixture

    def _listen(self, manager: Any, *, memory: bool) -> None:
        """Be asked whenever pytest is about to take what was captured.

        There is no hook between the end of the fixtures' own captures and this. ``memory`` says
        that pytest captures Python's streams in memory, from where nothing gets into the log.
        """
        original = manager.read_global_capture
        nothing: Any = None

        def read_global_capture() -> Any:
            nonlocal nothing
            sizes = self._sizes(manager)
            for name, descriptor, size in sizes:
                if size:
                    own, held = self._held.get(name, (size, []))
                    texts = [*self._decoded(descriptor, 0, own), *held]
                    self._pending += [(name, text) for text in texts]
            self._held.clear()
            if nothing is not None and sizes and not any(size for _, _, size in sizes):
                return nothing  # most phases are silent: this spares pytest eight system calls
            taken = original()
            if not any(taken):
                nothing = taken
            if memory:
                self._pending += [("stdout", taken[0]), ("stderr", taken[1])]
            return taken

        manager.read_global_capture = read_global_capture

    def _sizes(self, manager: Any) -> list[tuple[str, int, int]]:
        """Stream, descriptor and size in bytes of each capture file."""
        try:
            found = [(name, fd, file, fstat(fd)) for name, fd, file in self._files]
            if all((status.st_dev, status.st_ino) == file for _, _, file, status in found):
                return [(name, fd, status.st_size) for name, fd, _, status in found]
        except OSError:
            pass  # closed; as when another file got the number:
        self._take_files(manager)
        return [(name, fd, fstat(fd).st_size) for name, fd, _ in self._files]

    def flush(self, test: str, phase: str) -> None:
        """Write what is pending as the output of one phase."""
        if self._pending:
            pending, self._pending[:] = list(self._pending), []
            for name, text in pending:
                self.write(test, phase, name, text)

    def write(self, test: str, phase: str, name: str, text: str) -> None:
        """Write one text of one phase, in lines of bounded length."""
        for start in range(0, len(text), _CHUNK):
            chunk = text[start : start + _CHUNK]
            self._stream.write("output", test=test, phase=phase, stream=name, text=chunk)


class _LogSlices:
    """Takes what each phase adds to the process's log."""

    def __init__(
        self,
        log: str,
        decoded: Callable[[int, int, int], Iterator[str]],
        keep: Callable[[tuple[str, str]], None],
    ) -> None:
        self._log, self._decoded, self._keep = log, decoded, keep
        self._stat, self._open, self._close = os.stat, os.open, os.close

    def _slice(self) -> Generator[None, None, None]:
        _flush()
        start = self._stat(self._log).st_size
        yield
        _flush()
        end = self._stat(self._log).st_size
        if end > start:
            descriptor = self._open(self._log, os.O_RDONLY | os.O_CLOEXEC)
            for text in self._decoded(descriptor, start, end):
                self._keep(("stdout", text))
            self._close(descriptor)

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_setup(self) -> Generator[None, None, None]:
        yield from self._slice()

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self) -> Generator[None, None, None]:
        yield from self._slice()

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_teardown(self) -> Generator[None, None, None]:
        yield from self._slice()


def _flush() -> None:
    for file in (sys.stdout, sys.stderr):
        if file is not None and not file.closed:
            file.flush()
