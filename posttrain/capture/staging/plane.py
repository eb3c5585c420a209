"""Staged calls on a data plane: one row for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posttrain.capture.errors import EvictedRecordError, MissingRecordError
from posttrain.capture.settings import PARTITION
from posttrain.capture.staging.rows import FIELDS
from posttrain.capture.staging.store import Store, missing
from posttrain.dataplane import DuplicateKeyError, EvictedError, MissingKeyError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from posttrain.dataplane import DataPlane, Row


class PlaneStore(Store):
    """A partition of a data plane; a row's id is the call's key.

    Args:
        plane: connected; stays the caller's unless it is ``owned``.
        partition: registered here with the fields of a staged call.
        owned: close the plane with the store.
    """

    def __init__(
        self, plane: DataPlane, partition: str = PARTITION, *, owned: bool = False
    ) -> None:
        self._plane = plane
        self._partition = partition
        self._owned = owned
        plane.register(partition, FIELDS)

    def _insert(self, key: str, row: Row) -> bool:
        try:
            self._plane.put(self._partition, {key: row})
        except DuplicateKeyError:
            return False
        return True

    def _find(self, keys: Sequence[str], fields: Sequence[str]) -> Mapping[str, Row]:
        try:
            found = self._plane.get(self._partition, keys, fields)
        except (MissingKeyError, EvictedError) as error:
            # The plane names what it met first; whoever asked wants to know of all.
            there = self._plane.check(self._partition, keys)
            gone = [key for key in keys if not there[key]] or keys
            kind = EvictedRecordError if isinstance(error, EvictedError) else MissingRecordError
            raise missing(gone, kind) from error
        return dict(zip(keys, found, strict=True))

    def _delete(self, keys: Sequence[str]) -> None:
        # A call that is given up may still be on its way here.
        self._plane.clear(self._partition, keys, unknown=True)

    def close(self) -> None:
        """Close the plane when it belongs to the store."""
        if self._owned:
            self._plane.close()
