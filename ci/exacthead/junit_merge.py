"""JUnit files merged as a stream: exact totals in any order, and a broken file costs no other.

junitparser's own merge is not used: it counts everything again after each file, and one broken file
loses the whole output.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING
from xml.etree.ElementTree import Element, ParseError, SubElement, XMLPullParser, tostring

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

# A suite in the spool: its name, the digest of its bytes, where they start and how many they are.
_Place = tuple[str, str, int, int]

CHUNK = 1 << 20
# A case with several results counts once, as the worst of them.
WORST_FIRST = (("error", "errors"), ("failure", "failures"), ("skipped", "skipped"))
NUMBER = re.compile(r"\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?")
CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d{1,2}(?:\.\d+)?)")


@dataclass(frozen=True)
class Totals:
    """What a merged file holds.

    Attributes:
        case_seconds: the sum over the cases with a known time.
        wall_seconds: the sum over the suites' own times; of a suite without one, its cases' sum.
        unknown_times: cases whose time is missing or cannot be one.
        broken: the files that could not be read to their end, relative to the merged file.
    """

    suites: int
    tests: int
    failures: int
    errors: int
    skipped: int
    case_seconds: float
    wall_seconds: float
    unknown_times: int
    broken: tuple[str, ...]


@dataclass
class _Suite:
    """A suite that is being read; the bytes of its children, but not of nested suites."""

    attributes: dict[str, str]
    children: list[bytes] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)

    def add_case(self, case: Element) -> None:
        time = seconds(case.attrib.pop("time", ""))
        if time is None:
            self.counts["unknown_times"] += 1
        else:
            case.set("time", f"{time:.6f}")
            self.times.append(time)
        self.counts["tests"] += 1
        for tag, count in WORST_FIRST:
            if case.find(tag) is not None:
                self.counts[count] += 1
                break
        self.children.append(_bytes(case))

    @property
    def wall(self) -> float:
        own = seconds(self.attributes.get("time", ""))
        return _total(self.times) if own is None else own

    def content(self) -> bytes:
        numbers = {
            name: str(self.counts[name]) for name in ("tests", "failures", "errors", "skipped")
        }
        attributes = {**self.attributes, **numbers, "time": f"{self.wall:.6f}"}
        shell = Element("testsuite", dict(sorted(attributes.items())))
        end = b"</testsuite>"
        return b"\n".join([_bytes(shell).removesuffix(end), *self.children, end])


def seconds(text: str) -> float | None:
    """A time as some JUnit writer wrote it: ``1.5``, ``1e3``, ``1,234.5``, ``0:00:00.69``.

    Returns:
        Seconds, rounded to microseconds; None for what is no finite time from 0 on.
    """
    text = text.strip()
    if clock := CLOCK.fullmatch(text):
        hours, minutes, rest = clock.groups()
        value = int(hours or 0) * 3600 + int(minutes) * 60 + float(rest)
    elif THOUSANDS.fullmatch(text):
        value = float(text.replace(",", ""))
    elif NUMBER.fullmatch(text):
        value = float(text)
    else:
        return None
    return round(value, 6) if math.isfinite(value) else None


def merge(paths: Iterable[Path], out: Path) -> Totals:
    """Merge JUnit files into ``out``; memory holds one suite at a time.

    Suites are never joined, only sorted, so that any order and grouping of the same files gives the
    same bytes. A file that is missing or broken becomes an error case; the cases that it holds
    before the break are kept.

    Args:
        paths: the files; ``testsuites`` or ``testsuite`` at their root, suites nested at will.
        out: the merged file; it appears whole or not at all.

    Raises:
        HarnessError: the merged file cannot be written.
    """
    unfinished = out.with_name(out.name + ".unfinished")
    try:
        with tempfile.TemporaryFile(dir=out.parent) as spool, unfinished.open("wb") as target:
            totals, index = _collect(paths, out.parent, spool)
            _write(target, totals, spool, index)
        unfinished.replace(out)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        todo = "make room or give another runs folder; the merged files are intact"
        raise HarnessError(f"write {out}", error.strerror or str(error), todo) from error
    return totals


def _collect(paths: Iterable[Path], home: Path, spool: IO[bytes]) -> tuple[Totals, list[_Place]]:
    """Write every suite to ``spool``; what they add up to, and where each is."""
    counts: Counter[str] = Counter()
    times: list[float] = []
    walls: list[float] = []
    broken: list[str] = []
    index: list[_Place] = []
    for path in paths:
        for suite in _suites(path, os.path.relpath(path, home), broken):
            content = suite.content()
            digest = hashlib.sha256(content).hexdigest()
            index.append((suite.attributes.get("name", ""), digest, spool.tell(), len(content)))
            spool.write(content)
            counts += suite.counts
            times.append(_total(suite.times))
            walls.append(suite.wall)
    totals = Totals(
        suites=len(index),
        tests=counts["tests"],
        failures=counts["failures"],
        errors=counts["errors"],
        skipped=counts["skipped"],
        case_seconds=_total(times),
        wall_seconds=_total(walls),
        unknown_times=counts["unknown_times"],
        broken=tuple(sorted(broken)),
    )
    return totals, index


def _suites(path: Path, label: str, broken: list[str]) -> Iterator[_Suite]:
    """Each suite of one file, as it ends; of a broken file what there was, then an error suite."""
    parser: XMLPullParser[Element] = XMLPullParser(("start", "end"))
    open_elements: list[Element] = []
    open_suites: list[_Suite] = []
    try:
        with path.open("rb") as source:
            while chunk := source.read(CHUNK):
                parser.feed(chunk)
                yield from _ended(parser, open_elements, open_suites)
        parser.close()
        yield from _ended(parser, open_elements, open_suites)
    except (OSError, ParseError) as error:
        broken.append(label)
        yield from reversed(open_suites)
        flying = [element.get("name", "") for element in open_elements if element.tag == "testcase"]
        where = f"; it breaks off in test case {flying[-1]!r}" if flying else ""
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        yield _error_suite(label, f"this JUnit file cannot be read: {reason}{where}")


def _ended(
    parser: XMLPullParser[Element], open_elements: list[Element], open_suites: list[_Suite]
) -> Iterator[_Suite]:
    for happening in parser.read_events():
        event, element = happening[0], happening[-1]
        if not isinstance(element, Element):
            continue
        if event == "start":
            _check_place(element, open_elements)
            if element.tag == "testsuite":
                open_suites.append(_Suite(dict(element.attrib)))
            open_elements.append(element)
            continue
        open_elements.pop()
        parent = open_elements[-1] if open_elements else None
        if element.tag == "testsuite":
            yield open_suites.pop()
        elif parent is not None and parent.tag == "testsuite":
            if element.tag == "testcase":
                open_suites[-1].add_case(element)
            else:
                open_suites[-1].children.append(_bytes(element))
        if parent is not None and parent.tag in {"testsuite", "testsuites"}:
            # What is written is forgotten, or a million cases would stay in memory.
            parent.remove(element)


def _check_place(element: Element, open_elements: list[Element]) -> None:
    parents = {"testsuite": {"", "testsuite", "testsuites"}, "testcase": {"testsuite"}}
    parent = open_elements[-1].tag if open_elements else ""
    if not open_elements and element.tag not in {"testsuite", "testsuites"}:
        raise ParseError(f"its root is <{element.tag}>, not <testsuites> or <testsuite>")
    if parent not in parents.get(element.tag, {parent}):
        raise ParseError(f"a <{element.tag}> directly in <{parent}>")


def _error_suite(label: str, reason: str) -> _Suite:
    suite = _Suite({"name": "unreadable results"})
    case = Element("testcase", {"classname": "junit", "name": label, "time": "0"})
    SubElement(case, "error", {"type": "unreadable", "message": reason}).text = reason
    suite.add_case(case)
    return suite


def _write(target: IO[bytes], totals: Totals, spool: IO[bytes], index: list[_Place]) -> None:
    numbers = {
        name: str(getattr(totals, name)) for name in ("tests", "failures", "errors", "skipped")
    }
    root = Element("testsuites", {**numbers, "time": f"{totals.wall_seconds:.6f}"})
    target.write(b"<?xml version='1.0' encoding='utf-8'?>\n")
    target.write(_bytes(root).removesuffix(b"</testsuites>") + b"\n")
    for _, _, start, length in sorted(index):
        spool.seek(start)
        target.write(spool.read(length) + b"\n")
    target.write(b"</testsuites>\n")


def _bytes(element: Element) -> bytes:
    element.tail = None
    text = tostring(element, encoding="utf-8", short_empty_elements=False)
    # A bare carriage return would be read back as a line feed.
    return bytes(text).replace(b"\r", b"&#13;")


def _total(values: Iterable[float]) -> float:
    # The exactly rounded sum, so that the order of the files does not show.
    return round(math.fsum(values), 6)
