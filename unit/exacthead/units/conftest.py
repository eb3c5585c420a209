from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from unit.exacthead.units.small import Suite

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


@pytest.fixture
def suite(tmp_path: Path) -> Callable[[Mapping[str, str]], Suite]:
    """A function that writes a suite's files."""
    return Suite(tmp_path).write
