"""Inside: where an item runs when that is not this machine itself, as far as a run must know it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import IO

    from exacthead.runs.order import Order


class Running(Protocol):
    """A supervisor that was started there."""

    @property
    def stdin(self) -> IO[bytes] | None:
        """Takes the order; its end is the word to end."""

    @property
    def stdout(self) -> IO[bytes] | None:
        """Gives the facts."""

    def lost(self) -> str:
        """Why it gave none; asked when the output has ended without them."""


class Inside(Protocol):
    """A place with file names and an environment of its own."""

    @property
    def private(self) -> Path:
        """Where the item's temporary files lie, as the place names it; made there."""

    @property
    def inherited(self) -> Mapping[str, str]:
        """The variables that stand for this machine's."""

    def describe(self) -> dict[str, str]:
        """What it is, for the request's file."""

    def seen(self, path: Path, folder: Path) -> Path:
        """A path of this machine as the place names it; ``folder`` is the item's."""

    def start(self, order: Order, folder: Path) -> AbstractContextManager[Running]:
        """Start a supervisor there, for an item with that folder."""
