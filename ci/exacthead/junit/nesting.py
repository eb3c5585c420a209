"""The suites of a JUnit file that is being read: opened, closed, counted, cut off at a break."""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING

from exacthead.junit.plain import UnfitError
from exacthead.junit.suite import OpenSuite

if TYPE_CHECKING:
    from exacthead.junit.suite import Suite

# Readers on libxml2 refuse 256 levels: nobody could open the merged file.
MOST_DEEP = 200
PARENTS = {
    "testsuites": {""},
    "testsuite": {"", "testsuite", "testsuites"},
    "testcase": {"testsuite"},
    "failure": {"testsuite", "testcase"},
    "error": {"testsuite", "testcase"},
    "skipped": {"testsuite", "testcase"},
}
# Possessive, so that a long tag that is only half there costs no time.
_TAG = re.compile(rb"""<(?:[^"'>]++|"[^"]*+"|'[^']*+')*+>""")


class Nesting:
    """What stands around test cases; whoever reads these says when something begins and ends.

    Attributes:
        suites: the suites that have ended, each after the ones in it.
        doubts: what the file says and does not hold, in words.
    """

    def __init__(self, source: IO[bytes]) -> None:
        self.suites: list[Suite] = []
        self.doubts: list[str] = []
        self._source = source
        self._tags: list[str] = []  # open elements down to the innermost suite
        self._open: list[OpenSuite] = []
        self._root = OpenSuite((), {}, 0)  # counts everything
        self._in_suite = False  # whether the last of the tags is a suite's
        self._cases = 0  # ended in the innermost suite and not yet counted there
        self._sum = 0  # of their times, in microseconds
        # Where the last child of the innermost suite ended: the index and tag of its end.
        self._last = (0, "")

    def _outside(self, tag: str, attributes: dict[str, str], index: int) -> None:
        """An element began beside test cases: a suite, or something around suites."""
        parent = self._tags[-1] if self._tags else ""
        if not parent and tag not in {"testsuite", "testsuites"}:
            raise UnfitError(f"its root is <{tag}>, not <testsuites> or <testsuite>")
        if parent not in PARENTS.get(tag, {parent}):
            raise UnfitError(f"a <{tag}> directly in <{parent}>")
        self._tags.append(tag)
        self._check_depth()
        self._in_suite = tag == "testsuite"
        if tag == "testsuites":
            self._root.suite.attributes = attributes
        elif tag == "testsuite":
            self._open_suite(attributes, index)

    def _outside_ended(self, tag: str, index: int) -> None:
        """It ended."""
        self._tags.pop()
        self._in_suite = bool(self._tags) and self._tags[-1] == "testsuite"
        if tag == "testsuite":
            self._close_suite(index)

    def _open_suite(self, attributes: dict[str, str], start: int) -> None:
        raw = self._tag_at(start)
        around: tuple[str, ...] = ()
        if self._open:
            self._count_cases()
            self._open[-1].leave(start, start)
            around = self._open[-1].suite.path
        opened = OpenSuite(around, attributes, start + len(raw), empty=raw.endswith(b"/>"))
        self._open.append(opened)
        self._last = (opened.mark, "")

    def _count_cases(self) -> None:
        """Give the innermost suite the cases that ended in it since the last call."""
        suite = self._open[-1].suite
        suite.counts["tests"] += self._cases
        suite.case_microseconds += self._sum
        self._cases = self._sum = 0

    def _close_suite(self, index: int) -> None:
        self._count_cases()
        inner = self._open.pop()
        end = inner.mark
        if not inner.empty:
            end = index + len(self._tag_at(index))
            inner.leave(index, end)
        self._finish(inner, whole=True)
        if self._open:
            self._open[-1].mark = end
            self._last = (end, "")

    def _finish(self, opened: OpenSuite, *, whole: bool) -> None:
        name = opened.suite.name
        self.doubts += [f"suite {name!r} {doubt}" for doubt in opened.finish(whole=whole)]
        self.suites.append(opened.suite)
        (self._open[-1] if self._open else self._root).include(opened)

    def _finish_root(self) -> None:
        """Compare what the file says of itself with what it holds."""
        root = self._root
        self.doubts += [f"the file {doubt}" for doubt in root.finish(whole=True)]
        if root.suite.counts:
            # An error that only the root told of; its time is no time of a suite.
            root.suite.attributes = {}
            self.suites.append(root.suite)

    def _break_off(self) -> None:
        """Keep the children that the innermost open suite holds whole, and end what is open."""
        index, tag = self._last
        if self._open:
            self._count_cases()
            raw = self._tag_at(index, b"</" + tag.encode()) if tag else b""
            self._open[-1].cut(index + len(raw))
        while self._open:
            self._finish(self._open.pop(), whole=False)

    def _check_depth(self, inside: int = 0) -> None:
        """Refuse what is nested too deeply; ``inside`` are levels within a suite's child."""
        if max(len(self._tags), inside) > MOST_DEEP:
            raise UnfitError(f"it is nested deeper than {MOST_DEEP} levels")

    def _tag_at(self, index: int, start: bytes = b"<") -> bytes:
        """The tag at ``index`` as it is written; nothing when it does not begin with ``start``."""
        size = 1 << 10
        while True:
            self._source.seek(index)
            raw = self._source.read(size)
            if not raw.startswith(start):
                return b""
            if found := _TAG.match(raw):
                return found.group()
            if len(raw) < size:
                return b""
            size *= 2
