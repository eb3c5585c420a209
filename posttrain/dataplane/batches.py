"""Rows as TransferQueue takes them: columns of rows that have the same fields."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from tensordict import TensorDict

from posttrain.dataplane.values import from_wire, to_wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posttrain.dataplane.plane import Row, Value
    from posttrain.dataplane.values import Kind

SERIAL = "_serial"  # the column that tells a row from another one that had its index before


class Batch(NamedTuple):
    """Rows that have the same fields, column by column."""

    serials: list[int]
    columns: dict[str, list[np.ndarray]]  # field to one array a row, one-dimensional


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


def to_tensors(batch: Batch) -> TensorDict:
    """Lay a batch out for TransferQueue.

    Several rows always as nested tensors, also where all have one length: a unit then keeps each
    row in a buffer of its own, which goes when the row is freed. One row alone has that anyway, and
    nested tensors would be most of the cost of its put.
    """
    columns = {field: _column(arrays) for field, arrays in batch.columns.items()}
    columns[SERIAL] = torch.tensor(batch.serials, dtype=torch.int64).reshape(-1, 1)
    return TensorDict(columns, batch_size=[len(batch.serials)])


def _column(arrays: Sequence[np.ndarray]) -> torch.Tensor:
    tensors = [torch.from_numpy(np.require(array, requirements=["C", "W"])) for array in arrays]
    if len(tensors) == 1:
        return tensors[0].unsqueeze(0)
    return torch.nested.as_nested_tensor(tensors, layout=torch.jagged)


def from_tensors(read: TensorDict, rows: int, fields: Sequence[str]) -> Batch:
    """Return a batch of what TransferQueue read.

    Raises:
        RuntimeError: other than one value a row and field came back: the library drops what it
            does not find.
    """
    columns: dict[str, list[np.ndarray]] = {}
    for field in (SERIAL, *fields):
        tensors = read[field].unbind() if field in read else ()
        if len(tensors) != rows:
            msg = f"{len(tensors)} values of {field!r} came back for {rows} rows"
            raise RuntimeError(msg)
        columns[field] = [tensor.numpy() for tensor in tensors]
    return Batch([int(serial[0]) for serial in columns.pop(SERIAL)], columns)
