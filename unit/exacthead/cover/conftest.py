from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from unit.exacthead.cover.measuring import Item, make_checkout

if TYPE_CHECKING:
    from pathlib import Path

# Each function of ``work`` is one line of proof that a process was counted.
WORK = """\
def one():
    return 1


def two():
    return 2


def three():
    return 3
"""
ONE, TWO, THREE = 2, 6, 10


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return make_checkout(tmp_path / "checkout", {"work.py": WORK, "idle.py": "x = 1\n"})


@pytest.fixture
def item(tmp_path: Path, checkout: Path) -> Item:
    return Item(checkout, tmp_path / "item")
