"""Records of any writer's JUnit file: read what is there, say what is not, never raise.

for each in read_junit(path):
    match each:
        case CaseRecord(): ...
        case SuiteRecord(): ...
        case Problem(): ...
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from xml.etree.ElementTree import Element, XMLPullParser

from junitparser import SystemErr, SystemOut
from junitparser.junitparser import FinalResult, Result
from junitparser.xunit2 import InterimResult, TestCase

from exacthead.junit.file import opened
from exacthead.junit.suite import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from exacthead.junit.file import JUnitFile
    from exacthead.junit.suite import Suite

Outcome = Literal["passed", "skipped", "failure", "error"]
_WORST_FIRST: tuple[Outcome, ...] = ("error", "failure", "skipped")
_MODEL: Any = TestCase  # junitparser says no types of what makes its objects from elements
_TAGS: dict[type, str] = {kind: tag for tag, kind in TestCase.ITER_TYPES.items()}
# A suite's property that belongs to its n-th case; the schema has no properties of cases.
OF_A_CASE = re.compile(r"testcase\[(\d{1,9})\]\.(.+)", re.DOTALL)


@dataclass(frozen=True)
class ResultRecord:
    """One ``failure``, ``error`` or ``skipped``, or one of an attempt that was not the last."""

    tag: str
    type: str
    message: str
    text: str


class CaseRecord(NamedTuple):
    """One test case; a tuple, since there may be a million.

    Attributes:
        suite: the names of the suites around it, the outermost first.
        seconds: None when the file does not say, or says what is no time.
        outcome: the worst of the results.
        properties: of the case, wherever its writer put them.
        results: in the order of the file; none for a pass.
        reruns: results of attempts that were not the last; they count nowhere.
    """

    suite: tuple[str, ...]
    classname: str
    name: str
    seconds: float | None
    outcome: Outcome
    properties: dict[str, str]
    results: tuple[ResultRecord, ...] = ()
    reruns: tuple[ResultRecord, ...] = ()
    stdout: str = ""
    stderr: str = ""


@dataclass(frozen=True)
class SuiteRecord:
    """A suite, after its cases; its numbers are counted.

    Attributes:
        path: the names of the suites around it and its own.
        wall_seconds: the suite's own time; without one, ``case_seconds``.
        case_seconds: the sum over its cases.
    """

    path: tuple[str, ...]
    tests: int
    failures: int
    errors: int
    skipped: int
    wall_seconds: float
    case_seconds: float
    properties: dict[str, str]
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Problem:
    """What is wrong with a file, in words.

    Attributes:
        lost: whether results may be missing: then no file is green.
    """

    file: Path
    text: str
    lost: bool


def read_junit(path: Path) -> Iterator[CaseRecord | SuiteRecord | Problem]:
    """Everything that a JUnit file holds, case by case, and everything that is wrong with it.

    Memory holds one case at a time. Nested suites come before the suite around them.
    """
    with opened(path) as file:
        try:
            for suite in file.suites:
                yield from _records(file, suite)
        except OSError as error:
            yield Problem(path, f"it cannot be read: {error}", lost=True)
        for doubt in file.doubts:
            yield Problem(path, doubt, lost=False)
        if file.broken:
            yield Problem(path, f"it cannot be read: {file.broken}", lost=True)
        elif not any(suite.counts["tests"] for suite in file.suites):
            yield Problem(path, "it holds no test case", lost=True)


def cases(file: JUnitFile, suite: Suite) -> Iterator[CaseRecord]:
    """The cases of one suite of an open file."""
    return (each for each in _records(file, suite) if isinstance(each, CaseRecord))


def _records(file: JUnitFile, suite: Suite) -> Iterator[CaseRecord | SuiteRecord]:
    own = _Shell()
    path, by_case = suite.path, own.by_case
    for element in _children(file.text(suite)):
        if element.tag == "testcase":
            own.cases += 1
            yield _case(path, element, by_case.get(own.cases) or {})
        else:
            own.take(element)
    yield SuiteRecord(
        path=suite.path,
        **{name: suite.counts[name] for name in NUMBERS},
        wall_seconds=suite.wall_milliseconds / 1000,
        case_seconds=suite.case_microseconds / 1_000_000,
        properties=own.properties,
        stdout="".join(own.stdout),
        stderr="".join(own.stderr),
    )


def _children(blocks: Iterable[bytes]) -> Iterator[Element]:
    """The children of the suite, each when it is whole; memory holds those of one block.

    Events would say when each of them ends, and cost as much as all the rest.
    """
    parser: XMLPullParser[Element] = XMLPullParser(("start",))
    root: Element | None = None
    for block in blocks:
        parser.feed(block)
        for happening in parser.read_events():
            if root is None and isinstance(happening[-1], Element):
                root = happening[-1]
        if root is not None:
            # Only the last one may go on in the next block.
            yield from root[:-1]
            del root[:-1]
    parser.close()
    yield from () if root is None else root


class _Shell:
    """What stands in a suite beside its cases."""

    def __init__(self) -> None:
        self.cases = 0
        self.properties: dict[str, str] = {}
        self.by_case: dict[int, dict[str, str]] = {}
        self.stdout: list[str] = []
        self.stderr: list[str] = []

    def take(self, element: Element) -> None:
        if element.tag == "properties":
            for each in element.iterfind("property"):
                name, value = each.get("name", ""), each.get("value", each.text or "")
                if found := OF_A_CASE.fullmatch(name):
                    self.by_case.setdefault(int(found[1]), {})[found[2]] = value
                else:
                    self.properties[name] = value
        elif element.tag == "system-out":
            self.stdout.append(element.text or "")
        elif element.tag == "system-err":
            self.stderr.append(element.text or "")


def _case(suite: tuple[str, ...], element: Element, properties: dict[str, str]) -> CaseRecord:
    if not len(element):
        # A plain pass, as nearly all are: read here, since objects for it cost most of the time.
        time = element.get("time")
        return CaseRecord(
            suite=suite,
            classname=element.get("classname", ""),
            name=element.get("name", ""),
            seconds=float(time.replace(",", "")) if time else None,
            outcome="passed",
            properties=properties,
        )
    case = _MODEL.fromelem(element)
    parts = [
        _MODEL.ITER_TYPES[child.tag].fromelem(child)
        for child in element
        if child.tag in _MODEL.ITER_TYPES
    ]
    results = tuple(_result(part) for part in parts if isinstance(part, FinalResult))
    tags = {result.tag for result in results}
    return CaseRecord(
        suite=suite,
        classname=case.classname or "",
        name=case.name or "",
        seconds=case.time,
        outcome=next((tag for tag in _WORST_FIRST if tag in tags), "passed"),
        results=results,
        reruns=tuple(_result(part) for part in parts if isinstance(part, InterimResult)),
        stdout="".join(part.text or "" for part in parts if isinstance(part, SystemOut)),
        stderr="".join(part.text or "" for part in parts if isinstance(part, SystemErr)),
        properties={
            **properties,
            **{each.name or "": each.value or "" for each in case.properties()},
        },
    )


def _result(part: Result) -> ResultRecord:
    trace = part.stack_trace if isinstance(part, InterimResult) else None
    text = trace or part.text or ""
    return ResultRecord(_TAGS[type(part)], part.type or "", part.message or "", text)
