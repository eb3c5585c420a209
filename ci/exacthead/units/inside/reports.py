"""What a report of pytest says, in one line and at length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

_LONGEST = 400


def one_line(text: str) -> str:
    """The first line that says something, cut to 400 characters."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a report is not a pass, in one line; never empty."""
    longrepr: Any = report.longrepr
    if isinstance(longrepr, tuple):  # of a skip: path, line, reason
        said = str(longrepr[2])
        return one_line(said.removeprefix("Skipped: ")) or "skipped"
    message = getattr(getattr(longrepr, "reprcrash", None), "message", None)
    if message and one_line(str(message)):
        return one_line(str(message))
    lines = [line for line in str(longrepr or "").splitlines() if line.strip()]
    errors = [line[1:] for line in lines if line.startswith("E  ")]
    return one_line((errors or lines or ["no reason given"])[-1])


def text_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The traceback; empty for a skip, whose reason says all."""
    return "" if isinstance(report.longrepr, tuple) else str(report.longrepr or "")
