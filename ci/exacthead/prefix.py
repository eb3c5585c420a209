"""Logs of items on one terminal as they grow: whole lines, each with its item's name."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from exacthead.terminal import may_be_lost

if TYPE_CHECKING:
    from typing import TextIO

    from exacthead.runs.result import ItemResult


# A line that has grown longer is shown as it is.
_LONGEST = 1 << 16


class Prefixed:
    """Writes what logs grow by to ``target``; a line shows once it is whole. Thread-safe."""

    def __init__(self, target: TextIO) -> None:
        self._target = target
        self._begun: dict[str, str] = {}
        self._lock = Lock()

    def begin(self, item_id: str) -> None:
        """An item begins; its first line says so soon enough."""

    def write(self, item_id: str, text: str) -> None:
        """Take what the log of an item grew by."""
        with self._lock:
            *lines, rest = (self._begun.get(item_id, "") + text).split("\n")
            if len(rest) > _LONGEST:
                lines, rest = [*lines, rest], ""
            self._begun[item_id] = rest
            self._show(item_id, lines)

    def end(self, result: ItemResult) -> None:
        """Show the last line of an item that has ended, if it has no line end."""
        with self._lock:
            rest = self._begun.pop(result.item_id, "")
            self._show(result.item_id, [rest] if rest else [])

    def _show(self, item_id: str, lines: list[str]) -> None:
        with may_be_lost():
            self._target.write("".join(f"{item_id} | {line}\n" for line in lines))
            self._target.flush()
