"""Balance: how finely modules are cut, so that all processes end at about the same time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.shards.group import group
from exacthead.shards.partition import makespan, partition
from exacthead.shards.settle import settle

if TYPE_CHECKING:
    from exacthead.shards.estimate import Estimates
    from exacthead.shards.group import Group

# A module is oversized when it takes more than this share of what a process gets at best. Where
# times are sure that is all of it. Where they are not, finer groups pay: a shard that is one module
# ends as late as that is wrong, and processes that take one group after the other make up for
# errors as long as the last groups are short. Measured by bench/bench_shards.py.
SURE, UNSURE, UNSURE_STEALING = 1.0, 0.5, 0.0625
# The share is halved until the division is even enough: this much above the lower bound.
EVEN = 1.02
FINEST = 1 / 32
# A test that takes this share of a process makes its shard an uncertain one.
DOMINATED = 0.4


@dataclass(frozen=True)
class Balanced:
    """Groups over shards, and the share of a process above which a module was cut."""

    shards: tuple[tuple[Group, ...], ...]
    share: float


def balance(estimates: Estimates, shards: int, processes: int) -> Balanced:
    """Divide tests over shards and cut modules as coarsely as an even division allows.

    Args:
        estimates: of all tests, in collection order.
        shards: how many.
        processes: how many processes each shard runs.
    """
    even = _even(estimates, shards, processes)
    return _settled(even, estimates) if processes == 1 and shards > 1 else even


def _even(estimates: Estimates, shards: int, processes: int) -> Balanced:
    """Longest first, of groups as coarse as an even division allows."""
    nodeids, micros = list(estimates.micros), estimates.micros
    slots = shards * processes
    # No division can end before this.
    least = max(-(-sum(micros.values()) // slots), *micros.values()) if micros else 0
    # Where processes take one group after the other, what may turn out long starts early enough
    # for the others to make up for it.
    surprises = estimates.surprises if processes > 1 else {}
    share = _coarsest(estimates, shards, processes)
    tried: list[tuple[int, Balanced]] = []
    while share >= FINEST:
        groups = group(nodeids, micros, int(share * least), surprises)
        division = partition(groups, shards, processes)
        end = makespan(division, processes)
        balanced = Balanced(tuple(tuple(shard) for shard in division), share)
        if end <= EVEN * least:
            return balanced
        tried.append((end, balanced))
        share /= 2
    shortest = min(end for end, _ in tried)
    return next(balanced for end, balanced in tried if end <= EVEN * shortest)


def _settled(balanced: Balanced, estimates: Estimates) -> Balanced:
    """The division settled, where a test whose time is not sure dominates a shard.

    Elsewhere nothing is gained (measured), as errors of many tests make up for each other.
    """
    micros = estimates.micros
    least = DOMINATED * sum(micros.values()) / len(balanced.shards)
    if not estimates.spread or all(micros[each] < least for each in estimates.dominating):
        return balanced
    shards = settle(balanced.shards, micros, estimates.spread)
    return Balanced(tuple(map(tuple, shards)), balanced.share)


def _coarsest(estimates: Estimates, shards: int, processes: int) -> float:
    if estimates.sure or shards * processes == 1:
        return SURE
    return UNSURE if processes == 1 else UNSURE_STEALING
