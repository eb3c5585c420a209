"""Settling: moving groups so that the expected time of the longest shard is shortest.

Longest-first balances what is expected of each shard. Where one test dominates a shard, that shard
is as uncertain as the test, and the others are not: what counts is then how often and by how much
either is the longest, and no single estimate of the test says that.
"""

from __future__ import annotations

from operator import add, sub
from typing import TYPE_CHECKING

from exacthead.shards.scenarios import SCENARIOS, scenarios

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from exacthead.shards.group import Group

# A bound on the work: about a tenth of a second.
_MOST_TRIALS = 8_000


def settle(
    division: Sequence[Sequence[Group]], micros: Mapping[str, int], spread: Mapping[str, float]
) -> list[list[Group]]:
    """Move one group after the other for as long as the mean over all scenarios gets shorter.

    Args:
        division: groups over shards, in whichever way.
        micros: node id -> what is expected.
        spread: node id -> the standard deviation of the log of its time.

    Returns:
        The same groups over as many shards, in each the longest first.
    """
    settling = _Settling(division, micros, spread)
    while settling.move():
        pass
    return [sorted(shard, key=lambda each: each.order) for shard in settling.shards]


class _Settling:
    def __init__(
        self,
        division: Sequence[Sequence[Group]],
        micros: Mapping[str, int],
        spread: Mapping[str, float],
    ) -> None:
        self.shards = [list(shard) for shard in division]
        self._times = {
            group: scenarios(group, micros, spread) for shard in division for group in shard
        }
        nothing = [0] * SCENARIOS
        self._ends = [
            list(map(sum, zip(nothing, *(self._times[group] for group in shard), strict=True)))
            for shard in self.shards
        ]
        self._trials = 0

    def move(self) -> bool:
        """Make the best move between the first two shards between which one helps."""
        longest = list(map(max, *self._ends)) if len(self._ends) > 1 else []
        often = [sum(map(int.__eq__, ends, longest)) for ends in self._ends]
        numbers = range(len(self._ends))
        for source in sorted(numbers, key=lambda n: (-often[n], n)):
            if not often[source]:
                return False
            for target in sorted(numbers, key=lambda n: (often[n], sum(self._ends[n]), n)):
                if source != target and self._best(source, target, sum(longest)):
                    return True
        return False

    def _best(self, source: int, target: int, before: int) -> bool:
        """Move the group from one shard to the other that helps most, if any does."""
        left, right = self._ends[source], self._ends[target]
        others = [each for n, each in enumerate(self._ends) if n not in {source, target}]
        rest = list(map(max, *others)) if len(others) > 1 else (others or [[0] * SCENARIOS])[0]
        best: tuple[int, Group] | None = None
        for group in self.shards[source]:
            if self._trials == _MOST_TRIALS:
                break
            self._trials += 1
            times = self._times[group]
            after = sum(map(max, map(sub, left, times), map(add, right, times), rest))
            if after < (best[0] if best else before):
                best = after, group
        if best is None:
            return False
        group = best[1]
        self.shards[source].remove(group)
        self.shards[target].append(group)
        self._ends[source] = list(map(sub, left, self._times[group]))
        self._ends[target] = list(map(add, right, self._times[group]))
        return True
