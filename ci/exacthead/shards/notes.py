"""Notes: what a division rests on, in sentences for the plan."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from exacthead.shards.estimate import DEFAULT_S
from exacthead.shards.nodeid import file_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exacthead.shards.balance import Balanced
    from exacthead.shards.estimate import Estimates
    from exacthead.shards.match import Match

_SHOWN = 5


def about_durations(matched: Match, estimates: Estimates) -> list[str]:
    """Where the times of all tests come from, and which recorded ones are of no use here."""
    count = len(estimates.micros)
    exact, moved = len(matched.exact), sum(matched.prefixes.values())
    lines = [f"durations: {exact + moved} of {count} tests are recorded, {exact} as they are"]
    for prefix, times in matched.prefixes.items():
        way = f"without {prefix[1:]!r}" if prefix.startswith("-") else f"below {prefix!r}"
        lines.append(f"durations: {times} were recorded {way} and are used")
    if matched.ambiguous:
        what = "recorded ones could be of several tests, or share one, and are not used"
        lines.append(f"durations: {len(matched.ambiguous)} {what}: {listed(matched.ambiguous)}")
    if matched.gone:
        what = "recorded tests are gone from their files"
        lines.append(f"durations: {len(matched.gone)} {what}: {listed(matched.gone)}")
    if matched.elsewhere:
        files = len({file_of(nodeid) for nodeid in matched.elsewhere})
        what = f"recorded tests lie in {files} files that are not collected here"
        lines.append(f"durations: {len(matched.elsewhere)} {what}")
    guesses = (
        (estimates.by_file, "the median of their file"),
        (estimates.by_suite, "the median of the suite"),
        (estimates.by_default, f"{DEFAULT_S:g} s"),
    )
    if used := [f"{times} as {what}" for times, what in guesses if times]:
        lines.append(f"durations: {len(matched.unknown)} tests are unknown: {', '.join(used)}")
    if estimates.noise and exact + moved:
        lines.append(f"durations: a noise of {estimates.noise:.2f} in the log of a time is assumed")
    return lines


def about_cuts(balanced: Balanced) -> list[str]:
    """Which modules are cut."""
    parts = Counter(file_of(each.nodeids[0]) for shard in balanced.shards for each in shard)
    cut = [f"{file} into {count}" for file, count in sorted(parts.items()) if count > 1]
    if not cut:
        return []
    limit = f"{balanced.share:g} of what a process gets"
    return [f"modules: {len(cut)} take more than {limit} and are cut: {listed(cut)}"]


def about_empty(balanced: Balanced) -> list[str]:
    """Which shards have nothing to do."""
    empty = [str(number) for number, shard in enumerate(balanced.shards, 1) if not shard]
    if not empty:
        return []
    return [f"shards: empty by plan, since there are no more groups: {listed(empty)}"]


def listed(names: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
