"""How a check says that an implementation does not do what it must."""

from __future__ import annotations


class Failed(AssertionError):  # noqa: N818 - it is what a check found, not a fault of the suite
    """One requirement is not met; the text says which, and what was seen instead."""


def require(condition: bool, text: str) -> None:
    """Raise :class:`Failed` unless the condition holds."""
    if not condition:
        raise Failed(text)
