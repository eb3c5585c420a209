"""What TransferQueue's controller is told of rows that are there, behind the puts and not in them.

The controller keeps a status of each row. A plane's readers ask the ledger instead, so no put has
to wait for it; but a row can only be cleared once its status exists. While one notice is under way
the rows of all puts that end meanwhile gather for the next.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

# The controller's own form of a field of which it knows nothing but the name.
_FIELD = {"dtype": None, "shape": None, "is_nested": False, "is_non_tensor": False}


class Notices:
    """Of one client; belongs to its event loop.

    Args:
        tell: TransferQueue's own notice: partition, indexes, fields.
    """

    def __init__(
        self, tell: Callable[[str, list[int], dict[str, dict[str, Any]]], Awaitable[None]]
    ) -> None:
        self._tell = tell
        self._waiting: dict[tuple[str, frozenset[str]], list[int]] = defaultdict(list)
        self._telling: asyncio.Task[None] | None = None

    async def add(self, partition: str, indexes: Sequence[int], fields: Collection[str]) -> None:
        """Have the controller told of rows; does not wait for it."""
        self._waiting[partition, frozenset(fields)] += indexes
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell_all())

    async def told(self) -> None:
        """Wait until the controller knows of all rows that were added so far.

        Raises:
            Exception: what ``tell`` raised; it is tried again with the next row or call.
        """
        while self._telling is not None or self._waiting:
            if self._telling is None or self._telling.done():
                self._telling = asyncio.create_task(self._tell_all())
            # One call that is given up must not take the others' notices with it.
            await asyncio.shield(self._telling)

    async def _tell_all(self) -> None:
        try:
            while self._waiting:
                (partition, fields), indexes = self._waiting.popitem()
                try:
                    await self._tell(partition, indexes, {field: {**_FIELD} for field in fields})
                except BaseException:
                    self._waiting[partition, fields] += indexes
                    raise
        finally:
            self._telling = None
