"""Division of a suite: which tests each shard runs, in which groups, and what that rests on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.shards.balance import balance
from exacthead.shards.estimate import estimate
from exacthead.shards.match import match
from exacthead.shards.notes import about_cuts, about_durations, about_empty, listed
from exacthead.shards.stealing import wall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exacthead.shards.durations import Durations


@dataclass(frozen=True)
class Shard:
    """One shard's tests.

    Attributes:
        groups: node ids in the order they run; a group stays in one process.
        seconds: expected wall time, with the shard's processes taking groups as they get free.
    """

    groups: tuple[tuple[str, ...], ...]
    seconds: float


@dataclass(frozen=True)
class Division:
    """All shards of a suite, and the notes on what they rest on, a sentence each."""

    shards: tuple[Shard, ...]
    report: tuple[str, ...]


def plan_shards(
    nodeids: Sequence[str], history: Durations, shards: int, processes: int = 1
) -> Division:
    """Divide a suite's tests over shards: the same division on every host for the same input.

    Args:
        nodeids: the collected tests in pytest's order.
        history: what tests took before.
        shards: how many shards; with more than there are groups, some are empty.
        processes: how many processes each shard runs at once.

    Raises:
        HarnessError: a node id is there twice, or a number is below 1.
    """
    _check(nodeids, shards, processes)
    matched = match(history.seconds, nodeids)
    measured = {
        nodeid: history.seconds[matched.source(nodeid)]
        for nodeid in (*matched.exact, *matched.sources)
    }
    estimates = estimate(nodeids, measured)
    balanced = balance(estimates, shards, processes)
    return Division(
        shards=tuple(
            Shard(
                groups=tuple(each.nodeids for each in shard),
                seconds=wall((each.micros for each in shard), processes) / 1e6,
            )
            for shard in balanced.shards
        ),
        report=(
            *about_durations(matched, estimates),
            *about_cuts(balanced),
            *about_empty(balanced),
        ),
    )


def _check(nodeids: Sequence[str], shards: int, processes: int) -> None:
    for name, number in (("shards", shards), ("processes", processes)):
        if number < 1:
            raise HarnessError(f"a division over {name}", f"{number} of them", "give 1 or more")
    if twice := [nodeid for nodeid, count in Counter(nodeids).items() if count > 1]:
        raise HarnessError(
            "a division of tests",
            f"node ids that are there twice: {listed(twice)}",
            "let the suite name no file twice and give parameters ids of their own",
        )
