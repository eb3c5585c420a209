from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.lint.finding import Finding
    from unit.exacthead.conftest import Repository


@pytest.mark.parametrize(
    ("name", "text", "line", "rule", "words"),
    [
        ("a.toml", "x = 1\ny = \n", 2, "toml", "Invalid value"),
        ("a.toml", "x = 1\nx = 2\n", 2, "toml", "Cannot overwrite a value"),
        ("a.toml", 'x = """\n\n', 3, "toml", "Unterminated string"),
        ("a.json", '{"a": 1,\n "b": }\n', 2, "json", "Expecting value"),
        ("a.json", '{"a": 1, "a": 2}', 0, "json", "one object has 'a' more than once"),
        ("a.json", "", 1, "json", "Expecting value"),
        ("a.jsonl", '{"a": 1}\n\n{"a": 2}\n', 2, "jsonl", "Expecting value"),
        ("a.jsonl", '{"a": 1}\n{"a": 2} 3\n', 2, "jsonl", "Extra data"),
        ("a.jsonl", '{}\n{"a": 1, "a": 2}\n', 2, "jsonl", "one object has 'a' more than once"),
        ("a.JSON", "[" * 100_000, 0, "json", "maximum recursion depth exceeded"),
    ],
)
def test_a_file_that_does_not_parse_is_found_at_its_line(  # noqa: PLR0917 - a case's columns
    small_repository: Repository,
    found: Callable[[str], list[Finding]],
    name: str,
    text: str,
    line: int,
    rule: str,
    words: str,
) -> None:
    small_repository.write({f"data/{name}": text})

    (finding,) = found("toml, json")

    assert (finding.path, finding.line, finding.rule) == (f"data/{name}", line, rule)
    assert words in finding.found
    assert finding.fix == "mend its syntax"


def test_what_parses_is_none(
    small_repository: Repository, found: Callable[[str], list[Finding]]
) -> None:
    small_repository.write(
        {
            "a.toml": 'x = "1"\r\n',
            "a.json": '{"a": {"b": 1}, "c": {"b": 2}}',
            "a.jsonl": '{"a": 1}\r\n[]\r\n1',
            "empty.jsonl": "",
        }
    )

    assert found("toml, json") == []


def test_a_byte_that_is_no_utf_8_is_named(
    small_repository: Repository, found: Callable[[str], list[Finding]]
) -> None:
    (small_repository.root / "a.toml").write_bytes(b'x = 1\ny = "\xe9"\n')

    (finding,) = found("toml, json")

    assert (finding.line, finding.found) == (2, "byte 0xe9 is no UTF-8")
