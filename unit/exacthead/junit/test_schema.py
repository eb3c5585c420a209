"""What we write is valid by the schema that JUnit's readers share."""

from __future__ import annotations

from pathlib import Path

import pytest
import xmlschema

from exacthead.junit import Case, merge, write_cases, write_results
from exacthead.units.result import Attempt, Cause, Output, TestResult
from exacthead.verdict import Kind, Verdict


@pytest.fixture(scope="module")
def schema() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(Path(__file__).with_name("junit-10.xsd"))


def every_result() -> list[TestResult]:
    """A test for each kind and phase, alone, before a pass and after another fault."""
    causes = [
        Cause(phase, Verdict(kind, "why \x1b"), "text \x00")
        for kind in Kind
        if kind is not Kind.PASSED
        for phase in ("collection", "setup", "call", "teardown", "process")
    ]
    outputs = (Output("call", "stdout", "]]> \ud800"), Output("setup", "stderr", "&"))
    results = []
    for cause in causes:
        bad, good = Attempt(1, None, (cause, causes[2]), outputs), Attempt(2, 1e-7)
        for attempts in ((bad,), (bad, good), (bad, bad), (good,)):
            verdict = attempts[-1].verdict
            results.append(TestResult(f"a.py::t[{len(results)}]", attempts, verdict, ("note",)))
    return results


def test_results_of_every_kind_are_valid(tmp_path: Path, schema: xmlschema.XMLSchema) -> None:
    path = tmp_path / "junit.xml"

    write_results(path, "s", every_result(), {"head": "h"}, wall_seconds=1234.56789)

    schema.validate(path)


def test_cases_of_every_kind_are_valid(tmp_path: Path, schema: xmlschema.XMLSchema) -> None:
    path = tmp_path / "junit.xml"
    cases = [Case("c", "n", 0.1234567, Verdict(kind, "why"), "m", "o") for kind in Kind]

    write_cases(path, "s", cases, {"seed": "7"})

    schema.validate(path)


def test_a_merge_is_valid_also_where_it_had_to_repair(
    tmp_path: Path, schema: xmlschema.XMLSchema
) -> None:
    ours = tmp_path / "ours.xml"
    write_results(ours, "s", every_result(), {"head": "h"})
    theirs = tmp_path / "theirs.xml"
    theirs.write_text(
        '<testsuites time="nan" skipped="3"><testsuite time="-1" failures="9"><error>E</error>'
        '<testcase name="a" time="nan"/><testsuite time="1,234.56789"><testcase name="b" time=""/>'
        '</testsuite></testsuite><testsuite failures="1"/><testsuite><testcase name="c"/><testcase',
        encoding="utf-8",
    )
    out = tmp_path / "merged.xml"

    totals = merge([ours, theirs, tmp_path / "missing.xml"], out)

    assert totals.broken == ("missing.xml", "theirs.xml")
    schema.validate(out)


@pytest.mark.parametrize(
    "content",
    [
        '<testcase name="a"><properties/></testcase>',
        "<testcase/>",
        '<testcase name="a"><rerunFailure/></testcase>',
        '<testcase name="a" file="b.py"/>',
        "<error/>",
    ],
)
def test_the_schema_refuses_what_its_readers_refuse(
    schema: xmlschema.XMLSchema, content: str
) -> None:
    suite = f'<testsuite name="s" tests="1" failures="0" errors="0">{content}</testsuite>'

    assert schema.is_valid(suite.replace(content, ""))
    assert not schema.is_valid(suite)
