"""Files of results: a reader sees the old text or the new one, never a part, or an error."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def write_text(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` (UTF-8) in one step; on failure the old file stays.

    Raises:
        HarnessError: when the disk is full or the folder cannot be written to.
    """
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise HarnessError(
            f"write {path}",
            f"{error.strerror or error}",
            "make room or give another runs folder; what was written before is intact",
        ) from error


def write_json(path: Path, data: Any) -> None:
    """Replace ``path`` by ``data`` as readable JSON in one step."""
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path, make: Callable[[Any], T], todo: str, asked: str = "read") -> T:
    """Read what was written as JSON.

    Args:
        path: the file.
        make: makes the result of the parsed text; whatever it does not find there is an error.
        todo: what to do about a file that is none of these.
        asked: what is wanted with it.

    Raises:
        HarnessError: the file is not there, or holds something else.
    """
    try:
        return make(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise HarnessError(f"{asked} {path}", f"{type(error).__name__}: {error}", todo) from error
