"""Shard: what a plan says of one part of a suite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Shard:
    """Part ``number`` of ``of`` of a suite. Times in seconds.

    Attributes:
        suite: the suite's name.
        number: from 1.
        of: how many parts there are.
        paths: files and folders that pytest collects from, relative to the root.
        groups: node ids in the order they run, in groups that stay in one process.
        elsewhere: the planned tests of its files that it does not run.
        arguments: further arguments of pytest.
        processes: how many run at once.
        test_timeout_s: the limit of one test.
        retries: how often a test that shows a fault is run again.
        complete: whether the parts together hold every test of the suite's files.
        faults: what is wrong with the suite whatever its tests do.
        expected_s: how long it should take, from the recorded durations.
        may_skip: whether a strict run accepts tests that skip themselves.
        coverage: whether it is measured.
        contexts: whether each line is told apart by the tests that ran it.
    """

    suite: str
    number: int
    of: int
    paths: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...] = ()
    elsewhere: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    processes: int = 1
    test_timeout_s: float = 120.0
    retries: int = 0
    complete: bool = True
    faults: tuple[str, ...] = ()
    expected_s: float = 0.0
    may_skip: bool = False
    coverage: bool = False
    contexts: bool = False

    @property
    def nodeids(self) -> tuple[str, ...]:
        """All its tests, in order."""
        return tuple(nodeid for group in self.groups for nodeid in group)


def read_shard(data: dict[str, Any] | None) -> Shard | None:
    """A shard from the JSON of a plan, where sequences have become lists."""
    if data is None:
        return None
    lists = {name: tuple(data[name]) for name in ("paths", "elsewhere", "arguments", "faults")}
    groups = tuple(tuple(group) for group in data["groups"])
    return Shard(**{**data, **lists, "groups": groups})
