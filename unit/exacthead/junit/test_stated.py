"""A result that a test case says in another way than by a result element is never a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.junit import merge
from exacthead.junit.read import CaseRecord, Problem, read_junit

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, cases: str) -> Path:
    path = folder / "other.xml"
    path.write_text(f'<testsuite name="s">{cases}</testsuite>', encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("case", "outcome"),
    [
        ('<testcase name="a" status="failed"/>', "failure"),
        ('<testcase name="a" result="failure"></testcase>', "failure"),
        ('<testcase name="a" status="Error" time="x"/>', "error"),
        ('<testcase name="a" time="1,234.5" status="error"/>', "error"),
        ('<testcase name="a" status="notrun"/>', "skipped"),
        ('<testcase name="a" status="run" result="suppressed"><system-out/></testcase>', "skipped"),
        ('<testcase name="a" status="notrun" result="failed"/>', "failure"),
        ('<testcase name="a"><FAILURE/></testcase>', "failure"),
        ('<testcase name="a" status="run" result="completed"/>', "passed"),
        ('<testcase name="a" status="passed"><error/></testcase>', "error"),
    ],
)
def test_it_counts_and_is_merged_as_a_result_element(
    tmp_path: Path, case: str, outcome: str
) -> None:
    path = written(tmp_path, case)
    both = tmp_path / "both.xml"

    totals = merge([path], both)

    for file in (path, both):
        (found,) = [each for each in read_junit(file) if isinstance(each, CaseRecord)]
        assert found.outcome == outcome
    assert (totals.tests, totals.failures, totals.errors, totals.skipped) == (
        1,
        int(outcome == "failure"),
        int(outcome == "error"),
        int(outcome == "skipped"),
    )


def test_the_next_case_has_its_own_result(tmp_path: Path) -> None:
    path = written(tmp_path, '<testcase name="a" status="failed"/><testcase name="b"/>')

    cases = [each for each in read_junit(path) if isinstance(each, CaseRecord)]

    assert [(case.name, case.outcome) for case in cases] == [("a", "failure"), ("b", "passed")]


@pytest.mark.parametrize("case", ['<testcase status="odd"/>', "<testcase><verdict/></testcase>"])
def test_what_no_reader_knows_is_said(tmp_path: Path, case: str) -> None:
    (problem,) = [each for each in read_junit(written(tmp_path, case)) if isinstance(each, Problem)]

    assert "say what may be a result" in problem.text
