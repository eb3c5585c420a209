"""When the items of a run ran, and how well the shards of a suite are balanced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from exacthead.report.model import Item

# What is shorter than this share of the whole, in percent, would not be seen.
_THINNEST = 0.4


@dataclass(frozen=True)
class Row:
    """One item's bar: ``x`` and ``width`` in percent of the whole, times in seconds."""

    name: str
    verdict: str
    start: float
    seconds: float
    x: float
    width: float


@dataclass(frozen=True)
class Gantt:
    """The bars of all items whose start is known; ``seconds`` from first start to last end."""

    rows: tuple[Row, ...]
    seconds: float
    words: str


@dataclass(frozen=True)
class Balance:
    """How the longest shard of a suite compares with the least that it could be.

    Attributes:
        suite: its name.
        shards: how many were run.
        longest: seconds of the longest.
        bound: the larger of the mean shard and the longest single test, in seconds.
        ratio: the longest over the bound.
        share: of the longest, in percent of the bar.
        bound_share: of the bound, in percent of the bar.
    """

    suite: str
    shards: int
    longest: float
    bound: float
    ratio: float
    share: float
    bound_share: float


def gantt(items: Sequence[Item]) -> Gantt:
    """The bars of a run; those of items without a known start are left out and said."""
    known = [(item.started, item) for item in items if item.started is not None]
    if not known:
        return Gantt((), 0.0, "")
    first = min(started for started, _ in known)
    whole = max(started + item.seconds for started, item in known) - first or 1.0
    rows = tuple(
        Row(
            name=item.id,
            verdict=item.verdict,
            start=started - first,
            seconds=item.seconds,
            x=round(100 * (started - first) / whole, 3),
            width=round(max(100 * item.seconds / whole, _THINNEST), 3),
        )
        for started, item in sorted(known, key=lambda each: each[0])
    )
    missing = len(items) - len(known)
    return Gantt(rows, whole, f"{missing} without a known start" if missing else "")


def balances(items: Sequence[Item], longest_test: Mapping[str, float]) -> tuple[Balance, ...]:
    """The balance of each suite of which more than one shard ran.

    Args:
        items: of the run.
        longest_test: seconds of the longest test of an item, by its id.
    """
    suites: dict[str, list[Item]] = {}
    for item in items:
        if item.suite and item.seconds > 0:
            suites.setdefault(item.suite, []).append(item)
    return tuple(
        _balance(suite, shards, longest_test) for suite, shards in suites.items() if len(shards) > 1
    )


def _balance(suite: str, shards: Sequence[Item], longest_test: Mapping[str, float]) -> Balance:
    longest = max(shard.seconds for shard in shards)
    mean = sum(shard.seconds for shard in shards) / len(shards)
    # A test's own time can be more than its shard's, where clocks differ.
    test = min(max(longest_test.get(shard.id, 0.0) for shard in shards), longest)
    bound = max(mean, test)
    return Balance(
        suite, len(shards), longest, bound, longest / bound, 100.0, round(100 * bound / longest, 3)
    )
