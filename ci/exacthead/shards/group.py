"""Groups: the tests that run in one process, one after the other, so that they share fixtures."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from exacthead.shards.nodeid import class_of, file_of, function_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


@dataclass(frozen=True)
class Group:
    """A module, or a part of an oversized one; tests in collection order, at least one.

    Attributes:
        nodeids: the tests.
        micros: the expected time in microseconds.
        surprise: by how much more it may well take; such a group had better start early.
    """

    nodeids: tuple[str, ...]
    micros: int
    surprise: int = 0

    @property
    def order(self) -> tuple[int, str]:
        """Longest first; ties by the first node id, which no other group holds."""
        return -(self.micros + self.surprise), self.nodeids[0]


def group(
    nodeids: Sequence[str],
    micros: Mapping[str, int],
    limit: int,
    surprises: Mapping[str, int],
) -> list[Group]:
    """Put each module into one group, and cut those that take longer than ``limit`` into parts.

    A cut lies between classes or functions where their own time allows it, else between tests of a
    class, else between the parameters of a function. No part is longer than the limit unless it
    is a single test.

    Args:
        nodeids: in collection order, each once.
        micros: node id -> expected microseconds.
        limit: in microseconds.
        surprises: node id -> by how much more it may well take; a group has its tests' greatest.

    Returns:
        Groups in the order in which their first tests were collected.
    """
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for nodeid in nodeids:
        modules[file_of(nodeid)].append(nodeid)
    return [
        Group(
            tuple(part),
            sum(micros[nodeid] for nodeid in part),
            max(surprises.get(nodeid, 0) for nodeid in part),
        )
        for tests in modules.values()
        for part in _parts(tests, micros, limit)
    ]


def _parts(tests: Sequence[str], micros: Mapping[str, int], limit: int) -> Iterator[list[str]]:
    part: list[str] = []
    spent = 0
    for unit in _units(tests, micros, limit, (file_of, class_of, function_of, str)):
        time = sum(micros[nodeid] for nodeid in unit)
        if part and spent + time > limit:
            yield part
            part, spent = [], 0
        part += unit
        spent += time
    yield part


def _units(
    tests: Sequence[str],
    micros: Mapping[str, int],
    limit: int,
    levels: Sequence[Callable[[str], str]],
) -> Iterator[list[str]]:
    """Neighbours that belong together on the highest level on which they are short enough."""
    for _, neighbours in groupby(tests, key=levels[0]):
        unit = list(neighbours)
        if len(levels) == 1 or sum(micros[nodeid] for nodeid in unit) <= limit:
            yield unit
        else:
            yield from _units(unit, micros, limit, levels[1:])
