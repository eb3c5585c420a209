"""Rows as TransferQueue takes them: columns of rows that have the same fields."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from posttrain.dataplane.values import from_wire, to_wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posttrain.dataplane.plane import Row, Value
    from posttrain.dataplane.values import Kind

SERIAL = "_serial"  # the column that tells a row from another one that had its index before


class Batch(NamedTuple):
    """Rows that have the same fields, column by column."""

    serials: list[int]
    columns: dict[str, list[bytes]]  # field to one value a row, as `to_wire` gives it


def batches(
    rows: Mapping[str, Row], kinds: Mapping[str, Mapping[str, Kind]], serials: Mapping[str, int]
) -> list[tuple[list[str], Batch]]:
    """Group rows by their fields: the ids of each group, and its batch."""
    alike: dict[frozenset[str], list[str]] = defaultdict(list)
    for key, row in rows.items():
        alike[frozenset(row)].append(key)
    return [
        (
            keys,
            Batch(
                [serials[key] for key in keys],
                {
                    field: [to_wire(rows[key][field], kinds[key][field]) for key in keys]
                    for field in sorted(fields)
                },
            ),
        )
        for fields, keys in alike.items()
    ]


def rows_of(
    batch: Batch, fields: Sequence[str], kinds: Mapping[str, Kind]
) -> list[dict[str, Value]]:
    """Return a batch's rows, in memory of their own."""
    return [
        {field: from_wire(batch.columns[field][row], kinds[field]) for field in fields}
        for row in range(len(batch.serials))
    ]
