"""A JUnit file that is open: its suites, what is wrong with it, and the text of each suite."""

from __future__ import annotations

import errno
import stat
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING

from exacthead.junit.plain import as_utf8, encoding, without_namespaces
from exacthead.junit.scan import NamespacedError, Scanner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from exacthead.junit.suite import Suite

_BLOCK = 1 << 18


@dataclass(frozen=True)
class JUnitFile:
    """What could be read of a JUnit file.

    Attributes:
        suites: nested ones each on its own, after those in it.
        broken: why it could not be read to its end, in words; empty when it could.
        doubts: what it says and does not hold, in words.
    """

    suites: tuple[Suite, ...]
    broken: str
    doubts: tuple[str, ...]
    _source: IO[bytes] | None = None

    def text(self, suite: Suite) -> Iterator[bytes]:
        """The suite as XML in UTF-8, block by block, whatever the file is written like.

        Raises:
            OSError: the file is gone or cannot be read any more.
        """
        yield suite.header()
        for start, end, text in suite.pieces:
            if text is not None:
                yield text
                continue
            position = start
            while position < end and self._source is not None:
                self._source.seek(position)
                block = self._source.read(min(_BLOCK, end - position))
                if not block:
                    raise OSError(f"the file shrank to {position} bytes while it was read")
                position += len(block)
                yield block
        yield b"</testsuite>"


@contextmanager
def opened(path: Path) -> Iterator[JUnitFile]:
    """Open a JUnit file of any writer; what cannot be read is said in it and never raised."""
    with ExitStack() as stack:
        try:
            file = _read(stack.enter_context(_source(path)), stack)
        except OSError as error:
            file = JUnitFile((), error.strerror or str(error), ())
        yield file


def _source(path: Path) -> IO[bytes]:
    if not stat.S_ISREG(path.stat().st_mode):
        # A pipe could keep us waiting for ever.
        raise OSError(errno.EINVAL, "it is no regular file")
    return path.open("rb", buffering=0)


def _read(source: IO[bytes], stack: ExitStack) -> JUnitFile:
    name = encoding(source)
    if name == "utf-8":
        file = _scan(source, stack)
        if not file.broken:
            return file
    # Another encoding, or what broke it may be bytes that are no UTF-8.
    try:
        plain = stack.enter_context(as_utf8(source, name))
    except UnicodeError:
        doubt = f"bytes that are no {name} stand as \\xff"
    else:
        return file if name == "utf-8" else _scan(plain, stack)
    try:
        plain = stack.enter_context(as_utf8(source, name, "backslashreplace"))
    except UnicodeError:
        return JUnitFile((), doubt, ())
    file = _scan(plain, stack)
    return replace(file, doubts=(doubt, *file.doubts))


def _scan(source: IO[bytes], stack: ExitStack) -> JUnitFile:
    broken = ""
    scanner = Scanner(source)
    try:
        broken = scanner.scan()
    except NamespacedError:
        source, broken = without_namespaces(source)
        stack.enter_context(source)
        scanner = Scanner(source)
        late = scanner.scan()
        # The first reason is about the file as it stands.
        broken = broken or late
    return JUnitFile(tuple(scanner.suites), broken, tuple(scanner.doubts), source)
