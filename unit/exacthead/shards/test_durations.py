from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.errors import HarnessError
from exacthead.shards.durations import KEPT, Durations, forget, read, record, write

if TYPE_CHECKING:
    from pathlib import Path

TIME = st.floats(0, 1e6, allow_nan=False)
HISTORY = st.dictionaries(
    st.text(min_size=1), st.lists(TIME, min_size=1, max_size=KEPT).map(tuple)
).map(Durations)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "durations.json"


def test_the_file_has_one_sorted_line_for_each_test(path: Path) -> None:
    write(path, Durations({"b.py::t": (1.0,), "a.py::t[é::/]": (0.25, 0.5)}))

    assert path.read_text(encoding="utf-8").splitlines() == [
        '{"format": 1, "seconds": {',
        '"a.py::t[\\u00e9::/]": [0.25, 0.5],',
        '"b.py::t": [1.0]',
        "}}",
    ]


def test_recording_one_test_changes_one_line(path: Path) -> None:
    history = Durations({f"a.py::t{number}": (1.0,) for number in range(5)})
    write(path, history)
    before = path.read_text(encoding="utf-8").splitlines()

    write(path, record(history, {"a.py::t3": 2.0}))

    after = path.read_text(encoding="utf-8").splitlines()
    assert [(a, b) for a, b in zip(before, after, strict=True) if a != b] == [
        ('"a.py::t3": [1.0],', '"a.py::t3": [1.0, 2.0],')
    ]


@given(history=HISTORY)
def test_what_is_written_is_read_back_whatever_the_names(
    tmp_path_factory: pytest.TempPathFactory, history: Durations
) -> None:
    path = tmp_path_factory.mktemp("history") / "durations.json"
    write(path, history)

    assert read(path) == history

    first = path.read_bytes()
    write(path, Durations(dict(reversed(history.seconds.items()))))
    assert path.read_bytes() == first


def test_no_file_is_an_empty_history(path: Path) -> None:
    assert read(path) == Durations({})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "no valid JSON"),
        ("[" * 100_000, "no valid JSON"),
        ("<<<<<<< ours", "no valid JSON"),
        ("[]", "not an object of exactly `format` and `seconds`"),
        ('{"seconds": {}}', "not an object of exactly `format` and `seconds`"),
        ('{"format": 1, "seconds": {}, "more": 1}', "not an object of exactly"),
        ('{"format": 2, "seconds": {}}', "format 2; this harness reads 1"),
        ('{"format": true, "seconds": {}}', "format True; this harness reads 1"),
        ('{"format": 1, "seconds": []}', "`seconds` is no object"),
        ('{"format": 1, "seconds": {"a::t": [1], "a::t": [2]}}', "twice in one object: a::t"),
    ],
)
def test_a_broken_history_is_refused_with_what_is_wrong(path: Path, text: str, found: str) -> None:
    path.write_text(text, encoding="utf-8")

    with pytest.raises(HarnessError) as raised:
        read(path)

    assert found in raised.value.found
    assert str(path) in raised.value.asked


@pytest.mark.parametrize(
    "times", ["[NaN]", "[1, Infinity]", "[-0.1]", '["1"]', "[true]", "[]", "1", "[1e999]", "[null]"]
)
def test_a_time_that_is_none_is_refused_by_the_name_of_its_test(path: Path, times: str) -> None:
    path.write_text(
        f'{{"format": 1, "seconds": {{"a.py::good": [1], "a.py::bad": {times}}}}}', encoding="utf-8"
    )

    with pytest.raises(HarnessError) as raised:
        read(path)

    assert "a.py::bad" in raised.value.found
    assert "a.py::good" not in raised.value.found


def test_a_whole_number_beyond_all_floats_is_refused(path: Path) -> None:
    path.write_text(
        f'{{"format": 1, "seconds": {{"a.py::bad": [1{"0" * 400}]}}}}', encoding="utf-8"
    )

    with pytest.raises(HarnessError, match=r"a\.py::bad"):
        read(path)


def test_bytes_that_are_no_utf8_are_refused(path: Path) -> None:
    path.write_bytes(b"\xff\xfe{}")

    with pytest.raises(HarnessError, match="the history of durations"):
        read(path)


def test_only_the_last_measurements_are_kept() -> None:
    history = Durations({})
    for number in range(8):
        history = record(history, {"a.py::t": float(number)})

    assert history.seconds == {"a.py::t": (3.0, 4.0, 5.0, 6.0, 7.0)}


def test_recording_leaves_other_tests_and_the_old_history_alone() -> None:
    history = Durations({"a.py::t": (1.0,), "b.py::t": (2.0,)})

    new = record(history, {"b.py::t": 3.00049, "c.py::t": 0.0})

    assert new.seconds == {"a.py::t": (1.0,), "b.py::t": (2.0, 3.0), "c.py::t": (0.0,)}
    assert history.seconds == {"a.py::t": (1.0,), "b.py::t": (2.0,)}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_a_result_that_is_no_time_is_refused_by_name(bad: float) -> None:
    with pytest.raises(HarnessError, match=r"a\.py::bad") as raised:
        record(Durations({}), {"a.py::good": 1.0, "a.py::bad": bad})

    assert "a.py::good" not in raised.value.found


def test_a_history_that_holds_no_time_is_not_written(path: Path) -> None:
    with pytest.raises(HarnessError, match=r"a\.py::bad"):
        write(path, Durations({"a.py::bad": (math.nan,)}))

    assert not path.exists()


def test_what_was_recorded_under_another_root_moves_to_the_name_of_now() -> None:
    history = Durations({"ci/unit/a.py::t": (1.0,), "ci/unit/a.py::gone": (2.0,)})

    new = record(history, {"unit/a.py::t": 3.0})

    assert new.seconds == {"ci/unit/a.py::gone": (2.0,), "unit/a.py::t": (1.0, 3.0)}


def test_a_test_that_is_gone_is_forgotten_and_that_of_another_file_is_not() -> None:
    history = Durations({"a.py::t": (1.0,), "a.py::gone": (1.0,), "b.py::t": (1.0,)})

    assert set(forget(history, ["a.py::t"]).seconds) == {"a.py::t", "b.py::t"}


@given(history=HISTORY, results=st.dictionaries(st.text(min_size=1), TIME))
def test_after_recording_every_result_is_the_last_of_its_test(
    history: Durations, results: dict[str, float]
) -> None:
    new = record(history, results)

    assert {nodeid: new.seconds[nodeid][-1] for nodeid in results} == {
        nodeid: round(time, 3) for nodeid, time in results.items()
    }
    assert all(1 <= len(times) <= KEPT for times in new.seconds.values())
    json.dumps(dict(new.seconds), allow_nan=False)
