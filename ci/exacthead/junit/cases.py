"""Plain test cases (a contract's checks, an item's own end) as a JUnit file."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from junitparser import Attr, Error, Failure, Skipped, TestSuite, xunit2

from exacthead.junit.text import xml_text
from exacthead.junit.times import is_time
from exacthead.runs import files
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

# What a viewer shows as green must be green here too: only a skip that was chosen is `skipped`.
ELEMENTS: Mapping[Kind, type[Error | Failure | Skipped]] = {
    Kind.FAILED: Failure,
    Kind.CRASHED: Error,
    Kind.TIMED_OUT: Error,
    Kind.INTERRUPTED: Error,
    Kind.NOT_RUN: Error,
    Kind.SKIPPED: Skipped,
    Kind.QUARANTINED: Skipped,
}


class TimedCase(xunit2.TestCase):
    """junitparser's case; its time is text, as no reader expects a number with an exponent."""

    time = Attr()


class TimedSuite(TestSuite):
    """junitparser's suite; its time is text, as the schemata allow three decimals."""

    time = Attr()


@dataclass(frozen=True)
class Case:
    """One test case.

    Attributes:
        classname: what groups the case in a report.
        name: the case's own name; any text.
        seconds: how long it took, finite and not negative; None when nobody knows.
        verdict: what became of it; its reason is the one-line message.
        message: the long form of the reason, for instance a traceback.
        output: what it printed.
    """

    classname: str
    name: str
    seconds: float | None
    verdict: Verdict
    message: str = ""
    output: str = ""

    def __post_init__(self) -> None:
        if self.seconds is not None and not is_time(self.seconds):
            msg = f"{self.name!r} took {self.seconds} s; give None when the time is unknown"
            raise ValueError(msg)


def write_cases(
    path: Path, suite_name: str, cases: Iterable[Case], properties: Mapping[str, str] | None = None
) -> None:
    """Write one suite to ``path``; the file appears whole or not at all.

    Args:
        path: the JUnit file.
        suite_name: any text.
        cases: in the order in which they ran.
        properties: what the results hold for: worker key, head, seed.

    Raises:
        HarnessError: the disk is full, or the folder cannot be written to.
    """
    cases = list(cases)
    elements = [_element(case) for case in cases]
    times = [case.seconds for case in cases if case.seconds is not None]
    write_suite(path, suite_name, elements, properties or {}, sum(times))


def new_case(classname: str, name: str, seconds: float | None) -> TimedCase:
    """A test case without results; its time to the microsecond."""
    case = TimedCase(xml_text(name), xml_text(classname))
    if seconds is not None:
        case.time = f"{seconds:.6f}"
    return case


def write_suite(
    path: Path,
    name: str,
    cases: Sequence[TimedCase],
    properties: Mapping[str, str],
    wall_seconds: float,
) -> None:
    """Write cases as one suite to ``path``; the file appears whole or not at all.

    A case counts once, as the worst of its results, like in the merge.

    Raises:
        HarnessError: the disk is full, or the folder cannot be written to.
    """
    suite = TimedSuite(xml_text(name))
    for key, value in properties.items():
        suite.add_property(xml_text(key), xml_text(value))
    suite.add_testcases(list(cases))
    # junitparser counts every result of a case.
    suite.errors = sum(case.is_error for case in cases)
    suite.failures = sum(case.is_failure and not case.is_error for case in cases)
    suite.time = f"{wall_seconds:.3f}"
    written = io.BytesIO()
    suite.write(written)
    # A bare carriage return would be read back as a line feed.
    files.write_text(path, written.getvalue().decode().replace("\r", "&#13;"))


def _element(case: Case) -> TimedCase:
    element = new_case(case.classname, case.name, case.seconds)
    kind = case.verdict.kind
    if kind in ELEMENTS:
        result = ELEMENTS[kind](message=xml_text(case.verdict.reason), type_=str(kind))
        result.text = xml_text(case.message or case.verdict.reason)
        element.result = [result]
    if case.output:
        element.system_out = xml_text(case.output)
    return element
