"""JUnit files of a run, written through junitparser so that any name and output makes valid XML."""

from __future__ import annotations

import io
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from junitparser import Error, Failure, Skipped, TestCase, TestSuite

from exacthead.junit_merge import Totals, merge, seconds
from exacthead.runs import files
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = ["Case", "Totals", "merge", "seconds", "write_cases", "xml_text"]

# What XML 1.0 cannot hold (https://www.w3.org/TR/xml/#charsets), surrogates included.
UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

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
        if self.seconds is not None and not (math.isfinite(self.seconds) and self.seconds >= 0):
            msg = f"{self.name!r} took {self.seconds} s; give None when the time is unknown"
            raise ValueError(msg)


def xml_text(text: str) -> str:
    r"""``text`` with each character that XML cannot hold written out, as ``\x1b`` or ``\ud800``."""
    return UNWRITABLE.sub(lambda found: ascii(found.group())[1:-1], text)


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
    suite = TestSuite(xml_text(suite_name))
    for name, value in (properties or {}).items():
        suite.add_property(xml_text(name), xml_text(value))
    suite.add_testcases([_element(case) for case in cases])
    written = io.BytesIO()
    suite.write(written)
    files.write_text(path, written.getvalue().decode())


def _element(case: Case) -> TestCase:
    element = TestCase(xml_text(case.name), xml_text(case.classname), case.seconds)
    kind = case.verdict.kind
    if kind in ELEMENTS:
        result = ELEMENTS[kind](message=xml_text(case.verdict.reason), type_=str(kind))
        result.text = xml_text(case.message or case.verdict.reason)
        element.result = [result]
    if case.output:
        element.system_out = xml_text(case.output)
    return element
