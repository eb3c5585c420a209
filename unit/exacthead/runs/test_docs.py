from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from exacthead.runs import isolation
from exacthead.runs.folder import ItemFolder, State
from exacthead.runs.item import ItemRequest
from exacthead.verdict import Kind

TEXT = (Path(__file__).parents[3] / "docs" / "runs.md").read_text(encoding="utf-8")

VARIABLES = {
    *isolation._FOLDERS,
    *isolation._FIXED,
    *isolation._THREADS,
    *isolation._RESERVED,
}
PATHS = [name for name, found in vars(ItemFolder).items() if isinstance(found, property)]


@pytest.mark.parametrize("name", sorted(VARIABLES))
def test_every_variable_that_an_item_gets_is_documented(name: str) -> None:
    assert f"`{name}`" in TEXT


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(ItemRequest)])
def test_every_field_of_a_request_is_documented(field: str) -> None:
    assert f"| `{field}` |" in TEXT


@pytest.mark.parametrize("state", list(State))
def test_every_state_of_a_run_is_documented(state: State) -> None:
    assert f"| `{state.value}` |" in TEXT


@pytest.mark.parametrize("path", PATHS)
def test_every_path_of_an_items_folder_is_documented(path: str) -> None:
    assert getattr(ItemFolder(Path("item")), path).name in TEXT


@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.SKIPPED}))
def test_every_verdict_that_an_item_can_have_is_documented(kind: Kind) -> None:
    assert f"`{kind.value}`" in TEXT
