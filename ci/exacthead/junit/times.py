"""Times as JUnit writers of all kinds give them, as exact whole microseconds."""

from __future__ import annotations

import math
import re

_NUMBER = re.compile(r"\+?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(\.\d+)?", re.ASCII)
_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d{1,2}(?:\.\d+)?)", re.ASCII)
_PLAIN = re.compile(r"\d{1,12}(\.\d{1,12})?", re.ASCII)
# Longer than the universe is old, in seconds: no time that anything took.
_TOO_LONG = 1e18


def seconds(text: str) -> float | None:
    """A time as some JUnit writer wrote it: ``1.5``, ``1e3``, ``1,234.5``, ``0:00:00.69``.

    Returns:
        Seconds, rounded to microseconds; None for what is no finite time from 0 on.
    """
    whole = microseconds(text)
    return None if whole is None else whole / 1_000_000


def microseconds(text: str) -> int | None:
    """The same in whole microseconds, whose sums do not depend on their order."""
    if (plain := plain_microseconds(text)) is not None:
        return plain
    text = text.strip()
    if _NUMBER.fullmatch(text):
        value = float(text)
    elif clock := _CLOCK.fullmatch(text):
        hours, minutes, rest = clock.groups()
        value = float(hours or 0) * 3600 + float(minutes) * 60 + float(rest)
    elif _THOUSANDS.fullmatch(text):
        value = float(text.replace(",", ""))
    else:
        return None
    return round(value * 1_000_000) if value < _TOO_LONG else None


def plain_microseconds(text: str) -> int | None:
    """The same of a time that every reader understands as it stands; None for any other text."""
    return round(float(text) * 1_000_000) if _PLAIN.fullmatch(text) else None


def is_time(value: float) -> bool:
    """Whether ``value``, in seconds, is finite and not negative."""
    return math.isfinite(value) and value >= 0
