"""One pass over a JUnit file: its suites as ranges of its bytes; nothing is built in memory.

A range is copied as it stands; only what no reader would understand is replaced (odd times), and an
error that stands in no test case gets one. So a merge of a million cases costs little more than
reading them, and whoever wants records parses the clean text of one suite after the other.
"""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING
from xml.parsers.expat import ExpatError

from exacthead.junit.plain import FINAL, UnfitError, chunks, strict_parser
from exacthead.junit.stated import BESIDES, by_attributes, by_element
from exacthead.junit.suite import BADNESS, ITSELF, QUARANTINED, RED_TAGS, RESULTS, OpenSuite
from exacthead.junit.text import start_tag
from exacthead.junit.times import microseconds, plain_microseconds

if TYPE_CHECKING:
    from exacthead.junit.suite import Suite

# Readers on libxml2 refuse 256 levels: nobody could open the merged file.
MOST_DEEP = 200
_PARENTS = {
    "testsuites": {""},
    "testsuite": {"", "testsuite", "testsuites"},
    "testcase": {"testsuite"},
    "failure": {"testsuite", "testcase"},
    "error": {"testsuite", "testcase"},
    "skipped": {"testsuite", "testcase"},
}
# Possessive, so that a long tag that is only half there costs no time.
_TAG = re.compile(rb"""<(?:[^"'>]++|"[^"]*+"|'[^']*+')*+>""")
_MOST_KNOWN = 10_000  # times; there are seldom more different ones


class NamespacedError(Exception):
    """The file uses XML namespaces, which cannot be left out of a range of bytes."""


class Scanner:
    """Reads one file from its start to its end, or to the break.

    Attributes:
        suites: the suites that have ended, each after the ones in it.
        doubts: what the file says and does not hold, in words.
    """

    def __init__(self, source: IO[bytes]) -> None:
        self.suites: list[Suite] = []
        self.doubts: list[str] = []
        self._source = source
        self._parser = strict_parser()
        self._parser.StartElementHandler = self._started
        self._parser.EndElementHandler = self._ended
        self._parser.StartNamespaceDeclHandler = _refuse_namespace
        self._tags: list[str] = []  # open elements down to the innermost suite
        self._open: list[OpenSuite] = []
        self._root = OpenSuite((), {}, 0)  # counts everything
        self._in_suite = False  # whether the last of the tags is a suite's
        self._child = ""  # the tag of the suite's child that is or was open last
        self._inside = 0  # levels within that child, itself counted
        self._case: dict[str, str] = {}  # attributes of the last test case
        self._time: int | None = None  # its time in microseconds
        self._worst = ""  # its worst result so far
        self._quarantined = False  # whether that is a fault that was known
        self._stated = ("", "")  # a result that it says otherwise: its element's tag, and how
        self._strange: list[str] = []  # what no reader knows, and may be a result
        self._cases = 0  # ended in the innermost suite and not yet counted there
        self._sum = 0  # of their times, in microseconds
        self._known: dict[str | None, int] = {}
        self._odd: list[str] = []
        # Where the last child of the innermost suite ended: the index and tag of its end.
        self._last = (0, "")

    def scan(self) -> str:
        """Read the file.

        Returns:
            Why it could not be read to its end, in words; empty when it could.

        Raises:
            NamespacedError: as soon as a namespace is declared.
        """
        broken = ""
        try:
            for chunk in chunks(self._source):
                self._parser.Parse(chunk)
            self._parser.Parse(b"", FINAL)
        except (ExpatError, UnfitError, OSError) as error:
            broken = (error.strerror if isinstance(error, OSError) else "") or str(error)
            if self._inside and self._child == "testcase":
                broken += f"; it breaks off in test case {self._case.get('name', '')!r}"
            self._break_off()
        finally:
            # The parser and this object hold each other; a merge of many files cannot wait for that
            # to be found out.
            self._parser.StartElementHandler = self._parser.EndElementHandler = None
        if self._odd:
            self.doubts.append(f"{len(self._odd)} test cases have no time in {self._odd[0]!r}")
        if self._strange:
            self.doubts.append(
                f"{len(self._strange)} test cases say what may be a result: {self._strange[0]}"
            )
        if not broken:
            self._finish_root()
        return broken

    # What happens for each test case comes first and does least: there may be a million of them.

    def _started(self, tag: str, attributes: dict[str, str]) -> None:
        if self._inside:
            if tag in _PARENTS:
                self._inside_child(tag, attributes)
            elif self._inside == 1 and self._child == "testcase" and tag not in BESIDES:
                self._unknown_child(tag)
            self._inside += 1
            if self._inside > MOST_DEEP:
                self._check_depth()
        elif self._in_suite and tag != "testsuite":
            self._child = tag
            self._inside = 1
            if tag == "testcase":
                self._case = attributes
                self._time = self._known.get(attributes.get("time"))
                if self._time is None:
                    self._time = self._new_time(attributes)
                if "status" in attributes or "result" in attributes:
                    self._by_attributes(attributes)
            elif tag in _PARENTS:
                self._own_result(tag)
        else:
            self._outside(tag, attributes)

    def _ended(self, tag: str) -> None:
        if not self._inside:
            self._outside_ended(tag)
            return
        self._inside -= 1
        if self._inside:
            return
        self._last = (self._parser.CurrentByteIndex, tag)
        if tag != "testcase":
            if tag in RED_TAGS:
                self._own_result_ended(tag)
            return
        self._cases += 1
        if self._stated[0]:
            self._write_stated()
        if self._time is None:
            self._open[-1].suite.counts["unknown_times"] += 1
        else:
            self._sum += self._time
        if self._worst:
            self._open[-1].suite.counts[RESULTS[self._worst]] += 1
            if self._quarantined:
                self._open[-1].suite.counts[QUARANTINED] += 1
            self._worst, self._quarantined = "", False

    def _inside_child(self, tag: str, attributes: dict[str, str]) -> None:
        if self._inside > 1 or self._child not in _PARENTS[tag]:
            raise UnfitError(f"a <{tag}> in a <{self._child}>")
        self._open[-1].elements[RESULTS[tag]] += 1
        if BADNESS[tag] > BADNESS[self._worst]:
            self._worst = tag
            self._quarantined = tag == "skipped" and attributes.get("type") == QUARANTINED

    def _unknown_child(self, tag: str) -> None:
        amounts = by_element(tag)
        if BADNESS[amounts] > BADNESS[self._stated[0]]:
            self._stated = amounts, f"an element <{tag}>"
        elif not amounts:
            self._strange.append(f"an element <{tag}>")

    def _by_attributes(self, attributes: dict[str, str]) -> None:
        tag, said, unknown = by_attributes(attributes)
        self._stated = tag, said
        if unknown:
            self._strange.append(unknown)

    def _write_stated(self) -> None:
        """Give a case that has no result element the one that it says in another way."""
        (tag, said), self._stated = self._stated, ("", "")
        if self._worst:
            return
        self._worst = tag
        text = start_tag(tag, {"type": "stated", "message": said}, "/>")
        index = self._parser.CurrentByteIndex
        if self._tag_at(index, b"</testcase"):
            self._open[-1].leave(index, index, text)
        else:
            self._open[-1].fill(index, text + b"</testcase>")

    def _new_time(self, case: dict[str, str]) -> int | None:
        text = case.get("time")
        if text is None:
            return None
        value = plain_microseconds(text)
        if value is not None:
            if len(self._known) == _MOST_KNOWN:
                self._known.clear()
            self._known[text] = value
            return value
        value = microseconds(text)
        if value is None:
            self._odd.append(text)
            attributes = {name: each for name, each in case.items() if name != "time"}
        else:
            attributes = {**case, "time": f"{value // 1_000_000}.{value % 1_000_000:06}"}
        start = self._parser.CurrentByteIndex
        raw = self._tag_at(start)
        end = "/>" if raw.endswith(b"/>") else ">"
        self._open[-1].leave(start, start + len(raw), start_tag("testcase", attributes, end))
        return value

    def _own_result(self, tag: str) -> None:
        """Give an error of the suite itself a test case, where every reader looks for it."""
        if "testsuite" not in _PARENTS[tag]:
            raise UnfitError(f"a <{tag}> directly in <testsuite>")
        if tag in RED_TAGS:
            start = self._parser.CurrentByteIndex
            raw = self._tag_at(start)
            opened = self._open[-1]
            text = start_tag("testcase", {"classname": opened.suite.name, "name": ITSELF}) + raw
            text += b"</testcase>" if raw.endswith(b"/>") else b""
            opened.leave(start, start + len(raw), text)

    def _own_result_ended(self, tag: str) -> None:
        opened = self._open[-1]
        opened.elements[RESULTS[tag]] += 1
        opened.count(tag)
        index = self._parser.CurrentByteIndex
        if raw := self._tag_at(index, b"</" + tag.encode()):
            opened.leave(index, index + len(raw), raw + b"</testcase>")

    def _outside(self, tag: str, attributes: dict[str, str]) -> None:
        parent = self._tags[-1] if self._tags else ""
        if not parent and tag not in {"testsuite", "testsuites"}:
            raise UnfitError(f"its root is <{tag}>, not <testsuites> or <testsuite>")
        if parent not in _PARENTS.get(tag, {parent}):
            raise UnfitError(f"a <{tag}> directly in <{parent}>")
        self._tags.append(tag)
        self._check_depth()
        self._in_suite = tag == "testsuite"
        if tag == "testsuites":
            self._root.suite.attributes = attributes
        elif tag == "testsuite":
            self._open_suite(attributes, self._parser.CurrentByteIndex)

    def _outside_ended(self, tag: str) -> None:
        self._tags.pop()
        self._in_suite = bool(self._tags) and self._tags[-1] == "testsuite"
        if tag == "testsuite":
            self._close_suite(self._parser.CurrentByteIndex)

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

    def _check_depth(self) -> None:
        if max(len(self._tags), self._inside) > MOST_DEEP:
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


def _refuse_namespace(_prefix: str | None, _uri: str | None) -> None:
    raise NamespacedError
