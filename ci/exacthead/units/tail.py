"""Following a file of JSON lines that others append to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_IDS = frozenset({"test", "file", "nodeids", "tests"})


class Tail:
    """Events from a file; it may not exist yet, and its last line may be torn.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def read(self) -> list[dict[str, Any]]:
        """The events that have been added since the last call; whole lines only."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [event for event in map(_event, lines) if event is not None]

    @property
    def torn(self) -> bool:
        """Whether the last line was begun and not ended."""
        return bool(self._rest)


def _event(line: bytes) -> dict[str, Any] | None:
    """One event; None for a line that is none: a test may write into any file."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    if not (isinstance(event, dict) and isinstance(event.get("event"), str)):
        return None
    return _writable(event) if b"\\ud" in line else event


def _writable(event: dict[str, Any]) -> dict[str, Any]:
    """The event with half surrogates spelt out, which no file and no terminal takes.

    Ids stay as they are: they must be found again.
    """
    return {name: value if name in _IDS else _spelt(value) for name, value in event.items()}


def _spelt(value: Any) -> Any:
    if isinstance(value, dict):
        return {_spelt(name): _spelt(each) for name, each in value.items()}
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value
