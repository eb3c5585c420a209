"""Laws that hold for any bytes and any order: they are searched for a way to break them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from exacthead.junit import CaseRecord, Problem, SuiteRecord, merge, read_junit, write_results
from exacthead.units.result import Attempt, Cause, Output, TestResult
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LAW = settings(deadline=None, max_examples=60)

CASE = st.sampled_from(
    [
        '<testcase classname="c" name="a" time="0.1"/>',
        '<testcase name="b" time="1,234.5"><failure message="m">F</failure></testcase>',
        '<testcase name="c"><skipped/></testcase>',
        '<testcase name="d" time="-1"><error/><failure/></testcase>',
        "<testcase name='e' time='2.0000001'><system-out><![CDATA[<x>]]>é</system-out></testcase>",
        "<system-err>oh\r\nno</system-err>",
        "<error message='of the suite'/>",
        "<!-- <testcase/> -->",
        "\n",
    ]
)
TIMES = st.sampled_from(["", ' time="1.2345"', ' time="0:00:00.69"', ' time="nan"', ' tests="3"'])
SUITE = st.recursive(
    st.lists(CASE, max_size=3).map("".join),
    lambda inner: st.builds(
        lambda name, time, parts: f'<testsuite name="{name}"{time}>{"".join(parts)}</testsuite>',
        st.sampled_from("st"),
        TIMES,
        st.lists(inner, max_size=3),
    ),
    max_leaves=6,
)
HEAD = st.sampled_from(
    [
        "<testsuites>",
        "<?xml version='1.0' encoding='utf-16'?><testsuites failures='1'>",
        '<testsuites xmlns="urn:junit">',
    ]
)
FILE = st.builds(
    lambda head, suites, rest: f"{head}{''.join(suites)}{rest}".encode(),
    HEAD,
    st.lists(SUITE.map(lambda inner: f'<testsuite name="s">{inner}</testsuite>'), max_size=3),
    # A third of the files break off.
    st.sampled_from(["</testsuites>", "</testsuites>", '<testsuite name="x"><testcase name="y']),
)


def put(folder: Path, contents: list[bytes]) -> list[Path]:
    paths = []
    for number, content in enumerate(contents):
        path = folder / f"{number}.xml"
        path.write_bytes(content)
        paths.append(path)
    return paths


@LAW
@given(contents=st.lists(FILE, min_size=1, max_size=4), data=st.data())
def test_any_order_and_any_grouping_gives_the_same_totals_and_bytes(
    contents: list[bytes], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("grouping")
    paths = put(folder, contents)
    whole = folder / "whole.xml"
    totals = merge(paths, whole)

    # Merge any two of what is left, until one is left.
    left = data.draw(st.permutations(paths))
    for number in itertools.count():
        out = folder / f"merged-{number}.xml"
        again = merge(left[:2], out)
        left = data.draw(st.permutations([out, *left[2:]]))
        if len(left) == 1:
            break

    assert again == totals
    assert left[0].read_bytes() == whole.read_bytes()


@LAW
@given(contents=st.lists(FILE, min_size=1, max_size=3))
def test_a_merge_holds_what_its_files_hold(
    contents: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("held")
    paths = put(folder, contents)
    out = folder / "out.xml"

    totals = merge(paths, out)

    def of(path: Path, kind: type) -> list[object]:
        return [each for each in read_junit(path) if isinstance(each, kind)]

    problems = [problem for path in paths for problem in of(path, Problem)]
    lost = sum("cannot be read" in str(problem) for problem in problems)
    cases = [case for path in paths for case in of(path, CaseRecord)]
    assert totals.tests == len(cases) + lost == len(of(out, CaseRecord))
    assert totals.errors == sum(case.outcome == "error" for case in cases) + lost
    assert totals.failures == sum(case.outcome == "failure" for case in cases)
    assert len(totals.broken) == lost
    root = ET.XML(out.read_bytes())
    assert {name: root.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": str(totals.tests),
        "failures": str(totals.failures),
        "errors": str(totals.errors),
    }
    suites = [suite for path in paths for suite in of(path, SuiteRecord)]
    assert totals.wall_seconds == round(sum(suite.wall_seconds for suite in suites), 3)


@LAW
@given(content=FILE, data=st.data())
def test_no_damage_makes_the_reader_or_the_merge_fall(
    content: bytes, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("damage")
    damaged = bytearray(content[: data.draw(st.integers(0, len(content)))])
    for _ in range(data.draw(st.integers(0, 3)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path, out = folder / "damaged.xml", folder / "out.xml"
    path.write_bytes(damaged)

    records = list(read_junit(path))
    totals = merge([path], out)

    problems = [each for each in records if isinstance(each, Problem)]
    assert bool(totals.broken) == any("cannot be read" in each.text for each in problems)
    assert len(totals.broken) <= totals.errors
    assert ET.XML(out.read_bytes()).get("tests") == str(totals.tests)


@LAW
@given(content=st.binary(max_size=200))
def test_no_bytes_make_the_reader_fall(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.xml"
    path.write_bytes(content)

    assert any(isinstance(each, Problem) and each.lost for each in read_junit(path))


ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()), max_size=20)
CAUSES = st.lists(
    st.builds(
        Cause,
        st.sampled_from(["setup", "call", "teardown", "process"]),
        st.builds(
            Verdict,
            st.sampled_from([kind for kind in Kind if kind is not Kind.PASSED]),
            ANY_TEXT.map("because {}".format),
        ),
        ANY_TEXT,
    ),
    max_size=2,
).map(tuple)
ATTEMPTS = st.lists(
    st.builds(
        Attempt,
        st.integers(1, 3),
        st.none() | st.floats(0, 1e6),
        CAUSES,
        st.builds(Output, st.just("call"), st.sampled_from(["stdout", "stderr"]), ANY_TEXT).map(
            lambda output: (output,)
        ),
    ),
    min_size=1,
    max_size=3,
).map(tuple)
RESULTS = st.builds(
    lambda nodeid, attempts, notes: TestResult(nodeid, attempts, attempts[-1].verdict, notes),
    ANY_TEXT,
    ATTEMPTS,
    st.lists(ANY_TEXT, max_size=2).map(tuple),
)
RED = {Kind.FAILED, Kind.CRASHED, Kind.TIMED_OUT, Kind.INTERRUPTED, Kind.NOT_RUN}


@LAW
@given(results=st.lists(RESULTS, max_size=4))
def test_each_test_is_one_case_as_green_as_its_verdict(
    results: list[TestResult], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "results.xml"

    write_results(path, "s", results, {"head": "h"})

    records = list(read_junit(path))
    cases = [each for each in records if isinstance(each, CaseRecord)]
    assert [case.outcome in {"failure", "error"} for case in cases] == [
        result.verdict.kind in RED for result in results
    ]
    assert [case.outcome == "passed" for case in cases] == [
        result.verdict.kind is Kind.PASSED for result in results
    ]
    assert [each for each in records if isinstance(each, Problem)] == (
        [] if results else [Problem(path, "it holds no test case", lost=True)]
    )
