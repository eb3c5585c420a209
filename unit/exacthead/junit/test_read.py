"""Other people's JUnit files, whole ones: everything in them is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.junit import CaseRecord, ResultRecord, SuiteRecord
from unit.exacthead.junit.reading import outcomes, read

if TYPE_CHECKING:
    from pathlib import Path


def test_a_case_is_read_with_everything_in_it(tmp_path: Path) -> None:
    cases, suites, problems = read(
        tmp_path,
        '<testsuites><testsuite name="s" time="9.5">'
        '<properties><property name="os" value="linux"/></properties>'
        '<testcase classname="c" name="n" time="1.5">'
        '<properties><property name="issue" value="12"/></properties>'
        '<failure type="AssertionError" message="m">F</failure>'
        '<error message="e"><![CDATA[<E>]]></error>'
        '<rerunFailure type="t" message="r"><stackTrace>S</stackTrace></rerunFailure>'
        "<system-out>one</system-out><system-out> two</system-out><system-err>bad</system-err>"
        "</testcase><system-err>suite's</system-err></testsuite></testsuites>",
    )

    assert cases == [
        CaseRecord(
            suite=("s",),
            classname="c",
            name="n",
            seconds=1.5,
            outcome="error",
            results=(
                ResultRecord("failure", "AssertionError", "m", "F"),
                ResultRecord("error", "", "e", "<E>"),
            ),
            reruns=(ResultRecord("rerunFailure", "t", "r", "S"),),
            stdout="one two",
            stderr="bad",
            properties={"issue": "12"},
        )
    ]
    assert suites == [
        SuiteRecord(("s",), 1, 0, 1, 0, 9.5, 1.5, {"os": "linux"}, "", "suite's"),
    ]
    assert problems == []


def test_nested_suites_are_read_each_on_its_own_with_its_path(tmp_path: Path) -> None:
    cases, suites, problems = read(
        tmp_path,
        '<testsuite name="all" tests="4" failures="1"><testcase name="a"/>'
        '<testsuite name="left"><testsuite name="deep" tests="1"><testcase name="b"/></testsuite>'
        '</testsuite><testcase name="c"/><testsuite/>'
        '<testsuite name="right" tests="1"><testcase name="d"><failure/></testcase></testsuite>'
        "</testsuite>",
    )

    assert {case.name: case.suite for case in cases} == {
        "a": ("all",),
        "b": ("all", "left", "deep"),
        "c": ("all",),
        "d": ("all", "right"),
    }
    assert {suite.path: suite.tests for suite in suites} == {
        ("all",): 2,
        ("all", "left"): 0,
        ("all", "left", "deep"): 1,
        ("all", ""): 0,
        ("all", "right"): 1,
    }
    assert problems == []  # `all` counts what is nested in it


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ('time="1,234.5"', 1234.5),
        ('time=""', None),
        ("", None),
        ('time="0:00:00.69"', 0.69),
        ('time="nan"', None),
        ('time="-1"', None),
        ('time="1e3"', 1000.0),
        ("time='2' note='&lt; time=\"7\"'", 2.0),
        ("note='&lt; time=\"7\"'", None),
    ],
)
def test_times_are_values_or_unknown(tmp_path: Path, written: str, seconds: float | None) -> None:
    cases, suites, problems = read(
        tmp_path, f'<testsuite name="s"><testcase name="x" {written}/></testsuite>'
    )

    assert [case.seconds for case in cases] == [seconds]
    assert suites[0].case_seconds == (seconds or 0.0)
    said = seconds is None and "time" in written.partition("note")[0]
    assert ["have no time in" in problem.text for problem in problems] == [True] * said


def test_an_odd_time_in_a_very_long_tag_is_replaced(tmp_path: Path) -> None:
    many = " ".join(f"a{number}='>'" for number in range(5000))

    cases, _, _ = read(
        tmp_path,
        f'<testsuite name="s"><testcase name="x" {many} time="1e3">t</testcase></testsuite>',
    )

    assert [(case.name, case.seconds) for case in cases] == [("x", 1000.0)]


def test_an_error_of_the_suite_itself_is_a_case(tmp_path: Path) -> None:
    cases, suites, problems = read(
        tmp_path,
        '<testsuite name="s" errors="2" tests="1"><error message="no database">trace</error>'
        '<testcase name="x"/><error message="empty"/><failure message="late">L</failure>'
        "</testsuite>",
    )

    assert [
        (case.name, case.outcome, [each.message for each in case.results]) for case in cases
    ] == [
        ("the suite itself", "error", ["no database"]),
        ("x", "passed", []),
        ("the suite itself", "error", ["empty"]),
        ("the suite itself", "failure", ["late"]),
    ]
    assert (suites[0].errors, suites[0].failures) == (2, 1)
    assert [problem.text for problem in problems] == ["suite 's' says tests='1' and holds 4"]


@pytest.mark.parametrize("root", ["testrun", "assemblies", "html", "testcase", "TestSuites"])
def test_a_foreign_root_is_said(tmp_path: Path, root: str) -> None:
    cases, _, problems = read(tmp_path, f'<{root}><testsuite name="s"/></{root}>')

    assert cases == []
    assert [(problem.text, problem.lost) for problem in problems] == [
        (f"it cannot be read: its root is <{root}>, not <testsuites> or <testsuite>", True)
    ]


def test_namespaces_are_read_past(tmp_path: Path) -> None:
    cases, suites, problems = read(
        tmp_path,
        '<j:testsuites xmlns:j="urn:junit" xmlns:x="urn:x"><j:testsuite name="s" x:id="1">'
        '<j:testcase name="a&lt;b" time="1,000.5"><j:failure>A &amp; B</j:failure></j:testcase>'
        '<testcase xmlns="urn:other" name="c"/></j:testsuite></j:testsuites>',
    )

    assert outcomes(cases) == {"a<b": "failure", "c": "passed"}
    assert cases[0].results[0].text == "A & B"
    assert suites[0].case_seconds == 1000.5
    assert problems == []


def test_a_namespaced_file_that_breaks_off_says_where_it_does(tmp_path: Path) -> None:
    cases, _, problems = read(
        tmp_path,
        '<testsuite xmlns="urn:junit" name="s"><testcase name="a"/>\n<testcase name="b"><fail',
    )

    assert outcomes(cases) == {"a": "passed"}
    assert [problem.text for problem in problems] == [
        "it cannot be read: unclosed token: line 2, column 19"
    ]


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ('tests="3"', "suite 's' says tests='3' and holds 2"),
        ('tests="two"', "suite 's' says tests='two' and holds 2"),
        ('failures="0"', "suite 's' says failures='0' and holds 1"),
        ('skipped="1"', "suite 's' says skipped='1' and holds 0"),
        ('time="nan"', "suite 's' has no time in 'nan'"),
        (f'errors="{"9" * 5000}"', f"suite 's' says errors='{'9' * 5000}' and holds 0"),
    ],
)
def test_wrong_totals_are_said_and_the_counted_ones_win(
    tmp_path: Path, said: str, problem: str
) -> None:
    _, suites, problems = read(
        tmp_path,
        f'<testsuites tests="9"><testsuite name="s" {said}><testcase name="a"/>'
        '<testcase name="b"><failure/></testcase></testsuite></testsuites>',
    )

    assert [(suite.tests, suite.failures, suite.skipped) for suite in suites] == [(2, 1, 0)]
    assert [(each.text, each.lost) for each in problems] == [
        (problem, False),
        ("the file says tests='9' and holds 2", False),
    ]


def test_a_failure_that_a_suite_says_and_does_not_hold_is_an_error(tmp_path: Path) -> None:
    cases, _, problems = read(
        tmp_path, '<testsuite name="s" failures="1"><testcase name="a"/></testsuite>'
    )

    assert outcomes(cases) == {"a": "passed", "the suite itself": "error"}
    assert cases[1].results[0].message == "says failures='1' and holds 0"
    assert [problem.text for problem in problems] == ["suite 's' says failures='1' and holds 0"]


def test_a_failure_that_only_the_root_tells_of_is_an_error(tmp_path: Path) -> None:
    cases, suites, problems = read(
        tmp_path,
        '<testsuites errors="1" time="9"><testsuite name="s" failures="" time="2">'
        '<testcase name="a"/></testsuite></testsuites>',
    )

    assert outcomes(cases) == {"a": "passed", "the suite itself": "error"}
    assert [(suite.errors, suite.wall_seconds) for suite in suites] == [(0, 2.0), (1, 0.0)]
    assert [problem.text for problem in problems] == ["the file says errors='1' and holds 0"]


def test_a_case_with_two_results_may_count_twice_where_its_writer_says_so(tmp_path: Path) -> None:
    case = '<testcase name="a"><failure/><error/></testcase>'
    _, suites, problems = read(
        tmp_path, f'<testsuite name="s" tests="1" failures="1" errors="1">{case}</testsuite>'
    )

    assert [(suite.tests, suite.failures, suite.errors) for suite in suites] == [(1, 0, 1)]
    assert problems == []
