"""Numbers over many runs, and from where on they are others: times, metrics, coverage, builds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from exacthead.history.change import changes
from exacthead.verdict import Kind

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from exacthead.history.change import Change
    from exacthead.history.rows import RunRow

_TYPICAL = 10


@dataclass(frozen=True)
class Point:
    """One value; ``run`` is the index of its run among those that were read."""

    run: int
    value: float


@dataclass(frozen=True)
class Series:
    """One number over runs.

    Attributes:
        kind: ``metric``, ``seconds``, ``coverage`` or ``build``.
        item: whose it is: an item, a worker or an image; empty for that of the run.
        name: of the metric; empty where the kind says it all.
        points: the oldest first.
        changes: from where on its median is another one; ``at`` counts its points.
    """

    kind: str
    item: str
    name: str
    points: tuple[Point, ...]
    changes: tuple[Change, ...] = ()

    @property
    def title(self) -> str:
        """What it is, in words."""
        if self.kind == "metric":
            return f"{self.name} of {self.item}"
        words = {"seconds": "seconds of", "coverage": "percent covered", "build": "seconds to have"}
        return f"{words[self.kind]} {self.item}".rstrip()


def metrics(connection: sqlite3.Connection, among: Sequence[RunRow]) -> list[Series]:
    """Each metric of each leg: the median over the steps of a run, with its changes.

    Only of legs that ended by themselves, on clean heads: no other value belongs to a head.
    """
    found: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for index, run in _clean(among):
        rows = connection.execute(
            "SELECT item.name, metric.name, median FROM measurement"
            " JOIN item ON item.id = measurement.item JOIN metric ON metric.id = metric"
            " WHERE item.run = ? AND item.verdict IN (?, ?)",
            (run.id, str(Kind.PASSED), str(Kind.FAILED)),
        )
        for item, name, value in rows:
            found[item, name].append(Point(index, value))
    return [_series("metric", *key, points) for key, points in sorted(found.items())]


def seconds(connection: sqlite3.Connection, among: Sequence[RunRow]) -> list[Series]:
    """How long each item took where it passed, on clean heads, with its changes."""
    found: dict[str, list[Point]] = defaultdict(list)
    for index, run in _clean(among):
        for name, value in _passed(connection, run):
            found[name].append(Point(index, value))
    return [_series("seconds", name, "", points) for name, points in sorted(found.items())]


def coverage(connection: sqlite3.Connection, among: Sequence[RunRow]) -> Series:
    """The percentage of executable lines that ran, of each run that measured any."""
    points = []
    for index, run in enumerate(among):
        covered, total = connection.execute(
            "SELECT sum(covered), sum(total) FROM coverage WHERE run = ?", (run.id,)
        ).fetchone()
        if total:
            points.append(Point(index, 100 * covered / total))
    return _series("coverage", "", "", points)


def builds(connection: sqlite3.Connection, among: Sequence[RunRow]) -> list[Series]:
    """How long it took to build each worker and image, of the runs that built one."""
    found: dict[str, list[Point]] = defaultdict(list)
    for index, run in enumerate(among):
        rows = connection.execute(
            "SELECT kind || ' ' || name, seconds FROM build"
            " WHERE run = ? AND seconds IS NOT NULL AND (how = 'built' OR kind = 'image')",
            (run.id,),
        )
        for name, value in rows:
            found[name].append(Point(index, value))
    return [_series("build", name, "", points) for name, points in sorted(found.items())]


def expected(connection: sqlite3.Connection, among: Sequence[RunRow]) -> dict[str, float]:
    """Item -> the median seconds of its last passes in those runs; none without a pass."""
    found: dict[str, list[float]] = defaultdict(list)
    for run in among:
        for name, value in _passed(connection, run):
            found[name].append(value)
    return {name: median(values[-_TYPICAL:]) for name, values in found.items()}


def _passed(connection: sqlite3.Connection, run: RunRow) -> Iterable[tuple[str, float]]:
    return connection.execute(
        "SELECT name, seconds FROM item WHERE run = ? AND verdict = ?", (run.id, str(Kind.PASSED))
    )


def _clean(among: Sequence[RunRow]) -> Iterable[tuple[int, RunRow]]:
    return ((index, run) for index, run in enumerate(among) if not run.dirty)


def _series(kind: str, item: str, name: str, points: Sequence[Point]) -> Series:
    return Series(kind, item, name, tuple(points), changes([each.value for each in points]))
