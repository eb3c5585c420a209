from __future__ import annotations

import itertools
import math
import shutil
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from junitparser import JUnitXml

from exacthead.errors import HarnessError
from exacthead.junit import Case, Totals, merge, merging, seconds, write_cases
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random


# How long an example takes on a busy machine says nothing about its truth.
LAW = settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def some_files(folder: Path) -> list[Path]:
    first = folder / "first.xml"
    write_cases(
        first,
        "contract",
        [
            Case("c", "a\r\nb \x1b", 0.1, Verdict(Kind.PASSED), output="one\rtwo"),
            Case("c", "b", 0.2, Verdict(Kind.FAILED, "no")),
            Case("c", "c", None, Verdict(Kind.SKIPPED, "by choice")),
        ],
        {"head": "abc"},
    )
    second = put(
        folder,
        "second.xml",
        '<testsuites><testsuite name="pytest" time="9.5" hostname="h" tests="77">'
        '<testcase classname="m" name="x" time="0.3"/>'
        '<testcase classname="m" name="y" time="1e-3"><error message="e">E</error>'
        "<failure>F</failure></testcase>"
        "<system-out>said&#13;so</system-out></testsuite></testsuites>",
    )
    third = put(folder, "third.xml", '<testsuite name="empty" tests="0" time="0.5"/>')
    fourth = put(
        folder,
        "fourth.xml",
        '<testsuite name="outer" time="2"><testcase name="o" time="0.7"/>'
        '<testsuite name="inner" time="1"><testcase name="i" time="0.1"/></testsuite></testsuite>',
    )
    return [first, second, third, fourth]


def test_known_faults_are_counted_among_the_skipped_also_when_merged_again(
    tmp_path: Path,
) -> None:
    known, plain = '<skipped type="quarantined" message="m"/>', '<skipped message="m"/>'
    cases = [known, plain, known, known + "<failure/>", "", '<failure type="quarantined"/>']
    body = "".join(
        f'<testcase name="{n}" time="1">{text}</testcase>' for n, text in enumerate(cases)
    )
    (tmp_path / "a.xml").write_text(f'<testsuite name="s">{body}</testsuite>', encoding="utf-8")

    first = merge([tmp_path / "a.xml"], tmp_path / "b.xml")
    again = merge([tmp_path / "a.xml", tmp_path / "b.xml"], tmp_path / "c.xml")

    assert (first.tests, first.failures, first.skipped, first.quarantined) == (6, 2, 3, 2)
    assert (again.skipped, again.quarantined) == (6, 4)


def test_totals_keep_the_cases_sum_and_the_suites_wall_time(tmp_path: Path) -> None:
    out = tmp_path / "junit.xml"

    totals = merge(some_files(tmp_path), out)

    assert totals == Totals(
        suites=5,
        tests=7,
        failures=1,
        errors=1,
        skipped=1,
        case_seconds=1.401,
        wall_seconds=13.3,
        unknown_times=1,
        broken=(),
    )
    merged = JUnitXml.fromfile(str(out))
    assert (merged.tests, merged.failures, merged.errors) == (7, 1, 1)
    assert merged.time == 13.3
    assert sum(suite.skipped for suite in merged) == 1  # the schema has no such sum
    assert {suite.name: (suite.tests, suite.time) for suite in merged} == {
        "contract": (3, 0.3),
        "pytest": (2, 9.5),
        "empty": (0, 0.5),
        "outer": (1, 2.0),
        "inner": (1, 1.0),
    }


def test_nothing_of_a_suite_is_lost(tmp_path: Path) -> None:
    out = tmp_path / "junit.xml"

    merge(some_files(tmp_path), out)

    suites = {suite.name: suite for suite in JUnitXml.fromfile(str(out))}
    assert [case.name for case in suites["contract"]] == ["a\r\nb \\x1b", "b", "c"]
    root = ET.XML(out.read_bytes())
    properties = root.findall("./testsuite[@name='contract']/properties/property")
    assert [(p.get("name"), p.get("value")) for p in properties] == [("head", "abc")]
    assert [element.text for element in root.iter("system-out")][-1] == "said\rso"
    both = root.find(".//testcase[@name='y']")
    assert both is not None
    assert [(child.tag, child.text) for child in both] == [("error", "E"), ("failure", "F")]
    assert suites["pytest"].hostname == "h"


def test_any_order_gives_the_same_bytes(tmp_path: Path) -> None:
    out = tmp_path / "junit.xml"
    results = set()
    for order in itertools.permutations(some_files(tmp_path)):
        totals = merge(order, out)
        results.add((totals, out.read_bytes()))

    assert len(results) == 1


def test_sums_are_exact(tmp_path: Path) -> None:
    cases = '<testcase name="x" time="0.1"/>' * 10
    path = put(tmp_path, "ten.xml", f'<testsuite name="s">{cases}</testsuite>')

    totals = merge([path] * 10, tmp_path / "junit.xml")

    assert (totals.tests, totals.case_seconds, totals.wall_seconds) == (100, 10.0, 10.0)


def test_any_grouping_gives_the_same_bytes(tmp_path: Path) -> None:
    files = some_files(tmp_path)
    whole = tmp_path / "whole.xml"
    totals = merge(files, whole)

    for cut in range(1, len(files)):
        left, right, both = (tmp_path / f"{side}.xml" for side in ("left", "right", "both"))
        merge(files[:cut], left)
        merge(files[cut:], right)
        assert merge([right, left], both) == totals
        assert both.read_bytes() == whole.read_bytes()


@LAW
@given(
    suites=st.lists(
        st.lists(st.tuples(st.floats(0, 1e6) | st.none(), st.sampled_from(Kind)), max_size=4),
        min_size=1,
        max_size=5,
    ),
    random=st.randoms(use_true_random=False),
)
def test_totals_do_not_depend_on_the_order(
    suites: list[list[tuple[float | None, Kind]]],
    random: Random,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    paths = []
    for number, rows in enumerate(suites):
        path = folder / f"{number}.xml"
        cases = [Case("c", str(i), s, Verdict(k, "why")) for i, (s, k) in enumerate(rows)]
        write_cases(path, "s", cases)
        paths.append(path)

    totals = merge(paths, folder / "a.xml")
    random.shuffle(paths)
    again = merge(paths, folder / "b.xml")

    rows = list(itertools.chain.from_iterable(suites))
    assert totals == again
    assert (folder / "a.xml").read_bytes() == (folder / "b.xml").read_bytes()
    assert totals.tests == len(rows)
    assert totals.unknown_times == sum(s is None for s, _ in rows)
    assert totals.failures == sum(k is Kind.FAILED for _, k in rows)
    assert totals.skipped == sum(k in {Kind.SKIPPED, Kind.QUARANTINED} for _, k in rows)
    known = [s for s, _ in rows if s is not None]
    assert totals.case_seconds == pytest.approx(math.fsum(known), abs=1e-4)


BOMB = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in itertools.pairwise("abcdefghijk"))
    + ']><testsuite name="bomb"><testcase name="&k;"/></testsuite>'
)


@pytest.mark.parametrize(
    ("content", "reason", "kept"),
    [
        ("", "no element found", []),
        ("not XML", "syntax error", []),
        ("<html/>", "its root is <html>, not <testsuites> or <testsuite>", []),
        (
            '<testsuites><testcase name="x"/></testsuites>',
            "<testcase> directly in <testsuites>",
            [],
        ),
        (
            '<testsuite name="s"><testcase name="x" time="1"/><testcase name="hangs"><sys',
            "it breaks off in test case 'hangs'",
            ["x"],
        ),
        ('<testsuite name="s"><testcase name="x"/>\x00</testsuite>', "not well-formed", ["x"]),
        (BOMB, "a document type declaration, which is not followed", []),
    ],
)
def test_a_broken_file_is_an_error_case_and_costs_no_other(
    tmp_path: Path, content: str, reason: str, kept: list[str]
) -> None:
    good = some_files(tmp_path)
    broken = put(tmp_path, "broken.xml", content)
    out = tmp_path / "junit.xml"

    totals = merge([*good[:2], broken, *good[2:]], out)

    assert totals.broken == ("broken.xml",)
    assert (totals.tests, totals.errors) == (7 + len(kept) + 1, 2)
    root = ET.XML(out.read_bytes())
    case = root.find(".//testsuite[@name='unreadable results']/testcase")
    assert case is not None
    assert case.get("name") == "broken.xml"
    assert reason in (case[0].get("message") or "")
    names = [each.get("name") for each in root.iter("testcase")]
    assert [name for name in names if name in {"x", "hangs"}] == ["x", *kept]


def test_a_missing_file_is_an_error_case(tmp_path: Path) -> None:
    out = tmp_path / "junit.xml"

    totals = merge([tmp_path / "items" / "lost" / "junit.xml"], out)

    assert (totals.tests, totals.errors, totals.broken) == (1, 1, ("items/lost/junit.xml",))
    assert "cannot be read: No such file or directory" in out.read_text(encoding="utf-8")


def test_several_processes_give_the_same_bytes_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [*some_files(tmp_path), put(tmp_path, "broken.xml", '<testsuite tests="3"><testcase')]
    alone, together = tmp_path / "alone.xml", tmp_path / "together.xml"
    totals = merge(files, alone)
    monkeypatch.setattr(merging, "_SHARE", 1)
    monkeypatch.setattr(merging.os, "sched_getaffinity", lambda _: {1, 2, 3})

    assert len(merging._shares(files)) == 3
    again = merge(files, together)

    assert again == totals
    assert again.doubts == totals.doubts != ()
    assert together.read_bytes() == alone.read_bytes()


def test_a_lost_process_of_a_merge_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = some_files(tmp_path)
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(merging, "_SHARE", 1)
    monkeypatch.setattr(merging.os, "sched_getaffinity", lambda _: {1, 2})
    monkeypatch.setattr(merging.sys, "executable", shutil.which("false"))

    with pytest.raises(HarnessError, match="a process of the merge ended with 1"):
        merge(files, tmp_path / "junit.xml")
    assert sorted(tmp_path.iterdir()) == before


def test_a_suite_that_says_more_than_it_holds_is_in_doubt(tmp_path: Path) -> None:
    totals = merge(some_files(tmp_path), tmp_path / "junit.xml")

    assert totals.doubts == ("second.xml: suite 'pytest' says tests='77' and holds 2",)


def test_files_broken_in_an_earlier_merge_stay_broken(tmp_path: Path) -> None:
    first, again = tmp_path / "first.xml", tmp_path / "again.xml"
    totals = merge([tmp_path / "lost.xml", *some_files(tmp_path)], first)

    assert merge([first], again) == totals
    assert totals.broken == ("lost.xml",)
    assert again.read_bytes() == first.read_bytes()


def test_a_merge_of_nothing_holds_nothing(tmp_path: Path) -> None:
    out = tmp_path / "junit.xml"

    assert merge([], out).tests == 0
    assert ET.XML(out.read_bytes()).attrib["tests"] == "0"


def test_a_folder_that_is_gone_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="No such file or directory"):
        merge([], tmp_path / "none" / "junit.xml")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5", 1.5),
        (" 2 ", 2.0),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1,234.5", 1234.5),
        ("1,234,567", 1234567.0),
        ("0:00:00.69", 0.69),
        ("1:02:03", 3723.0),
        ("02:03.5", 123.5),
        ("0.0000004", 0.0),
        ("", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("1,5", None),
        ("1.5 s", None),
        ("1_000", None),
        ("0x10", None),
    ],
)
def test_times_are_values_or_unknown(text: str, value: float | None) -> None:
    assert seconds(text) == value


@LAW
@given(text=st.text(max_size=12) | st.from_regex(r"[0-9:.,eE+\-]{0,12}"))
def test_no_time_is_ever_nan_or_negative(text: str) -> None:
    value = seconds(text)

    assert value is None or (math.isfinite(value) and value >= 0)


def test_strange_times_never_reach_the_merged_file(tmp_path: Path) -> None:
    times = ["", "0:00:00.69", "1,234.5", "-1", "nan", "1e3"]
    cases = "".join(f'<testcase name="{time}" time="{time}"/>' for time in times)
    path = put(tmp_path, "odd.xml", f'<testsuite name="s" time="nan">{cases}</testsuite>')
    out = tmp_path / "junit.xml"

    totals = merge([path], out)

    assert (totals.case_seconds, totals.wall_seconds) == (2235.19, 2235.19)
    assert totals.unknown_times == 3
    written = {
        case.get("name"): case.get("time") for case in ET.XML(out.read_bytes()).iter("testcase")
    }
    assert written == {
        "": None,
        "0:00:00.69": "0.690000",
        "1,234.5": "1234.500000",
        "-1": None,
        "nan": None,
        "1e3": "1000.000000",
    }
