"""Results that an item takes from another one of the same run are no success."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from unit.exacthead.conftest import Repository

SUITE = '\n[suites.take]\npaths = ["unit/take"]\nworker = "plain"\n'
TAKE = """
from pathlib import Path

def test_take():
    (path,) = Path("runs").glob("*/items/unit.sums/junit.xml")
    {how}
"""


@pytest.mark.parametrize("how", ["path.unlink()", "path.write_text(path.read_text()[:99])"])
def test_a_run_whose_earlier_results_are_lost_is_red_and_says_whose(
    small_repository: Repository, how: str
) -> None:
    declared = (small_repository.root / "ci/harness.toml").read_text(encoding="utf-8")
    small_repository.commit(
        {
            "ci/harness.toml": declared + SUITE,
            "unit/take/test_take.py": TAKE.format(how=how),
        }
    )

    code, printed = small_repository.exacthead("unit")

    run = small_repository.run_folder()
    state = json.loads((run / "result.json").read_text(encoding="utf-8"))
    assert code == 1, printed
    assert printed.endswith("1 passed, 1 failed, 0 skipped\n")
    assert state["state"] == "failed"
    assert state["items"] == {"unit.sums": "passed", "unit.take": "passed"}
    lost = "items/unit.sums/junit.xml was written, and cannot be read any more"
    assert lost in (run / "summary.md").read_text(encoding="utf-8")
