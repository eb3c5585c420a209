"""The tools that write and judge coverage reports, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from exacthead.environ import clean_environment
from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def run_tool(
    module: str, arguments: Sequence[str], root: Path, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m module`` of the harness's own environment in the checkout.

    Args:
        module: the tool.
        arguments: of its command line.
        root: the checkout, to which the tool's paths are relative.
        timeout_s: seconds after which it is killed.

    Returns:
        Its exit code, which is for the caller to judge, and what it said.

    Raises:
        HarnessError: it did not end in time.
    """
    try:
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=root,
            env=clean_environment(os.environ) | {"PYTHONSAFEPATH": "1"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise HarnessError(
            f"a report by {module} within {timeout_s:g} s",
            f"it had not ended; it said: {_text(error.stderr)[-500:] or 'nothing'}",
            "the run's coverage data are intact: try again on a machine with less load",
        ) from error


def _text(said: bytes | str | None) -> str:
    # The exception holds bytes even of a process that was read as text.
    return said.decode(errors="replace") if isinstance(said, bytes) else said or ""
