"""Watching a run: who is told of items that begin, write and end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from exacthead.runs.result import ItemResult


class Watch(Protocol):
    """Is told of items, from several threads."""

    def begin(self, item_id: str) -> None:
        """An item is started."""

    def write(self, item_id: str, text: str) -> None:
        """What its log grew by, as a terminal may show it."""

    def end(self, result: ItemResult) -> None:
        """It has its result; one that never began has only that."""


class Nobody:
    """Shows nothing."""

    def begin(self, item_id: str) -> None:
        """Pass it over."""

    def write(self, item_id: str, text: str) -> None:
        """Pass it over."""

    def end(self, result: ItemResult) -> None:
        """Pass it over."""
