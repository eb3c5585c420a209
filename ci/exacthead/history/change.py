"""Change points: from where on the median of a series is another one.

The distance of the medians before and after is held against a robust estimate of the noise: the
median absolute deviation of the differences of neighbours, which a shift of the level hardly
touches (Rousseeuw and Croux 1993 for the factor of normal data). Single spikes move no median. The
series is split where the distance is largest for its chance, the border is moved to where the
values are nearest to the two medians, and the parts are looked at in turn (binary segmentation).
"""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# So many points on either side at least: one run, or two, are no level.
LEAST = 5
# The distance, in standard errors of a difference of medians, from which on it is no chance: below
# one false mark in a hundred series without a change (unit/exacthead/history/test_change.py).
LIMIT = 5.0
# A shift below this part of the level is never marked, however exact the series is.
SMALLEST = 0.02
# MAD -> standard deviation of normal data.
_NORMAL = 1.4826
# Mean of the smaller three quarters of the absolute values -> the same.
_SMALL = 0.515
# Variance of a median of n normal values, as a multiple of that of their mean, for large n.
_MEDIAN = math.pi / 2


@dataclass(frozen=True)
class Change:
    """A point of a series from which on its level is another one.

    Attributes:
        at: its index: that of the first value of the new level.
        before: the median of the level before.
        after: the median of the new one.
        shift: their distance in units of the noise; None where there is none.
    """

    at: int
    before: float
    after: float
    shift: float | None


def changes(values: Sequence[float]) -> tuple[Change, ...]:
    """The change points of a series, in its order.

    Args:
        values: finite numbers, the oldest first; with fewer than ten there is nothing to say.
    """
    if len(values) < 2 * LEAST:
        return ()
    scale = noise(values)
    found = sorted(_split(values, 0, len(values), scale))
    if not found:
        return ()
    borders = [0, *found, len(values)]
    levels = [median(values[a:b]) for a, b in pairwise(borders)]
    return tuple(
        Change(at, before, after, abs(after - before) / scale if scale else None)
        for at, before, after in zip(found, levels, levels[1:], strict=False)
    )


def noise(values: Sequence[float]) -> float:
    """The standard deviation of a series around its level, whatever shifts and spikes it has.

    Where values are rounded, half of the differences can be the same and their deviation nothing;
    then the mean of the smaller three quarters of the differences tells.
    """
    steps = [b - a for a, b in pairwise(values)]
    if not steps:
        return 0.0
    middle = median(steps)
    sizes = sorted(abs(each - middle) for each in steps)
    small = sizes[: max(1, math.ceil(len(sizes) * 3 / 4))]
    return max(_NORMAL * median(sizes), sum(small) / len(small) / _SMALL) / math.sqrt(2)


def _split(values: Sequence[float], start: int, end: int, scale: float) -> Iterator[int]:
    part = values[start:end]
    count = len(part)
    if count < 2 * LEAST:
        return
    before, after = _medians(part), _medians(part[::-1])
    best, at = 0.0, 0
    for split in range(LEAST, count - LEAST + 1):
        away = abs(after[count - split - 1] - before[split - 1])
        weighted = away * math.sqrt(split * (count - split) / count)
        if weighted > best:
            best, at = weighted, split
    if best <= LIMIT * scale * math.sqrt(_MEDIAN):
        return
    old, new = before[at - 1], after[count - at - 1]
    if abs(new - old) <= SMALLEST * abs(old):
        return
    border = _border(part, old, new)
    if not LEAST <= border <= count - LEAST:
        return
    border += start
    yield border
    yield from _split(values, start, border, scale)
    yield from _split(values, border, end, scale)


def _border(part: Sequence[float], old: float, new: float) -> int:
    """Where to part the values so that they are nearest to the two levels, in absolute distance."""
    gains = list(accumulate(abs(each - new) - abs(each - old) for each in part))
    return max(range(1, len(part)), key=lambda split: gains[split - 1])


def _medians(values: Sequence[float]) -> list[float]:
    """The median of the first value, of the first two, and so on."""
    ordered: list[float] = []
    found = []
    for value in values:
        insort(ordered, value)
        half = len(ordered) // 2
        odd = len(ordered) % 2
        found.append(ordered[half] if odd else (ordered[half - 1] + ordered[half]) / 2)
    return found
