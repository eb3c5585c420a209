from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exacthead.contracts.series import Metrics, Point, State, read

if TYPE_CHECKING:
    from collections.abc import Callable


# How long an example takes on a busy machine says nothing about its truth.
LAW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_values_keep_their_types(written: Callable[[str], Path]) -> None:
    path = written('{"step": 1, "i": 2, "f": 2.0, "b": true, "t": "2"}\n')

    recording = read(path)

    assert (recording.state, recording.problem) == (State.RECORDED, "")
    values = {name: points[0].value for name, points in recording.metrics.series.items()}
    assert {name: (type(v), v) for name, v in values.items()} == {
        "i": (int, 2),
        "f": (float, 2.0),
        "b": (bool, True),
        "t": (str, "2"),
    }


def test_series_hold_only_the_recorded_points(written: Callable[[str], Path]) -> None:
    path = written('{"step": 0, "a": 1}\n{"step": 5, "b": 2}\n{"step": 9, "a": 3, "b": 4}\n')

    assert read(path).metrics == Metrics(
        (0, 5, 9), {"a": (Point(0, 1), Point(9, 3)), "b": (Point(5, 2), Point(9, 4))}
    )


def test_nan_and_infinities_are_data(written: Callable[[str], Path]) -> None:
    series = read(
        written('{"step": 1, "a": NaN, "b": Infinity, "c": -Infinity, "d": 1e999}\n')
    ).metrics.series

    # Only NaN differs from itself.
    assert series["a"][0].value != series["a"][0].value
    assert [series[name][0].value for name in "bcd"] == [math.inf, -math.inf, math.inf]


@pytest.mark.parametrize("name", ["a>b", "", "λ", "a b\nc", "max", "__class__", '"', "step "])
def test_any_text_is_a_metric_name(written: Callable[[str], Path], name: str) -> None:
    path = written(json.dumps({"step": 1, name: 3}) + "\n")

    assert read(path).metrics.series == {name: (Point(1, 3),)}


def test_a_missing_file_has_its_own_outcome(tmp_path: Path) -> None:
    recording = read(tmp_path / "metrics.jsonl")

    assert recording.state is State.MISSING
    assert recording.problem == "metrics.jsonl is missing: nothing was recorded"


@pytest.mark.parametrize("text", ["", "\n", " \n\n"])
def test_an_empty_file_has_its_own_outcome(written: Callable[[str], Path], text: str) -> None:
    recording = read(written(text))

    assert recording.state is State.EMPTY
    assert recording.problem == "metrics.jsonl is empty: nothing was recorded"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_in_the_place_of_one_is_broken_and_not_waited_for(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "metrics.jsonl")

    recording = read(tmp_path / "metrics.jsonl")

    assert recording.state is State.BROKEN
    assert recording.problem == "metrics.jsonl cannot be read: it is no regular file"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"step": 2, "a": 1, "a": 1}', "'a' appears twice in one object"),
        ('{"step": 2, "step": 3}', "'step' appears twice in one object"),
        ('{"step": 2, "a": [2]}', "'a' is a list"),
        ('{"step": 2, "a": []}', "'a' is a list"),
        ('{"step": 2, "a": {"b": 1}}', "'a' is an object"),
        ('{"step": 2, "a": null}', "'a' is null"),
        ('{"a": 1}', "it has no 'step'"),
        ('{"step": true}', "'step' is true, not a whole number"),
        ('{"step": 2.0}', "'step' is 2.0, not a whole number"),
        ('{"step": "2"}', "'step' is \"2\", not a whole number"),
        ('{"step": -1}', "'step' is -1, not a whole number"),
        ('{"step": NaN}', "'step' is NaN, not a whole number"),
        ('{"step": 1}', "step 1 appears twice"),
        ('{"step": 0}', "step 0 comes after step 1"),
        ('{"step": 2, "a":', "it is not JSON"),
        ('{"step": 2} {"step": 3}', "it is not JSON"),
        ("[2]", "it is a list, not an object"),
        ("2", "it is a number, not an object"),
        ("null", "it is null, not an object"),
        ("", "it is blank"),
        ("[" * 100_000, "it is nested too deeply"),
        ('{"step": 2, "a": ' + "9" * 5000 + "}", "it is not JSON"),
    ],
)
def test_a_broken_line_is_named_and_what_came_before_is_kept(
    written: Callable[[str], Path], line: str, problem: str
) -> None:
    recording = read(written(f'{{"step": 1, "a": 7}}\n{line}\n{{"step": 3, "a": 9}}\n'))

    assert recording.state is State.BROKEN
    assert recording.problem.startswith("metrics.jsonl, line 2: ")
    assert problem in recording.problem
    assert recording.metrics == Metrics((1,), {"a": (Point(1, 7),)})


def test_a_line_that_is_not_utf_8_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1, "a": "\xff"}\n')

    assert read(path).problem == "metrics.jsonl, line 1: it is not UTF-8 at byte 18"


@LAW
@given(content=st.binary(max_size=200))
def test_no_content_whatever_raises(
    content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(content)

    recording = read(path)

    assert (recording.state is State.RECORDED) == (recording.problem == "")


@LAW
@given(
    rows=st.dictionaries(
        st.integers(0, 1000),
        st.dictionaries(
            st.text().filter(lambda name: name != "step"),
            st.integers() | st.booleans() | st.text() | st.floats(allow_nan=False),
            max_size=3,
        ),
        min_size=1,
    )
)
def test_what_was_written_is_what_is_read(
    rows: dict[int, dict[str, object]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.jsonl"
    lines = [json.dumps({**rows[step], "step": step}) + "\n" for step in sorted(rows)]
    path.write_text("".join(lines), encoding="utf-8")

    metrics = read(path).metrics

    assert metrics.steps == tuple(sorted(rows))
    found = {
        (point.step, name, type(point.value), point.value)
        for name, points in metrics.series.items()
        for point in points
    }
    assert found == {
        (step, name, type(value), value)
        for step, row in rows.items()
        for name, value in row.items()
    }
