"""Values on their way to storage units or from them, for one thread that waits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from posttrain.dataplane.batches import SERIAL, Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from posttrain.dataplane.connections import Call


class Part(NamedTuple):
    """What one unit has of rows that have the same fields.

    Attributes:
        unit: its id.
        indexes: of the rows that it has.
        rows: their places among all rows.
        call: what was asked of it.
    """

    unit: str
    indexes: list[int]
    rows: list[int]
    call: Call


class Writing:
    """Rows that are being stored, all or none.

    Args:
        parts: of the rows.
        undo: is given the parts when this is given up, or a unit refused one.
    """

    def __init__(self, parts: Sequence[Part], undo: Callable[[Sequence[Part]], None]) -> None:
        self._parts = parts
        self._undo = undo

    def wait(self, seconds: float) -> bool:
        """Whether all units have answered, after so many seconds at most."""
        return _answered(self._parts, seconds)

    def result(self) -> None:
        """Nothing, when all units have their rows.

        Raises:
            RuntimeError: a unit refused them.
        """
        for part in self._parts:
            part.call.result()

    def give_up(self) -> None:
        """Have what was stored, or will be, freed."""
        self._undo(self._parts)


class Reading:
    """Rows that are being read.

    Args:
        parts: of the rows.
        count: of the rows.
        fields: that are read.
    """

    def __init__(self, parts: Sequence[Part], count: int, fields: Sequence[str]) -> None:
        self._parts = parts
        self._count = count
        self._fields = fields

    def wait(self, seconds: float) -> bool:
        """Whether all units have answered, after so many seconds at most."""
        return _answered(self._parts, seconds)

    def result(self) -> Batch:
        """The rows, in the order in which they were asked for.

        Raises:
            StorageKeyNotFoundError: a unit has nothing under one of the indexes.
            RuntimeError: a unit's own error, or not every value came back.
        """
        columns: dict[str, list[Any]] = {
            field: [None] * self._count for field in (SERIAL, *self._fields)
        }
        for part in self._parts:
            found = part.call.result()
            for field, column in columns.items():
                if len(found[field]) != len(part.rows):
                    msg = f"{part.unit} gave {len(found[field])} {field!r} of {len(part.rows)}"
                    raise RuntimeError(msg)
                for row, value in zip(part.rows, found[field], strict=True):
                    column[row] = value
        return Batch(columns.pop(SERIAL), columns)

    def give_up(self) -> None:
        """Wait for no unit any more."""
        for part in self._parts:
            part.call.drop()


def _answered(parts: Sequence[Part], seconds: float) -> bool:
    end = time.monotonic() + seconds
    return all(part.call.wait(max(0.0, end - time.monotonic())) for part in parts)
