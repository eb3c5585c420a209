"""Results of tests as a JUnit file, one test case for each test whatever happened to it.

The file follows the schema that pytest's ``xunit2``, Surefire and Jenkins' xUnit plugin share
(``junit-10.xsd``). It has no properties of test cases: those of the n-th case of a suite stand with
the suite as ``testcase[n].nodeid`` and so on. It has elements for attempts that were not the last:
``flakyFailure`` and ``flakyError`` in a test that passed in the end, ``rerunFailure`` and
``rerunError`` in any other; no reader counts them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from junitparser import Error, Failure, Skipped
from junitparser.xunit2 import FlakyError, FlakyFailure, RerunError, RerunFailure

from exacthead.junit.cases import ELEMENTS, TimedCase, new_case, write_suite
from exacthead.junit.text import xml_text
from exacthead.shards.nodeid import split
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from junitparser.junitparser import FinalResult
    from junitparser.xunit2 import InterimResult

    from exacthead.units.result import Attempt, Cause, Output, TestResult

# Of an attempt that was not the last: what it is called by whether the test itself said no.
_FLAKY: Mapping[bool, type[InterimResult]] = {True: FlakyFailure, False: FlakyError}
_RERUN: Mapping[bool, type[InterimResult]] = {True: RerunFailure, False: RerunError}


def write_results(
    path: Path,
    suite_name: str,
    results: Sequence[TestResult],
    properties: Mapping[str, str],
    wall_seconds: float | None = None,
) -> None:
    """Write one suite to ``path``; the file appears whole or not at all.

    Args:
        path: the JUnit file.
        suite_name: any text.
        results: in the order of the plan.
        properties: what the results hold for: worker key, head, seed.
        wall_seconds: how long the suite took; without it, the sum over its tests.

    Raises:
        HarnessError: the disk is full, or the folder cannot be written to.
    """
    everything = dict(properties)
    for number, result in enumerate(results, 1):
        for name, value in case_properties(result).items():
            everything[f"testcase[{number}].{name}"] = value
    if wall_seconds is None:
        wall_seconds = sum(result.seconds or 0.0 for result in results)
    cases = [_case(result) for result in results]
    write_suite(path, suite_name, cases, everything, wall_seconds)


def case_properties(result: TestResult) -> dict[str, str]:
    """What the schema has no attribute for: node id, attempts, flaky, quarantined, notes."""
    found = {"nodeid": result.nodeid}
    if len(result.attempts) > 1:
        found["attempts"] = ", ".join(_in_words(attempt) for attempt in result.attempts)
    if result.flaky:
        found["flaky"] = "a fresh process disagreed"
    if result.verdict.kind is Kind.QUARANTINED:
        found["quarantined"] = result.verdict.reason
    if result.notes:
        found["notes"] = "; ".join(result.notes)
    return {**found, **result.properties}


def address(nodeid: str) -> tuple[str, str]:
    """Class name and name as pytest's ``xunit2`` gives them; parameters stay with the name.

    ``unit/a/test_b.py::TestC::test_d[e::f]`` gives ``unit.a.test_b.TestC`` and ``test_d[e::f]``.
    """
    file, rest = split(nodeid)
    plain, bracket, parameters = rest.partition("[")
    module = file.replace("/", ".").removesuffix(".py")
    names = [module, *plain.split("::")] if rest else [module]
    return ".".join(names[:-1]), names[-1] + bracket + parameters


def _case(result: TestResult) -> TimedCase:
    last = result.attempts[-1]
    case = new_case(*address(result.nodeid), result.seconds)
    case.result = _final(result)
    passed = result.verdict.kind is Kind.PASSED
    for attempt in result.attempts[:-1]:
        for interim in _interim(attempt, passed=passed):
            case.add_interim_result(interim)
    # A plain pass needs no output, and a million of them no room.
    if not passed or last.causes:
        _add_output(case, last.outputs)
    return case


def _final(result: TestResult) -> list[FinalResult]:
    """The elements of the last word, failures before errors as Surefire's schema orders them."""
    causes = result.attempts[-1].causes
    verdict = result.verdict
    if verdict.kind is Kind.PASSED:
        return []
    if verdict.kind not in {cause.verdict.kind for cause in causes}:
        # Another one had the last word: a known failure, a shard that ended before the test.
        text = "\n\n".join([verdict.reason, *map(_text, causes)])
        return [_filled(ELEMENTS[verdict.kind](), verdict.reason, str(verdict.kind), text)]
    red = _red(causes)
    if not red:
        skip = causes[0]
        return [_filled(Skipped(), skip.verdict.reason, str(verdict.kind), _text(skip))]
    # Viewers take a case with `skipped` in it for skipped, whatever else it holds.
    aside = "".join(f"\n\n{each.phase}: {each.verdict}" for each in causes if each not in red)
    elements: list[FinalResult] = []
    for cause in red:
        element = Failure() if _is_failure(cause) else Error()
        kind = str(cause.verdict.kind)
        elements.append(_filled(element, _message(cause), kind, _text(cause) + aside))
        aside = ""
    return sorted(elements, key=lambda element: isinstance(element, Error))


def _interim(attempt: Attempt, *, passed: bool) -> list[InterimResult]:
    """The faults of an attempt that was not the last; its output stands with the first of them."""
    elements: list[InterimResult] = []
    for cause in _red(attempt.causes):
        kinds = _FLAKY if passed else _RERUN
        element = kinds[_is_failure(cause)]()
        element.message = xml_text(_message(cause))
        element.type = str(cause.verdict.kind)
        element.stack_trace = xml_text(_text(cause))
        elements.append(element)
    if elements:
        _add_output(elements[0], attempt.outputs)
    return elements


def _add_output(element: TimedCase | InterimResult, outputs: Iterable[Output]) -> None:
    written = {"stdout": "", "stderr": ""}
    for output in outputs:
        heading = "" if output.phase == "call" else f"--- {output.phase} ---\n"
        written[output.stream] += heading + xml_text(output.text)
    if written["stdout"]:
        element.system_out = written["stdout"]
    if written["stderr"]:
        element.system_err = written["stderr"]


def _filled(element: FinalResult, message: str, kind: str, text: str) -> FinalResult:
    element.message = xml_text(message)
    element.type = kind
    element.text = xml_text(text)
    return element


def _red(causes: Iterable[Cause]) -> list[Cause]:
    green = {Kind.PASSED, Kind.SKIPPED, Kind.QUARANTINED}
    return [cause for cause in causes if cause.verdict.kind not in green]


def _is_failure(cause: Cause) -> bool:
    """Whether the test itself said no; what goes wrong around it is an error, as in pytest."""
    return cause.verdict.kind is Kind.FAILED and cause.phase == "call"


def _message(cause: Cause) -> str:
    where = "" if cause.phase == "call" else f"{cause.phase}: "
    return where + cause.verdict.reason


def _text(cause: Cause) -> str:
    return cause.text or cause.verdict.reason


def _in_words(attempt: Attempt) -> str:
    time = "an unknown time" if attempt.seconds is None else f"{attempt.seconds:.3f} s"
    return f"{attempt.verdict.kind} after {time}"
