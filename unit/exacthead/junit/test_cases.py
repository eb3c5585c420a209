from __future__ import annotations

import math
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from junitparser import JUnitXml

from exacthead.errors import HarnessError
from exacthead.junit import Case, write_cases, xml_text
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# How long an example takes on a busy machine says nothing about its truth.
LAW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))


def passed(name: str, seconds: float | None = 1.0) -> Case:
    return Case("suite", name, seconds, Verdict(Kind.PASSED))


def cases_in(path: Path) -> Iterator[ET.Element]:
    return ET.XML(path.read_bytes()).iter("testcase")


def test_a_suite_is_written_with_its_properties_and_counts(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    cases = [
        passed("a", 0.25),
        Case("suite", "b", 0.5, Verdict(Kind.FAILED, "1 != 2"), "Traceback ...", "printed"),
        Case("suite", "c", None, Verdict(Kind.CRASHED, "signal 11")),
    ]

    write_cases(path, "contract", cases, {"worker": "abc", "head": "def", "seed": "7"})

    suite = next(iter(JUnitXml.fromfile(str(path))))
    assert (suite.name, suite.tests, suite.failures, suite.errors) == ("contract", 3, 1, 1)
    assert suite.time == 0.75
    assert {p.get("name"): p.get("value") for p in ET.XML(path.read_bytes()).iter("property")} == {
        "worker": "abc",
        "head": "def",
        "seed": "7",
    }
    first, second, third = suite
    assert (first.name, first.classname, first.time, first.result) == ("a", "suite", 0.25, [])
    failure = second.result[0]
    assert (failure.message, failure.type, failure.text) == ("1 != 2", "failed", "Traceback ...")
    assert second.system_out == "printed"
    assert (third.time, third.result[0].text) == (None, "signal 11")


TAGS = {
    Kind.PASSED: None,
    Kind.FAILED: "failure",
    Kind.CRASHED: "error",
    Kind.TIMED_OUT: "error",
    Kind.INTERRUPTED: "error",
    Kind.NOT_RUN: "error",
    Kind.SKIPPED: "skipped",
    Kind.QUARANTINED: "skipped",
}


@pytest.mark.parametrize("kind", Kind)
def test_only_a_pass_and_a_chosen_skip_are_not_red(tmp_path: Path, kind: Kind) -> None:
    tag = TAGS[kind]
    path = tmp_path / "junit.xml"

    write_cases(path, "s", [Case("c", "n", 0, Verdict(kind, "why"))])

    (case,) = cases_in(path)
    assert [(child.tag, child.get("type")) for child in case] == ([(tag, kind)] if tag else [])


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("]]> <!-- & \" '", "]]> <!-- & \" '"),
        ("\x00\x08\x0b\x1b[31mred", "\\x00\\x08\\x0b\\x1b[31mred"),
        ("👩‍💻 λ �", "👩‍💻 λ �"),
        ("\ud800 \udcff ￾ ￿", "\\ud800 \\udcff \\ufffe \\uffff"),
        ("a::b[x/../y]", "a::b[x/../y]"),
        ("", ""),
    ],
)
def test_any_name_survives(tmp_path: Path, name: str, shown: str) -> None:
    path = tmp_path / "junit.xml"

    write_cases(path, name, [passed(name)], {name: name})

    root = ET.XML(path.read_bytes())
    assert root.get("name") == shown
    assert [case.get("name") for case in root.iter("testcase")] == [shown]
    assert [(p.get("name"), p.get("value")) for p in root.iter("property")] == [(shown, shown)]


@LAW
@given(text=ANY_TEXT, kind=st.sampled_from(Kind))
def test_any_text_anywhere_makes_valid_xml(
    text: str, kind: Kind, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-junit.xml"
    verdict = Verdict(kind, f"x{text}")

    write_cases(path, text, [Case(text, text, 0.1, verdict, text, text)], {"seed": text})

    (case,) = cases_in(path)
    assert case.get("name") == xml_text(text)
    assert case.get("classname") == xml_text(text)
    if kind is not Kind.PASSED:
        assert case[0].get("message") == xml_text(f"x{text}")


@LAW
@given(text=ANY_TEXT)
def test_what_xml_can_hold_is_not_touched(text: str) -> None:
    shown = xml_text(text)

    assert xml_text(shown) == shown
    if text.isprintable():
        assert shown == text


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="give None when the time is unknown"):
        passed("a", seconds)


def test_a_folder_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="No such file or directory"):
        write_cases(tmp_path / "none" / "junit.xml", "s", [passed("a")])
