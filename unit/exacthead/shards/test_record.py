from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.junit import write_results
from exacthead.shards.durations import Durations, read, write
from exacthead.shards.record import record_run
from exacthead.units.result import Attempt, Cause, TestResult
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "unit").mkdir()
    (tmp_path / "unit" / "test_a.py").write_text("", encoding="utf-8")
    return tmp_path / "runs" / "one"


@pytest.fixture
def junit(run: Path) -> Callable[[str, str], None]:
    def add(item: str, cases: str) -> None:
        folder = run / "items" / item
        folder.mkdir(parents=True)
        text = f"<testsuites><testsuite name='s'>{cases}</testsuite></testsuites>"
        (folder / "junit.xml").write_text(text, encoding="utf-8")

    return add


def case(nodeid: str, time: str, inside: str = "") -> str:
    named = f"<properties><property name='nodeid' value='{nodeid}'/></properties>"
    return f"<testcase classname='c' name='n' time='{time}'>{named}{inside}</testcase>"


def test_the_times_of_all_items_are_recorded_by_node_id(
    tmp_path: Path, run: Path, junit: Callable[[str, str], None]
) -> None:
    junit("unit.a.1of2", case("unit/test_a.py::t", "1.5"))
    junit("unit.a.2of2", case("unit/test_a.py::C::u[x::y]", "1,234.5"))

    found = record_run(run, tmp_path / "durations.json", tmp_path)

    assert read(tmp_path / "durations.json").seconds == {
        "unit/test_a.py::C::u[x::y]": (1234.5,),
        "unit/test_a.py::t": (1.5,),
    }
    assert dict(found.left_out) == {}


def test_the_files_that_the_harness_writes_are_understood(tmp_path: Path, run: Path) -> None:
    failed = Cause("call", Verdict(Kind.FAILED, "1 != 2"))
    results = [
        TestResult(nodeid, attempts, attempts[-1].verdict)
        for nodeid, attempts in {
            "a.py::C::t[b.py::c, d]": (Attempt(1, 0.25),),
            "a.py::flaky": (Attempt(1, 9.0, (failed,)), Attempt(2, 0.5)),
            "a.py::failed": (Attempt(1, 3.0, (failed,)),),
            "a.py::lost": (Attempt(1, None, (Cause("process", Verdict(Kind.CRASHED, "11")),)),),
        }.items()
    ]
    folder = run / "items" / "unit.a"
    folder.mkdir(parents=True)
    write_results(folder / "junit.xml", "unit.a", results, {"head": "abc"}, 12.0)

    found = record_run(run, tmp_path / "durations.json", tmp_path)

    assert found.times == {"a.py::C::t[b.py::c, d]": 0.25, "a.py::flaky": 0.5}
    assert dict(found.left_out) == {"failure": 1, "error": 1}


def test_tests_that_did_not_pass_or_have_no_time_are_counted_and_not_recorded(
    tmp_path: Path, run: Path, junit: Callable[[str, str], None]
) -> None:
    junit(
        "unit.a",
        case("a.py::good", "1")
        + case("a.py::failed", "1", "<failure/>")
        + case("a.py::crashed", "1", "<error/>")
        + case("a.py::skipped", "0", "<skipped/>")
        + case("a.py::odd", "nan")
        + "<testcase classname='contract' name='checks' time='1'/>",
    )

    found = record_run(run, tmp_path / "durations.json", tmp_path)

    assert read(tmp_path / "durations.json").seconds == {"a.py::good": (1.0,)}
    assert dict(found.left_out) == {
        "failure": 1,
        "error": 1,
        "skipped": 1,
        "no time": 1,
        "not a test of this checkout": 1,
    }


def test_a_dotted_class_name_is_resolved_in_the_checkout(
    tmp_path: Path, run: Path, junit: Callable[[str, str], None]
) -> None:
    junit(
        "unit.a",
        "<testcase classname='unit.test_a' name='t[a.b]' time='1'/>"
        "<testcase classname='unit.test_a.C.D' name='u' time='2'/>"
        "<testcase classname='unit.test_gone' name='v' time='3'/>",
    )

    found = record_run(run, tmp_path / "durations.json", tmp_path)

    assert found.times == {"unit/test_a.py::t[a.b]": 1.0, "unit/test_a.py::C::D::u": 2.0}
    assert found.left_out["not a test of this checkout"] == 1


def test_a_run_adds_to_the_history_and_a_whole_one_forgets_what_is_gone(
    tmp_path: Path, run: Path, junit: Callable[[str, str], None]
) -> None:
    path = tmp_path / "durations.json"
    before = {"a.py::t": (1.0,), "a.py::failed": (1.0,), "a.py::gone": (1.0,), "b.py::t": (1.0,)}
    write(path, Durations(before))
    junit("unit.a", case("a.py::t", "2") + case("a.py::failed", "9", "<failure/>"))

    record_run(run, path, tmp_path)
    assert read(path).seconds == {**before, "a.py::t": (1.0, 2.0)}

    record_run(run, path, tmp_path, whole=True)
    assert read(path).seconds == {
        "a.py::failed": (1.0,),
        "a.py::t": (1.0, 2.0, 2.0),
        "b.py::t": (1.0,),
    }


def test_a_run_without_any_time_is_refused_and_writes_nothing(tmp_path: Path, run: Path) -> None:
    with pytest.raises(HarnessError, match="no test that passed and has a time"):
        record_run(run, tmp_path / "durations.json", tmp_path)

    assert not (tmp_path / "durations.json").exists()


def test_a_broken_file_among_good_ones_leaves_the_history_as_it_was(
    tmp_path: Path, run: Path, junit: Callable[[str, str], None]
) -> None:
    path = tmp_path / "durations.json"
    write(path, Durations({"a.py::t": (1.0,)}))
    before = path.read_bytes()
    junit("unit.a", case("a.py::t", "2"))
    junit("unit.b", "<testcase")

    with pytest.raises(HarnessError) as raised:
        record_run(run, path, tmp_path)

    assert "unit.b" in raised.value.asked
    assert path.read_bytes() == before
