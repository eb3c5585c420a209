"""A problem that a section's own check finds, placed at a key of it."""

from __future__ import annotations

from pydantic_core import PydanticCustomError


def wrong(key: str, message: str) -> PydanticCustomError:
    """The error to raise in a validator.

    Args:
        key: the key at fault, relative to the section that checks; dots lead into its sections.
        message: what is wrong with its value and what to give instead; the value itself and where
            it came from are added by the loader.
    """
    return PydanticCustomError("recipe", "{message}", {"key": key, "message": message})


def ignored(by: str, honoured_by: str, give: str) -> str:
    """The message for a value that nothing would read."""
    return f"{by} would ignore it; honoured by {honoured_by}; give {give}"
