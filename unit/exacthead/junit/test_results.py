from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from junitparser import JUnitXml

from exacthead.junit import CaseRecord, SuiteRecord, merge, read_junit, write_results
from exacthead.junit.results import address
from exacthead.units.result import Attempt, Cause, Output, TestResult
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from pathlib import Path

CALL = Cause("call", Verdict(Kind.FAILED, "assert 1 == 2"), "the call's traceback")
TEARDOWN = Cause("teardown", Verdict(Kind.FAILED, "no such table"), "the teardown's traceback")
CRASH = Cause("process", Verdict(Kind.CRASHED, "signal 11 (SIGSEGV)"), "last lines, native stack")
SKIP = Cause("setup", Verdict(Kind.SKIPPED, "needs an engine"))
PASS = Attempt(1, 0.25)


def result(*attempts: Attempt, verdict: Verdict | None = None, **more: object) -> TestResult:
    return TestResult(
        "unit/a/test_b.py::test_c[1]", attempts, verdict or attempts[-1].verdict, **more
    )


def written(tmp_path: Path, *results: TestResult, **properties: str) -> ET.Element:
    path = tmp_path / "junit.xml"
    write_results(path, "policy.1of2", results, properties)
    return ET.XML(path.read_bytes())


def shown(element: ET.Element) -> list[tuple[str, str | None, str | None]]:
    return [
        (child.tag, child.get("type"), child.get("message"))
        for child in element.iter()
        if child.get("type")
    ]


def test_a_plain_pass_is_an_empty_case_without_its_output(tmp_path: Path) -> None:
    noisy = Attempt(1, 0.25, outputs=(Output("call", "stdout", "hello"),))

    (case,) = written(tmp_path, result(noisy)).iter("testcase")

    assert case.attrib == {"classname": "unit.a.test_b", "name": "test_c[1]", "time": "0.250000"}
    assert list(case) == []


def test_a_failed_call_and_a_failed_teardown_are_one_case_with_both_causes(tmp_path: Path) -> None:
    suite = written(tmp_path, result(Attempt(1, 0.5, (CALL, TEARDOWN))))

    (case,) = suite.iter("testcase")
    assert [(child.tag, child.get("message"), child.text) for child in case] == [
        ("failure", "assert 1 == 2", "the call's traceback"),
        ("error", "teardown: no such table", "the teardown's traceback"),
    ]
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "1",
        "failures": "0",
        "errors": "1",
        "skipped": "0",
    }


@pytest.mark.parametrize(
    ("cause", "element"),
    [
        (CALL, ("failure", "failed", "assert 1 == 2")),
        (TEARDOWN, ("error", "failed", "teardown: no such table")),
        (CRASH, ("error", "crashed", "process: signal 11 (SIGSEGV)")),
        (SKIP, ("skipped", "skipped", "needs an engine")),
        (Cause("call", Verdict(Kind.TIMED_OUT, "120 s")), ("error", "timed_out", "120 s")),
        (
            Cause("collection", Verdict(Kind.FAILED, "SyntaxError")),
            ("error", "failed", "collection: SyntaxError"),
        ),
        (
            Cause("process", Verdict(Kind.NOT_RUN, "20 processes died")),
            ("error", "not_run", "process: 20 processes died"),
        ),
    ],
)
def test_only_the_call_can_fail_and_the_rest_are_errors(
    tmp_path: Path, cause: Cause, element: tuple[str, str, str]
) -> None:
    suite = written(tmp_path, result(Attempt(1, None, (cause,))))

    assert shown(suite) == [element]
    (case,) = suite.iter("testcase")
    assert case.get("time") is None
    assert case[0].text == (cause.text or cause.verdict.reason)


def test_a_skip_beside_an_error_is_told_with_it_and_does_not_hide_it(tmp_path: Path) -> None:
    (case,) = written(tmp_path, result(Attempt(1, 1.0, (SKIP, TEARDOWN)))).iter("testcase")

    assert [child.tag for child in case] == ["error"]
    assert case[0].text == "the teardown's traceback\n\nsetup: skipped(needs an engine)"


def test_a_flaky_test_is_one_pass_with_its_faults_inside(tmp_path: Path) -> None:
    printed = (Output("setup", "stdout", "up"), Output("call", "stdout", "\x1b[31mred"))
    first = Attempt(1, 0.1, (CALL, TEARDOWN), printed)
    flaky = result(first, Attempt(2, None, (CRASH,)), Attempt(3, 0.2))

    suite = written(tmp_path, flaky)

    assert shown(suite) == [
        ("flakyFailure", "failed", "assert 1 == 2"),
        ("flakyError", "failed", "teardown: no such table"),
        ("flakyError", "crashed", "process: signal 11 (SIGSEGV)"),
    ]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "0")
    fault = suite.find(".//flakyFailure")
    assert fault is not None
    assert fault.findtext("stackTrace") == "the call's traceback"
    assert fault.findtext("system-out") == "--- setup ---\nup\\x1b[31mred"
    (case,) = suite.iter("testcase")
    assert case.get("time") == "0.200000"
    assert case.find("system-out") is None


def test_a_broken_test_shows_its_last_attempt_and_the_earlier_ones_as_reruns(
    tmp_path: Path,
) -> None:
    other = Cause("call", Verdict(Kind.FAILED, "assert 1 == 3"))
    suite = written(tmp_path, result(Attempt(1, 0.1, (CALL,)), Attempt(2, 0.1, (other,))))

    assert shown(suite) == [
        ("failure", "failed", "assert 1 == 3"),
        ("rerunFailure", "failed", "assert 1 == 2"),
    ]
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")


def test_a_quarantined_test_is_no_failure_and_loses_nothing(tmp_path: Path) -> None:
    verdict = Verdict(Kind.QUARANTINED, "issue 12, until 2027-01-31")
    suite = written(tmp_path, result(Attempt(1, 0.1, (CALL, TEARDOWN)), verdict=verdict))

    assert shown(suite) == [("skipped", "quarantined", "issue 12, until 2027-01-31")]
    (case,) = suite.iter("testcase")
    assert "the call's traceback" in (case[0].text or "")
    assert "the teardown's traceback" in (case[0].text or "")


def test_output_stands_with_every_test_that_is_no_plain_pass(tmp_path: Path) -> None:
    outputs = (
        Output("setup", "stderr", "warming up\n"),
        Output("call", "stdout", "bytes \\xff\n"),
        Output("call", "stderr", "slow\n"),
        Output("teardown", "stdout", "down"),
    )
    (case,) = written(tmp_path, result(Attempt(1, 0.1, (CALL,), outputs))).iter("testcase")

    assert case.findtext("system-out") == "bytes \\xff\n--- teardown ---\ndown"
    assert case.findtext("system-err") == "--- setup ---\nwarming up\nslow\n"


def test_what_the_schema_has_no_place_for_is_a_property_by_case_number(tmp_path: Path) -> None:
    flaky = result(
        Attempt(1, 0.1, (CALL,)),
        Attempt(2, 0.25),
        notes=("also red on base abc123", "ready to leave"),
        properties={"runner": "cpu2"},
    )
    quarantined = result(Attempt(1, None, (CALL,)), verdict=Verdict(Kind.QUARANTINED, "issue 12"))

    suite = written(tmp_path, result(PASS), flaky, quarantined, worker="k1", head="h1", seed="7")

    assert [(p.get("name"), p.get("value")) for p in suite.iter("property")] == [
        ("worker", "k1"),
        ("head", "h1"),
        ("seed", "7"),
        ("testcase[1].nodeid", "unit/a/test_b.py::test_c[1]"),
        ("testcase[2].nodeid", "unit/a/test_b.py::test_c[1]"),
        ("testcase[2].attempts", "failed after 0.100 s, passed after 0.250 s"),
        ("testcase[2].flaky", "a fresh process disagreed"),
        ("testcase[2].notes", "also red on base abc123; ready to leave"),
        ("testcase[2].runner", "cpu2"),
        ("testcase[3].nodeid", "unit/a/test_b.py::test_c[1]"),
        ("testcase[3].quarantined", "issue 12"),
    ]
    second = suite.find("testcase[2]")
    assert second is not None
    assert second.find("flakyFailure") is not None


def test_what_is_written_is_read_back_even_after_a_merge(tmp_path: Path) -> None:
    path, merged = tmp_path / "junit.xml", tmp_path / "merged.xml"
    results = [result(PASS), result(Attempt(1, 0.1, (CALL, TEARDOWN)), Attempt(2, 0.5))]
    write_results(path, "policy.1of2", results, {"head": "h1"}, wall_seconds=9.5)
    merge([path], merged)

    for file in (path, merged):
        first, second, suite = read_junit(file)
        assert isinstance(first, CaseRecord)
        assert isinstance(second, CaseRecord)
        assert isinstance(suite, SuiteRecord)
        assert (first.outcome, first.seconds, first.properties) == (
            "passed",
            0.25,
            {"nodeid": "unit/a/test_b.py::test_c[1]"},
        )
        assert second.outcome == "passed"
        assert [(rerun.tag, rerun.text) for rerun in second.reruns] == [
            ("flakyFailure", "the call's traceback"),
            ("flakyError", "the teardown's traceback"),
        ]
        assert second.properties["attempts"] == "failed after 0.100 s, passed after 0.500 s"
        assert (suite.wall_seconds, suite.case_seconds) == (9.5, 0.75)
        assert suite.properties == {"head": "h1"}


def test_junitparser_reads_the_numbers_that_were_written(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    results = [result(PASS), result(Attempt(1, 0.1, (CALL,))), result(Attempt(1, 0.1, (SKIP,)))]
    write_results(path, "s", results, {})

    (suite,) = JUnitXml.fromfile(str(path))
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (3, 1, 0, 1)
    assert suite.time == 0.45


@pytest.mark.parametrize(
    ("nodeid", "names"),
    [
        ("unit/a/test_b.py::TestC::test_d[e::f]", ("unit.a.test_b.TestC", "test_d[e::f]")),
        ("test_b.py::test_d", ("test_b", "test_d")),
        ("unit/test_b.py::test_d[a/b.py]", ("unit.test_b", "test_d[a/b.py]")),
        ("unit/test_b.py", ("", "unit.test_b")),
        ("docs/guide.rst::guide.rst", ("docs.guide.rst", "guide.rst")),
        ("unit/test_b.py::test_d[[]]", ("unit.test_b", "test_d[[]]")),
    ],
)
def test_names_are_those_that_pytest_gives(nodeid: str, names: tuple[str, str]) -> None:
    assert address(nodeid) == names


CONFTEST = """
from pathlib import Path

def pytest_collection_modifyitems(items):
    Path("nodeids").write_text("\\n".join(item.nodeid for item in items), encoding="utf-8")
"""
NAMES = """
import pytest

class TestC:
    @pytest.mark.parametrize("x", ["e::f", "a/b.py", "[]", "é ü"])
    def test_d(self, x):
        pass

def test_e():
    pass
"""


def test_names_are_the_same_as_in_a_file_of_pytest(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "part" / "test_b.py").write_text(NAMES, encoding="utf-8")
    options = ["-p", "no:cacheprovider", "--rootdir=.", "--junitxml=theirs.xml"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=tmp_path, check=True, timeout=240
    )

    theirs = [each for each in read_junit(tmp_path / "theirs.xml") if isinstance(each, CaseRecord)]

    nodeids = (tmp_path / "nodeids").read_text(encoding="utf-8").splitlines()
    assert len(nodeids) == 5
    assert [(case.classname, case.name) for case in theirs] == [address(each) for each in nodeids]
