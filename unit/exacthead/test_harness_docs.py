"""The guides name every key that harness.toml can hold, every command and every option."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.cli import _parser, main
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
    Recipes,
    Runner,
    Secrets,
    Suite,
    Table,
    Trust,
    Worker,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "harness.md").read_text(encoding="utf-8")
# Where the options of each command are described.
PAGES = {
    "functional": ("harness", "images"),
    "unit": ("units", "harness", "images"),
    "impact": ("impact", "harness"),
    "record": ("units", "harness"),
    "reproduce": ("harness",),
    "workers": ("workers", "harness"),
    "images": ("images",),
    "lock": ("workers", "harness"),
    "lint": ("lint",),
    "init": ("foreign",),
    "plan": ("plan", "harness", "images"),
    "run": ("plan", "harness", "images"),
    "merge": ("workflows", "harness"),
    "retry": ("workflows", "harness"),
    "dashboard": ("report",),
    "workflows": ("workflows",),
}
# Where each table is described: from its heading to the next.
SECTIONS = {
    Project: "`[project]`",
    Ci: "`[ci]`",
    Lint: "`[lint]`",
    Recipes: "`[recipes]`",
    Trust: "`[trust]`",
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


def options() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each command with the spellings of each of its options."""
    (commands,) = (each for each in _parser()._actions if each.dest == "command")
    assert isinstance(commands.choices, dict)
    for command, parser in commands.choices.items():
        assert isinstance(parser, argparse.ArgumentParser)
        for action in parser._actions:
            if action.option_strings and action.dest != "help":
                yield command, tuple(action.option_strings)


def described(command: str, names: tuple[str, ...]) -> bool:
    """Whether a page of the command has an option in text that is set as code."""
    pages = [(DOCS / f"{page}.md").read_text(encoding="utf-8") for page in PAGES[command]]
    spelt = "|".join(map(re.escape, names))
    asked = re.compile(rf"(?<![\w-])(?:{spelt})(?![\w-])")
    code = re.compile(r"(?s)```.*?```|`[^`\n]+`")
    return any(asked.search(span) for page in pages for span in code.findall(page))


@pytest.mark.parametrize(("command", "names"), list(options()))
def test_every_option_is_documented(command: str, names: tuple[str, ...]) -> None:
    assert described(command, names), f"{PAGES[command]} say nothing of {names}"


def test_an_option_that_is_nowhere_is_missed() -> None:
    assert not described("unit", ("--lock",))
    assert described("unit", ("-j", "--processes"))
