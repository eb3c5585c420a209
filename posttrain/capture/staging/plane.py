"""Staged calls on a data plane: one row for each.

Threads that stage or fetch at the same time share the plane's calls. A put is four messages to
other processes whether it is of one row or of sixteen, and under load it is these that take time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from posttrain.capture.errors import EvictedRecordError, MissingRecordError
from posttrain.capture.settings import PARTITION
from posttrain.capture.staging.rows import FIELDS
from posttrain.capture.staging.store import Store, missing
from posttrain.capture.staging.together import Together
from posttrain.dataplane import (
    DeadControllerError,
    DeadUnitError,
    DuplicateKeyError,
    EvictedError,
    MissingKeyError,
    PlaneError,
    PlaneTimeoutError,
    UnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from posttrain.dataplane import DataPlane, Row

T = TypeVar("T")
R = TypeVar("R")
MOST = 64  # calls in one of the plane's


class Asked(NamedTuple):
    """What one thread wants to read."""

    keys: tuple[str, ...]
    fields: tuple[str, ...]


def _each(call: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """One after the other; whoever comes after one that the plane was late with is not tried."""
    results: list[R] = []
    for item in items:
        late = bool(results) and isinstance(results[-1], PlaneTimeoutError | DeadControllerError)
        results.append(results[-1] if late else call(item))
    return results


class PlaneStore(Store):
    """A partition of a data plane; a row's id is the call's key.

    Args:
        plane: connected; stays the caller's unless it is ``owned``.
        partition: registered here with the fields of a staged call.
        owned: close the plane with the store.

    Attributes:
        puts: the plane's, shared by threads that stage.
        gets: the plane's, shared by threads that fetch.
    """

    def __init__(
        self, plane: DataPlane, partition: str = PARTITION, *, owned: bool = False
    ) -> None:
        self._plane = plane
        self._partition = partition
        self._owned = owned
        plane.register(partition, FIELDS)
        self.puts = Together(self._put_all, MOST)
        self.gets = Together(self._get_all, MOST)

    def _insert(self, key: str, row: Row) -> bool:
        return self.puts((key, row))

    def _find(self, keys: Sequence[str], fields: Sequence[str]) -> Mapping[str, Row]:
        return self.gets(Asked(tuple(keys), tuple(fields)))

    def _put_all(self, rows: Sequence[tuple[str, Row]]) -> list[bool | Exception]:
        if len(rows) == 1:
            return [self._put_one(*rows[0])]
        together = dict(rows)
        if len(together) == len(rows):
            try:
                self._plane.put(self._partition, together)
            except UnavailableError:
                raise
            except PlaneError:
                # Nothing was put. Which row it was about shows when each comes alone.
                pass
            else:
                return [True] * len(rows)
        return _each(lambda item: self._put_one(*item), rows)

    def _put_one(self, key: str, row: Row) -> bool | Exception:
        try:
            self._plane.put(self._partition, {key: row})
        except DuplicateKeyError:
            return False
        except PlaneError as error:
            return error
        return True

    def _get_all(self, asked: Sequence[Asked]) -> list[Mapping[str, Row] | Exception]:
        if len(asked) == 1:
            return [self._get_one(asked[0])]
        fields = asked[0].fields
        if all(each.fields == fields for each in asked):
            keys = list(dict.fromkeys(key for each in asked for key in each.keys))
            try:
                rows = self._plane.get(self._partition, keys, fields)
            except (PlaneTimeoutError, DeadUnitError, DeadControllerError):
                raise
            except PlaneError:
                # Of one row, of which the others know nothing.
                pass
            else:
                found = dict(zip(keys, rows, strict=True))
                return [{key: found[key] for key in each.keys} for each in asked]
        return _each(self._get_one, asked)

    def _get_one(self, asked: Asked) -> Mapping[str, Row] | Exception:
        keys, fields = asked
        try:
            return dict(zip(keys, self._plane.get(self._partition, keys, fields), strict=True))
        except (MissingKeyError, EvictedError) as error:
            return self._named(keys, error)
        except PlaneError as error:
            return error

    def _named(
        self, keys: Sequence[str], error: MissingKeyError | EvictedError
    ) -> MissingRecordError | PlaneError:
        """An error with all the keys that it is about: the plane names the one it met first."""
        try:
            there = self._plane.check(self._partition, keys)
        except PlaneError as other:
            return other
        gone = [key for key in keys if not there[key]] or keys
        kind = EvictedRecordError if isinstance(error, EvictedError) else MissingRecordError
        named = missing(gone, kind)
        named.__cause__ = error
        return named

    def _delete(self, keys: Sequence[str]) -> None:
        # A call that is given up may still be on its way here.
        self._plane.clear(self._partition, keys, unknown=True)

    def close(self) -> None:
        """Close the plane when it belongs to the store."""
        if self._owned:
            self._plane.close()
