"""docs/harness.md names every key that harness.toml can hold, and every command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.cli import main
from exacthead.config import Harness
from exacthead.images.tables import Base, Image
from exacthead.tables import (
    Ci,
    Coverage,
    FlavourRequirements,
    Job,
    Leg,
    Lint,
    Project,
    Runner,
    Secrets,
    Suite,
    Table,
    Worker,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = (Path(__file__).parents[2] / "docs" / "harness.md").read_text(encoding="utf-8")
# Where each table is described: from its heading to the next.
SECTIONS = {
    Project: "`[project]`",
    Ci: "`[ci]`",
    Lint: "`[lint]`",
    Coverage: "`[coverage]`",
    Secrets: "`[secrets]`",
    Worker: "`[workers.NAME]`",
    FlavourRequirements: "`[workers.NAME]`",
    Suite: "`[suites.NAME]`",
    Job: "`[jobs.NAME]`",
    Leg: "`[jobs.NAME]`",
    Runner: "`[runners.NAME]`",
    Base: "`[bases.NAME]`",
    Image: "`[images.NAME]`",
}


def section(heading: str) -> str:
    found = re.search(rf"(?ms)^## {re.escape(heading)}$(.*?)(?=^## |\Z)", TEXT)
    assert found, heading
    return found[1]


def keys() -> Iterator[tuple[type[Table], str]]:
    return ((table, name) for table in SECTIONS for name in table.model_fields)


@pytest.mark.parametrize(("table", "key"), list(keys()))
def test_every_key_is_documented_in_its_section(table: type[Table], key: str) -> None:
    first_cells = re.findall(r"(?m)^\| ([^|]+) \|", section(SECTIONS[table]))

    assert any(f"`{key}`" in cell for cell in first_cells)


def test_every_table_has_a_section() -> None:
    for name in set(Harness.model_fields) - {"root"}:
        assert re.search(rf"(?m)^## `\[{name}(\.NAME)?\]`$", TEXT), name


def test_every_documented_key_exists() -> None:
    known = {name for table in SECTIONS for name in table.model_fields}
    for heading in set(SECTIONS.values()):
        for cell in re.findall(r"(?m)^\| (`[^|]+`) \|", section(heading)):
            for key in re.findall(r"`([a-z_]+)`", cell):
                assert key in known


def test_every_command_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    listed = re.search(r"\{(.+?)\}", capsys.readouterr().out)
    assert listed
    for command in listed[1].split(","):
        assert re.search(rf"`{command}(_<job>| -- RUN(/ITEM)?)?`", TEXT), command
