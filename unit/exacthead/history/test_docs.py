"""docs/history.md names every table, column, class and key that there is."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from exacthead.classes.rules import Rule
from exacthead.history.schema import APPLICATION, STEPS, VERSION
from exacthead.report.model import Class

TEXT = (Path(__file__).parents[3] / "docs" / "history.md").read_text(encoding="utf-8")
# Keys of rows, which need no words.
KEYS = {"id", "run", "item", "test", "metric"}


def columns() -> list[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for step in STEPS:
            connection.executescript(step)
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        ).fetchall()
        return [
            (table, column)
            for (table,) in tables
            for _, column, *_ in connection.execute(f"PRAGMA table_info({table})")
        ]


@pytest.mark.parametrize(("table", "column"), columns())
def test_every_column_is_described_with_its_table(table: str, column: str) -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("|") and f"`{table}`" in line]
    assert rows, table
    # The name of a metric is what its table is for.
    assert column in KEYS or any(f"`{column}`" in row for row in rows) or table == "metric"


def test_version_and_mark_are_those_of_the_code() -> None:
    assert f"application_id` is {hex(APPLICATION).replace('0X', '0x')}" in TEXT
    assert f"the version, {VERSION} at present" in TEXT


@pytest.mark.parametrize("name", [*map(str, Class)])
def test_every_class_is_named(name: str) -> None:
    assert f"`{name}`" in TEXT


@pytest.mark.parametrize("key", [field.alias or name for name, field in Rule.model_fields.items()])
def test_every_key_of_a_rule_is_described(key: str) -> None:
    assert re.search(rf"(?m)^\| `{key}` \|", TEXT)
