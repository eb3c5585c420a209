"""Tools of coverage reports: their exit code is told, and one that hangs is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.cover.tool import run_tool
from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from pathlib import Path


def test_it_runs_in_the_checkout_and_its_exit_code_is_told(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("syntax error\n", encoding="utf-8")

    done = run_tool("py_compile", ["one.py"], tmp_path, 60)

    assert done.returncode == 1
    assert "one.py" in done.stderr


def test_one_that_does_not_end_is_named_with_its_deadline(tmp_path: Path) -> None:
    with pytest.raises(HarnessError) as failure:
        run_tool("http.server", ["--bind", "127.0.0.1", "0"], tmp_path, 1.0)

    assert failure.value.asked == "a report by http.server within 1 s"
    assert "it had not ended" in failure.value.found
