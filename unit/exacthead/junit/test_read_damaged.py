"""Files that break off, hold other bytes than they say, or are none: read as far as they go."""

from __future__ import annotations

import os
from encodings.aliases import aliases
from typing import TYPE_CHECKING

import pytest

from exacthead.junit import read_junit
from unit.exacthead.junit.reading import outcomes, read

if TYPE_CHECKING:
    from pathlib import Path


WHOLE = (
    '<testsuites><testsuite name="outer" tests="4"><properties/><testcase name="a" time="-1"/>'
    '<testsuite name="inner"><testcase name="b"/></testsuite><system-out>o</system-out>'
    '<testcase name="c" time="nan"><failure>F</failure></testcase> <testcase name="d"/>'
    "</testsuite></testsuites>"
)
ENDS = {"a": '"-1"/>', "b": 'name="b"/>', "c": "</failure></testcase>", "d": 'name="d"/>'}


def test_a_truncated_file_gives_every_case_before_the_break(tmp_path: Path) -> None:
    for length in range(len(WHOLE) - 1):
        cases, _, problems = read(tmp_path, WHOLE[:length])

        whole = {name for name, end in ENDS.items() if WHOLE.index(end) + len(end) <= length}
        assert set(outcomes(cases)) == whole
        assert problems[-1].lost
        assert outcomes(cases).get("c", "failure") == "failure"


def test_the_case_in_which_a_file_breaks_off_is_named(tmp_path: Path) -> None:
    _, _, problems = read(tmp_path, '<testsuite name="s"><testcase name="hangs"><system-out>\n...')

    assert problems[0].text == (
        "it cannot be read: no element found: line 2, column 3; it breaks off in test case 'hangs'"
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "it cannot be read: no element found: line 1, column 0"),
        ("<testsuites/>", "it holds no test case"),
        ('<testsuite name="s" tests="0"/>', "it holds no test case"),
        ("{}", "it cannot be read: not well-formed (invalid token): line 1, column 0"),
    ],
)
def test_a_file_without_cases_is_never_green(tmp_path: Path, content: str, problem: str) -> None:
    cases, _, problems = read(tmp_path, content)

    assert cases == []
    assert [(each.text, each.lost) for each in problems] == [(problem, True)]


def test_a_file_that_is_none_is_a_problem(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    found = [list(read_junit(path)) for path in (tmp_path / "none.xml", tmp_path, pipe)]

    assert [[problem.text for problem in each] for each in found] == [
        ["it cannot be read: No such file or directory"],
        ["it cannot be read: it is no regular file"],
        ["it cannot be read: it is no regular file"],
    ]


TEXT = '<testsuite name="s"><testcase name="é €" time="1"/></testsuite>'


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [
        ("utf-8", "utf-8-sig"),
        ("utf-16", "utf-16"),
        ("utf-16", "utf-16-le"),
        ("UTF-16", "utf-8"),
        ("windows-1252", "windows-1252"),
        ("iso-8859-15", "iso-8859-15"),
        ("utf-32", "utf-32"),
        ("klingon", "utf-8"),
        ("rot13", "utf-8"),
        ("us-ascii", "utf-8"),
    ],
)
def test_any_encoding_is_read(tmp_path: Path, declared: str, encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{declared}"?>{TEXT}'

    cases, _, problems = read(tmp_path, text.encode(encoding))

    assert outcomes(cases) == {"é €": "passed"}
    assert problems == []


def test_no_encoding_makes_the_reader_fall(tmp_path: Path) -> None:
    for name in sorted(set(aliases.values())):
        declaration = f'<?xml version="1.0" encoding="{name.replace("_", "-")}"?>'

        cases, _, problems = read(tmp_path, (declaration + TEXT).encode() + b"\xff")

        assert cases or problems[-1].lost


def test_bytes_that_are_no_text_are_written_out_and_said(tmp_path: Path) -> None:
    cases, _, problems = read(
        tmp_path,
        b'<testsuite name="s"><testcase name="a\xff"><system-out>\xc3(</system-out></testcase>'
        b'<testcase name="b"/></testsuite>',
    )

    assert outcomes(cases) == {"a\\xff": "passed", "b": "passed"}
    assert cases[0].stdout == "\\xc3("
    assert [problem.text for problem in problems] == ["bytes that are no utf-8 stand as \\xff"]


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE x [<!ENTITY a "aaa"><!ENTITY b "&a;&a;&a;">]>',
        '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE x SYSTEM "file:///etc/passwd">',
        '<!DOCTYPE x [<!ATTLIST testcase time CDATA "5">]>',
    ],
)
@pytest.mark.parametrize("namespace", ["", ' xmlns="urn:junit"'])
def test_no_entity_is_ever_expanded(tmp_path: Path, doctype: str, namespace: str) -> None:
    cases, _, problems = read(
        tmp_path, f'{doctype}<testsuite{namespace} name="s"><testcase name="&a;"/></testsuite>'
    )

    assert cases == []
    assert [problem.text for problem in problems] == [
        "it cannot be read: it has a document type declaration, which is not followed"
    ]


def test_a_plain_document_type_is_read_past(tmp_path: Path) -> None:
    cases, _, problems = read(tmp_path, f"<!DOCTYPE testsuite>{TEXT}")

    assert (outcomes(cases), problems) == ({"é €": "passed"}, [])


@pytest.mark.parametrize("tag", ["testsuite", "testsuites", "a"])
def test_a_huge_depth_is_refused_and_what_came_before_is_kept(tmp_path: Path, tag: str) -> None:
    deep = f"<{tag}>" * 100_000
    cases, _, problems = read(
        tmp_path, f'<testsuite name="s"><testcase name="a"/><testcase name="b">{deep}'
    )
    outside, _, others = read(tmp_path, f'<testsuite name="s"><testcase name="a"/>{deep}')

    assert outcomes(cases) == outcomes(outside) == {"a": "passed"}
    assert [sum(problem.lost for problem in each) for each in (problems, others)] == [1, 1]


def test_comments_and_sections_that_look_like_cases_are_none(tmp_path: Path) -> None:
    cases, _, problems = read(
        tmp_path,
        '<testsuite name="s"><!-- <testcase name="no"/> --><?x <testcase name="no"/> ?>'
        '<testcase name="a"><system-out><![CDATA[<testcase name="no"/>]]></system-out></testcase>'
        "</testsuite>",
    )

    assert (outcomes(cases), problems) == ({"a": "passed"}, [])
    assert cases[0].stdout == '<testcase name="no"/>'
