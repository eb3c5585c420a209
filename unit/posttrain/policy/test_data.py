from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from posttrain.data import read_rows
from posttrain.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

GOOD: dict[str, Any] = {
    "responses_create_params": {"input": [{"role": "user", "content": "1 + 1?\u2028"}]},
    "question": "1 + 1?",
    "expected_answer": "2",
    "agent_ref": {"type": "responses_api_agents", "name": "math_simple_agent"},
}


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_the_fixture_has_a_row_for_each_verdict(dataset: Path) -> None:
    rows = read_rows(dataset)
    assert [row.index for row in rows] == [0, 1]
    assert [row.raw["expected_answer"] for row in rows] == ["4", "8"]
    assert {row.raw["agent_ref"]["name"] for row in rows} == {"math_simple_agent"}


def test_blank_lines_are_no_rows_and_keep_line_numbers(tmp_path: Path) -> None:
    good = json.dumps(GOOD, ensure_ascii=False)
    rows = read_rows(write(tmp_path / "d.jsonl", "", good, "  \r", good, ""))
    assert [(row.index, row.raw) for row in rows] == [(0, GOOD), (1, GOOD)]
    with pytest.raises(DataError, match="line 4"):
        read_rows(write(tmp_path / "d.jsonl", good, "", good, "{"))


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file") as caught:
        read_rows(tmp_path / "absent.jsonl")
    assert str(tmp_path / "absent.jsonl") in str(caught.value)
    with pytest.raises(DataError, match="Is a directory"):
        read_rows(tmp_path)


@pytest.mark.parametrize("content", ["", "\n", " \n\t\n"])
def test_a_file_without_rows_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "d.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="no rows"):
        read_rows(tmp_path / "d.jsonl")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("{", "Expecting property name"),
        ('{"a": 1} {"a": 1}', "Extra data"),
        ("[1]", "a JSON list"),
        ("null", "a JSON NoneType"),
        ('{"a": 1, "a": 2}', "keys that appear twice: a"),
        ('{"a": NaN}', "NaN is not JSON"),
    ],
)
def test_what_is_not_one_object_is_refused_with_its_line(
    tmp_path: Path, line: str, found: str
) -> None:
    with pytest.raises(DataError, match=found) as caught:
        read_rows(write(tmp_path / "d.jsonl", json.dumps(GOOD), line))
    assert "line 2" in caught.value.asked


def test_broken_utf8_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_bytes(json.dumps(GOOD).encode() + b'\n{"a": "\xff"}\n')
    with pytest.raises(DataError, match="line 2"):
        read_rows(tmp_path / "d.jsonl")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("expected_answer", ...),
        ("expected_answer", ""),
        ("expected_answer", "  "),
        ("expected_answer", 4),
        ("expected_answer", None),
        ("question", ...),
        ("responses_create_params", ...),
        ("responses_create_params", {}),
        ("responses_create_params", {"input": []}),
        ("responses_create_params", "x"),
        ("agent_ref", ...),
        ("agent_ref", {"type": "responses_api_agents"}),
        ("agent_ref", {"name": 3}),
    ],
)
def test_a_row_that_cannot_be_verified_is_refused_with_its_line(
    tmp_path: Path, key: str, value: Any
) -> None:
    row = {name: content for name, content in GOOD.items() if name != key}
    if value is not ...:
        row[key] = value
    with pytest.raises(DataError) as caught:
        read_rows(write(tmp_path / "d.jsonl", json.dumps(GOOD), json.dumps(row)))
    assert "line 2" in caught.value.asked
    assert key in caught.value.asked
    assert key in caught.value.found
