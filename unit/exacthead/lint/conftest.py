"""Small broken repositories, and the rules that are to find what is wrong with them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.config import load
from exacthead.lint.check import without_tools
from exacthead.lint.sources import Sources
from exacthead.lint.tools import Tools

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.lint.finding import Finding
    from unit.exacthead.conftest import Repository

    Found = Callable[[str], list[Finding]]


@pytest.fixture
def found(small_repository: Repository) -> Found:
    """A function that runs one check of the small repository, as it is by then."""

    def check(name: str) -> list[Finding]:
        harness = load(small_repository.root)
        sources = Sources.of(harness)
        # This worker has the tools, as the one that harness.toml names for them.
        tools = Tools(harness, sources, Path(sys.executable))
        return {**without_tools(harness, sources), **tools.checks()}[name]()

    return check
