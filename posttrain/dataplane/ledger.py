"""The ledger of a data plane: which rows there are, and every rule about them. No values.

Both planes keep one: the rules exist once. A row becomes visible in one step, `publish`, after its
values are in place. Whoever dies in between leaves nothing that anybody can see, and whose rows are
refused takes their values back. The row's serial is written next to its values, so that a reader
can tell a row from another one in the same place.

Not thread-safe: its owner holds a lock, or is an actor that answers one call at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from posttrain.dataplane.errors import (
    CapacityError,
    DuplicateKeyError,
    EvictedError,
    MissingFieldError,
    MissingKeyError,
    PartitionConflictError,
    UnknownFieldError,
    UnknownPartitionError,
    ValueTypeError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from posttrain.dataplane.values import Kind

SHOWN = 5  # names in an error

Item = TypeVar("Item", bound=str)


class Place(NamedTuple):
    """Where a row's values are."""

    serial: int  # of the row; no other row of this plane has it
    slot: int  # TransferQueue's index; another row may get it once this one is cleared


class Entry(NamedTuple):
    """A row that is there."""

    place: Place
    fields: frozenset[str]


class Located(NamedTuple):
    """Where rows are, and what their fields hold."""

    places: list[Place]
    kinds: dict[str, Kind]


@dataclass
class _Partition:
    name: str
    fields: frozenset[str]
    capacity: int | None
    kinds: dict[str, Kind] = field(default_factory=dict)
    rows: dict[str, Entry] = field(default_factory=dict)  # in the order in which they came
    evicted: set[str] = field(default_factory=set)
    # Consumer to the rows that it may still get, in their order; a dict as an ordered set.
    open: dict[str, dict[str, None]] = field(default_factory=dict)


class Ledger:
    """Partitions, their rows and their consumers: see `DataPlane` for what is refused and how."""

    def __init__(self) -> None:
        self._partitions: dict[str, _Partition] = {}

    def register(self, name: str, fields: Sequence[str], capacity: int | None) -> None:
        """Make a partition known: see `DataPlane.register`."""
        asked = f"register partition {name!r} with the fields {_list(fields)}"
        if not _printable(name) or not fields:
            raise PartitionConflictError(
                asked, "an empty or unprintable name, or no fields", "name it and its fields"
            )
        wrong = [each for each in fields if not _printable(each) or each.startswith("_")]
        if wrong or len(set(fields)) != len(fields):
            raise PartitionConflictError(
                asked,
                f"names that cannot be fields: {_list(wrong)}" if wrong else "a field named twice",
                "use printable names without a leading underscore, each once",
            )
        if capacity is not None and (type(capacity) is not int or capacity < 1):
            raise PartitionConflictError(
                asked, f"a capacity of {capacity!r} rows", "give a whole number from 1, or None"
            )
        known = self._partitions.get(name)
        if known is None:
            self._partitions[name] = _Partition(name, frozenset(fields), capacity)
            return
        if known.fields != frozenset(fields) or capacity not in {None, known.capacity}:
            raise PartitionConflictError(
                f"{asked} and capacity {capacity}",
                f"it has the fields {_list(sorted(known.fields))} and capacity {known.capacity}",
                "use one set of fields and one capacity in all processes, or another name",
            )

    def fields(self, name: str) -> frozenset[str]:
        """Fields that a partition was registered with, which never change."""
        return self._partition(name).fields

    def publish(
        self, name: str, rows: Mapping[str, Entry], kinds: Mapping[str, Mapping[str, Kind]]
    ) -> None:
        """Make rows visible whose values are in place, unless others came before them.

        Args:
            name: the partition.
            rows: by id.
            kinds: of the rows' fields; the first kind of a field is fixed.
        """
        partition = self._partition(name)
        fresh: dict[str, Kind] = {}
        for key, row in kinds.items():
            for each, kind in row.items():
                known_field(name, partition.fields, each, f"put row {key!r}")
                fixed = partition.kinds.get(each) or fresh.setdefault(each, kind)
                if kind != fixed:
                    raise ValueTypeError(
                        f"put field {each!r} of row {key!r} into partition {name!r}",
                        f"a value of kind {kind}; this field's are of kind {fixed}",
                        "give one field values of one kind",
                    )
        self._free(partition, rows)
        partition.kinds |= fresh
        partition.rows |= rows
        for waiting in partition.open.values():
            waiting.update(dict.fromkeys(rows))

    def locate(self, name: str, ids: Sequence[str], fields: Sequence[str]) -> Located:
        """Find rows that have all the fields, in the order of the ids."""
        partition = self._partition(name)
        for each in fields:
            known_field(name, partition.fields, each, "get rows")
        wanted = frozenset(fields)
        places: list[Place] = []
        for key in ids:
            entry = partition.rows.get(key)
            if entry is None:
                raise self._absent(partition, key, "get")
            if not wanted <= entry.fields:
                raise MissingFieldError(
                    f"get {_list(sorted(wanted - entry.fields))} of row {key!r}"
                    f" in partition {name!r}",
                    f"it was put with {_list(sorted(entry.fields))} only",
                    "ask `check` which fields a row has, or put them with the row",
                )
            places.append(entry.place)
        return Located(places, {each: partition.kinds[each] for each in fields if places})

    def claim(self, name: str, consumer: str, count: int, fields: Sequence[str]) -> list[str]:
        """Hand out rows: see `DataPlane.claim`."""
        partition = self._partition(name)
        for each in fields:
            known_field(name, partition.fields, each, f"claim for {consumer!r}")
        if type(count) is not int or count < 0:
            raise ValueTypeError(
                f"claim {count!r} rows of partition {name!r}", "no count", "give 0 or more"
            )
        if consumer not in partition.open:
            partition.open[consumer] = dict.fromkeys(partition.rows)
        waiting = partition.open[consumer]
        wanted = frozenset(fields)
        claimed: list[str] = []
        for key in waiting:
            if len(claimed) == count:
                break
            if wanted <= partition.rows[key].fields:
                claimed.append(key)
        for key in claimed:
            del waiting[key]
        return claimed

    def check(self, name: str, ids: Sequence[str]) -> dict[str, frozenset[str]]:
        """Say which fields rows have: see `DataPlane.check`."""
        rows = self._partition(name).rows
        return {key: rows[key].fields if key in rows else frozenset() for key in ids}

    def evict(self, name: str, ids: Sequence[str] | None, unknown: bool) -> list[Place]:
        """Make rows invisible for good; with ``unknown`` also those that may still come.

        Returns:
            The places that are free now.
        """
        partition = self._partition(name)
        chosen = dict.fromkeys(partition.rows if ids is None else ids)
        for key in () if unknown else chosen:
            if key not in partition.rows and key not in partition.evicted:
                raise self._absent(partition, key, "clear")
        leaving = [key for key in chosen if key in partition.rows]
        places = [partition.rows.pop(key).place for key in leaving]
        partition.evicted.update(chosen)
        for waiting in partition.open.values():
            for key in leaving:
                waiting.pop(key, None)
        return places

    def _partition(self, name: str) -> _Partition:
        if name not in self._partitions:
            raise UnknownPartitionError(
                f"use partition {name!r}",
                f"registered ones: {_list(sorted(self._partitions))}",
                "register it with its fields first",
            )
        return self._partitions[name]

    @staticmethod
    def _free(partition: _Partition, ids: Mapping[str, object]) -> None:
        """Refuse ids that are taken or used up, and rows that have no room."""
        asked = f"put into partition {partition.name!r}"
        taken = [key for key in ids if key in partition.rows]
        if taken:
            raise DuplicateKeyError(
                f"{asked} rows under {_list(taken)}",
                "rows are there under these ids",
                "give a row an id of its own; to see whether it is the same row, `get` it",
            )
        gone = [key for key in ids if key in partition.evicted]
        if gone:
            raise EvictedError(
                f"{asked} rows under {_list(gone)}",
                "these ids were cleared",
                "give a row an id of its own",
            )
        capacity = partition.capacity
        if capacity is not None and len(partition.rows) + len(ids) > capacity:
            raise CapacityError(
                f"{asked} {len(ids)} rows",
                f"it holds {len(partition.rows)} of at most {capacity}",
                "clear rows that were used, or register it with a larger capacity",
            )

    @staticmethod
    def _absent(partition: _Partition, key: str, verb: str) -> MissingKeyError | EvictedError:
        asked = f"{verb} row {key!r} of partition {partition.name!r}"
        if key in partition.evicted:
            return EvictedError(asked, "it was cleared", "use a row before it is cleared")
        return MissingKeyError(
            asked,
            f"no row was put under this id; {len(partition.rows)} rows are there",
            "check the id, or wait until its row is put",
        )


def known_field(partition: str, fields: frozenset[str], name: str, asked: str) -> None:
    """Refuse a field that a partition was not registered with.

    Raises:
        UnknownFieldError: it was not.
    """
    if name not in fields:
        raise UnknownFieldError(
            f"{asked}: field {name!r} of partition {partition!r}",
            f"it was registered with {_list(sorted(fields))}",
            "name a registered field, or register the partition with it",
        )


def _printable(name: object) -> bool:
    return isinstance(name, str) and bool(name) and name.isprintable()


def _list(names: Iterable[Item]) -> str:
    """Name the first few."""
    every = [repr(each) for each in names]
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + more if every else "none"
