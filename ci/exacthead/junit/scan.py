"""One pass over a JUnit file: its suites as ranges of its bytes; nothing is built in memory.

A range is copied as it stands; only what no reader would understand is replaced (odd times), and an
error that stands in no test case gets one. So a merge of a million cases costs little more than
reading them, and whoever wants records parses the clean text of one suite after the other.
"""

from __future__ import annotations

from typing import IO
from xml.parsers.expat import ExpatError

from exacthead.junit.nesting import MOST_DEEP, PARENTS, Nesting
from exacthead.junit.plain import FINAL, UnfitError, chunks, strict_parser
from exacthead.junit.stated import BESIDES, by_attributes, by_element
from exacthead.junit.suite import BADNESS, ITSELF, QUARANTINED, RED_TAGS, RESULTS
from exacthead.junit.text import start_tag
from exacthead.junit.times import microseconds, plain_microseconds

_MOST_KNOWN = 10_000  # times; there are seldom more different ones


class NamespacedError(Exception):
    """The file uses XML namespaces, which cannot be left out of a range of bytes."""


class Scanner(Nesting):
    """Reads one file from its start to its end, or to the break.

    Attributes:
        suites: the suites that have ended, each after the ones in it.
        doubts: what the file says and does not hold, in words.
    """

    def __init__(self, source: IO[bytes]) -> None:
        super().__init__(source)
        self._parser = strict_parser()
        self._parser.StartElementHandler = self._started
        self._parser.EndElementHandler = self._ended
        self._parser.StartNamespaceDeclHandler = _refuse_namespace
        self._child = ""  # the tag of the suite's child that is or was open last
        self._inside = 0  # levels within that child, itself counted
        self._case: dict[str, str] = {}  # attributes of the last test case
        self._time: int | None = None  # its time in microseconds
        self._worst = ""  # its worst result so far
        self._quarantined = False  # whether that is a fault that was known
        self._stated = ("", "")  # a result that it says otherwise: its element's tag, and how
        self._strange: list[str] = []  # what no reader knows, and may be a result
        self._known: dict[str | None, int] = {}
        self._odd: list[str] = []

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
            if tag in PARENTS:
                self._inside_child(tag, attributes)
            elif self._inside == 1 and self._child == "testcase" and tag not in BESIDES:
                self._unknown_child(tag)
            self._inside += 1
            if self._inside > MOST_DEEP:
                self._check_depth(self._inside)
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
            elif tag in PARENTS:
                self._own_result(tag)
        else:
            self._outside(tag, attributes, self._parser.CurrentByteIndex)

    def _ended(self, tag: str) -> None:
        if not self._inside:
            self._outside_ended(tag, self._parser.CurrentByteIndex)
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
        if self._inside > 1 or self._child not in PARENTS[tag]:
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
        if "testsuite" not in PARENTS[tag]:
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


def _refuse_namespace(_prefix: str | None, _uri: str | None) -> None:
    raise NamespacedError
