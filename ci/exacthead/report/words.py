"""Numbers and verdicts in the words and marks of the pages."""

from __future__ import annotations

import math
from datetime import datetime
from functools import lru_cache

# A mark for each verdict, so that nothing is told by colour alone; the word stands beside it or is
# read out by a screen reader.
_MARKS = {
    "passed": "✓",
    "failed": "✕",
    "crashed": "!",
    "timed_out": "◔",
    "skipped": "⊘",
    "not_run": "○",
    "quarantined": "◆",
    "interrupted": "‖",
    "abandoned": "?",
    "running": "…",
    "flaky": "≈",
    "n/a": "⊘",
    "incomplete": "?",
}
_TONES = {
    "passed": "good",
    "failed": "bad",
    "crashed": "bad",
    "timed_out": "bad",
    "interrupted": "warn",
    "abandoned": "warn",
    "quarantined": "warn",
    "flaky": "warn",
    "incomplete": "warn",
}
_MINUTE = 60
_HOUR = 3600
_SHORT = 10
_STEP = 1024
_DIGITS = 4


def mark(verdict: str) -> str:
    """The sign of a verdict."""
    return _MARKS.get(verdict, "?")


def tone(verdict: str) -> str:
    """The class of a verdict's colour: ``good``, ``bad``, ``warn`` or ``quiet``."""
    return _TONES.get(verdict, "quiet")


def said(verdict: str) -> str:
    """A verdict as it is read: ``timed out``."""
    return verdict.replace("_", " ")


def seconds(value: float | None) -> str:
    """A duration: ``0.034 s``, ``8.1 s``, ``42 s``, ``6 min 21 s``, ``1 h 04 min``."""
    if value is None or not math.isfinite(value):
        return "unknown"
    if value < 1:
        return f"{value:.3f} s"
    if value < _SHORT:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02d} s"
    minutes = round(value / _MINUTE)
    return f"{minutes // _MINUTE} h {minutes % _MINUTE:02d} min"


def size(value: float) -> str:
    """A number of bytes: ``812 B``, ``1.4 MiB``."""
    if value < _STEP:
        return f"{value:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        value /= _STEP
        if value < _STEP or unit == "GiB":
            break
    return f"{value:.1f} {unit}"


def number(value: object) -> str:
    """A measured value in few digits; whatever is no finite number as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return str(value)
    return str(value) if isinstance(value, int) else f"{value:.{_DIGITS}g}"


def plural(count: int, noun: str, several: str = "") -> str:
    """A count with its noun: ``1 test``, ``2 tests``."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


@lru_cache(maxsize=4096)
def moment(stamp: str) -> str:
    """An ISO 8601 moment, to the minute: ``2026-11-29 21:37 UTC``; other text as it is."""
    try:
        when = datetime.fromisoformat(stamp)
    except ValueError:
        return stamp
    return f"{when:%Y-%m-%d %H:%M} UTC"


def clipped(text: str, most: int) -> str:
    """The text, or so many of its characters, half from its start and half from its end."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
