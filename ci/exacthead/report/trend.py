"""A metric over the last runs as a line that fits into a cell of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.report.words import number, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from exacthead.history.trends import Series

_WIDTH = 100.0
_HEIGHT = 24.0
_EDGE = 3.0
_RUNS = 30


@dataclass(frozen=True)
class Trend:
    """A line in a box of 100 by 24.

    Attributes:
        points: of an SVG polyline.
        changes: where the level changed, on the horizontal axis.
        words: all of it, for who cannot see it.
        short: the range in words.
    """

    points: str
    changes: tuple[float, ...]
    words: str
    short: str


def of_series(series: Iterable[Series]) -> dict[str, Trend]:
    """The lines of the metrics of one item over its last runs, by metric."""
    found = {}
    for each in series:
        start = max(0, len(each.points) - _RUNS)
        changes = [change.at - start for change in each.changes if change.at >= start]
        if line := trend([point.value for point in each.points[start:]], changes):
            found[each.name] = line
    return found


def trend(values: Sequence[float], changes: Sequence[int] = ()) -> Trend | None:
    """The line of finite values, oldest first; None for fewer than two.

    Args:
        values: one for each run.
        changes: indices of values from which on the level is another one.
    """
    if len(values) < 2:  # noqa: PLR2004 - a line needs two points
        return None
    least, most = min(values), max(values)
    # Halved before they are subtracted: the distance of two finite numbers may be none.
    span = most / 2 - least / 2
    places = [_WIDTH * index / (len(values) - 1) for index in range(len(values))]
    inner = _HEIGHT - 2 * _EDGE
    heights = [
        _HEIGHT / 2 if not span else _HEIGHT - _EDGE - inner * ((value / 2 - least / 2) / span)
        for value in values
    ]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(places, heights, strict=True))
    level = f"{number(least)} in all" if not span else f"{number(least)} to {number(most)}"
    shifts = f", {plural(len(changes), 'change')} of level" if changes else ""
    return Trend(
        points=points,
        changes=tuple(round(places[index], 1) for index in changes),
        words=f"last {len(values)} runs: {level}, now {number(values[-1])}{shifts}",
        short=f"{number(least)}" if not span else f"{number(least)} to {number(most)}",
    )
