from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from unit.exacthead.triage.making import Runs

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """Run folders of a history, which is empty at first."""
    return Runs(tmp_path / "runs")
