"""A suite of a JUnit file: what it counts, and which bytes of the file are its children."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from exacthead.junit.text import start_tag
from exacthead.junit.times import microseconds
from exacthead.verdict import Kind

NUMBERS = ("tests", "failures", "errors", "skipped")
# Which number each element of a case counts in; a case with several counts once, as the worst.
RESULTS = {"error": "errors", "failure": "failures", "skipped": "skipped"}
# The type of a skip that is a known fault, and the number of these among the skipped cases.
QUARANTINED = str(Kind.QUARANTINED)
RED = ("failures", "errors")
RED_TAGS = {"failure", "error"}
# The case in which an error of the suite itself stands.
ITSELF = "the suite itself"
BADNESS = {"": 0, "skipped": 1, "failure": 2, "error": 3}


class Piece(NamedTuple):
    """Bytes ``start`` to ``end`` of the file: copied, or replaced by ``text`` when it is given."""

    start: int
    end: int
    text: bytes | None = None


@dataclass
class Suite:
    """A suite without the suites in it.

    Attributes:
        path: the names of the suites around it and its own.
        attributes: as they stand in the file.
        pieces: the bytes of its children.
        counts: ``tests``, ``failures``, ``errors``, ``skipped``, ``quarantined`` (these are skipped
            too) and ``unknown_times`` cases.
        case_microseconds: the sum over the cases with a known time.
    """

    path: tuple[str, ...]
    attributes: dict[str, str]
    pieces: list[Piece] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    case_microseconds: int = 0

    @property
    def name(self) -> str:
        """Its own name; empty when it has none."""
        return self.path[-1]

    @property
    def wall_milliseconds(self) -> int:
        """The suite's own time; without one, its cases' sum."""
        own = microseconds(self.attributes.get("time", ""))
        return round((self.case_microseconds if own is None else own) / 1000)

    def header(self) -> bytes:
        """Its start tag with the numbers that it holds, whatever it says itself."""
        numbers = {name: str(self.counts[name]) for name in NUMBERS}
        # Three decimals: what the schemata allow for a suite.
        whole, thousandths = divmod(self.wall_milliseconds, 1000)
        attributes = {
            **self.attributes,
            **numbers,
            "name": self.name,
            "time": f"{whole}.{thousandths:03}",
        }
        return start_tag("testsuite", dict(sorted(attributes.items())))


class OpenSuite:
    """A suite that is being read.

    Attributes:
        suite: what is known of it.
        mark: up to here its bytes are in pieces.
        empty: whether it is written as one empty tag.
        elements: result elements, with those of the suites in it; a case may have several.
        nested: the numbers of the suites in it.
    """

    def __init__(
        self, around: tuple[str, ...], attributes: dict[str, str], mark: int, *, empty: bool = False
    ) -> None:
        self.suite = Suite((*around, attributes.get("name", "")), attributes)
        self.mark = mark
        self.empty = empty
        self.elements: Counter[str] = Counter()
        self.nested: Counter[str] = Counter()

    def leave(self, start: int, end: int, text: bytes | None = None) -> None:
        """Copy what there is up to ``start``; go on at ``end``, with ``text`` between them."""
        self.suite.pieces.append(Piece(self.mark, start))
        if text is not None:
            self.suite.pieces.append(Piece(start, end, text))
        self.mark = end

    def fill(self, end: int, text: bytes) -> None:
        """Give the element whose one empty tag ends at ``end`` a content and an end tag."""
        last = self.suite.pieces[-1] if self.suite.pieces else None
        if self.mark == end and last is not None and last.text is not None:
            # Its tag was replaced already.
            self.suite.pieces[-1] = last._replace(text=last.text.removesuffix(b"/>") + b">" + text)
        else:
            self.leave(end - len(b"/>"), end, b">" + text)

    def cut(self, end: int) -> None:
        """Keep nothing from ``end`` on."""
        pieces = [*self.suite.pieces, Piece(self.mark, end)]
        self.suite.pieces = [
            piece._replace(end=min(piece.end, end)) for piece in pieces if piece.start < end
        ]

    def count(self, result: str) -> None:
        """Count a case without a time whose worst result is ``result``."""
        self.suite.counts += Counter({"tests": 1, "unknown_times": 1, RESULTS[result]: 1})

    def include(self, inner: OpenSuite) -> None:
        """Count a finished suite in this one."""
        self.nested.update(inner.suite.counts)
        self.nested.update(inner.nested)
        self.elements.update(inner.elements)

    def finish(self, *, whole: bool) -> list[str]:
        """Compare what it says with what it holds; the latter wins.

        Args:
            whole: whether it was read to its end. Then a failure that it says and does not hold
                becomes an error case: it may be the one thing that went wrong.

        Returns:
            What it says and does not hold, in words.
        """
        suite = self.suite
        total = suite.counts + self.nested if self.nested else suite.counts
        doubts = []
        said_red = ""
        for name in NUMBERS:
            text = suite.attributes.get(name, "").strip()
            # Some writers count nested suites in, some count each result of a case.
            held = (suite.counts[name], total[name], self.elements[name])
            if text and text not in map(str, held):
                doubts.append(f"says {name}={text!r} and holds {total[name]}")
                if name in RED and text.isdecimal() and text.strip("0"):
                    said_red = said_red or doubts[-1]
        time = suite.attributes.get("time", "")
        if time and microseconds(time) is None:
            doubts.append(f"has no time in {time!r}")
        if whole and said_red and not any(total[name] for name in RED):
            case = start_tag("testcase", {"classname": suite.name, "name": ITSELF})
            error = start_tag("error", {"type": "unreadable", "message": said_red}, "/>")
            suite.pieces.append(Piece(self.mark, self.mark, case + error + b"</testcase>"))
            self.count("error")
        return doubts
