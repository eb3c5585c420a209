"""Order: what one shard runs and how, as the file that its driver is started with."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from exacthead.runs.files import read_json

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class ShardOrder:
    """One shard of one suite. Times in seconds.

    Attributes:
        suite: the suite's name.
        python: the interpreter of the suite's worker.
        root: the checkout; pytest's working folder and root.
        paths: files and folders that pytest collects from, relative to ``root``.
        groups: node ids in the order they run, in groups that stay in one process: a module, or
            a part of an oversized one. Groups are handed out in this order.
        elsewhere: the planned tests of these files that are not its business; a test of them that
            is in neither is a fault. None where there is no plan that could know.
        arguments: further arguments of pytest (markers, options of the project).
        processes: how many run at once, taking groups from the common list.
        test_timeout_s: the limit of one test, its fixtures included.
        start_timeout_s: the limit of pytest's start, of collecting one file, and of its end.
        timeout_s: the limit of the whole shard, retries included.
        retries: how often a test that shows a fault is run again, each time in a fresh process.
        restarts: how many processes may die before the rest is not run.
    """

    suite: str
    python: str
    root: str
    paths: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    elsewhere: tuple[str, ...] | None = None
    arguments: tuple[str, ...] = ()
    processes: int = 1
    test_timeout_s: float = 120.0
    start_timeout_s: float = 120.0
    timeout_s: float = 600.0
    retries: int = 0
    restarts: int = 20

    @property
    def nodeids(self) -> tuple[str, ...]:
        """All planned tests in order."""
        return tuple(nodeid for group in self.groups for nodeid in group)

    def as_data(self) -> dict[str, Any]:
        """JSON-ready content."""
        return asdict(self)


def read_order(path: Path) -> ShardOrder:
    """Read an order that was written as JSON.

    Raises:
        HarnessError: the file is not there, or is no order of this harness.
    """
    return read_json(path, _order, "let the harness write it", "the order")


def _order(data: dict[str, Any]) -> ShardOrder:
    lists = {name: tuple(data[name]) for name in ("paths", "arguments")}
    if data["elsewhere"] is not None:
        lists["elsewhere"] = tuple(data["elsewhere"])
    groups = tuple(tuple(group) for group in data["groups"])
    return ShardOrder(**{**data, **lists, "groups": groups})
