"""What the dashboard shows, read from exacthead.sqlite in one pass for each of its tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from exacthead.history import rows, trends
from exacthead.history.tests import read_tests
from exacthead.report.dashboard.outcomes import TestRow, read_outcomes

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from exacthead.history.rows import RunRow
    from exacthead.history.tests import TestHistory
    from exacthead.history.trends import Series


@dataclass(frozen=True)
class Run:
    """One run; ``number`` is its place in time among those that are shown, from 0."""

    number: int
    name: str
    started: str
    head: str
    dirty: bool
    runner: str
    flavour: str
    state: str
    seconds: float

    @property
    def label(self) -> str:
        """Its head in short, and whether it was exactly that."""
        return f"{self.head[:10]}{'*' if self.dirty else ''}"


@dataclass(frozen=True)
class ItemRun:
    """What became of one item in one run."""

    run: Run
    verdict: str
    reason: str
    seconds: float


@dataclass(frozen=True)
class Since:
    """The first run of an unbroken row of faults, how many it has, the last pass before it."""

    first: Run
    runs: int
    green: Run | None


@dataclass(frozen=True)
class Fault:
    """One fault in one run."""

    run: Run
    item: str
    nodeid: str
    verdict: str
    failure_class: str
    group: str
    reason: str


@dataclass(frozen=True)
class Build:
    """How a worker or an image came about in one run."""

    run: Run
    kind: str
    name: str
    key: str
    how: str
    seconds: float | None


@dataclass(frozen=True)
class Data:
    """Everything, oldest run first.

    Attributes:
        runs: the newest ones, so many as were asked for.
        items: (item, runner) -> its runs.
        kinds: ``leg`` or ``suite`` by item.
        tests: those that ran at least once, by node id.
        suspects: of them those that ever showed a fault, with what the history says of them.
        faults: newest first.
        builds: oldest first.
        metrics: those that a contract has checked or that were timed.
        coverage: of each set of items that ran together.
        build_times: of each worker and image.
        problems: what could not be read into the history, a sentence each.
    """

    runs: tuple[Run, ...]
    items: dict[tuple[str, str], list[ItemRun]]
    kinds: dict[str, str]
    tests: list[TestRow]
    suspects: dict[str, TestHistory]
    faults: list[Fault]
    builds: list[Build]
    metrics: list[Series]
    coverage: list[Series]
    build_times: list[Series]
    problems: list[str]

    def score(self, nodeid: str) -> float:
        """How often two fresh processes disagreed about a test, from 0 to 1."""
        suspect = self.suspects.get(nodeid)
        return suspect.score if suspect else 0.0

    def since(self, nodeid: str) -> Since | None:
        """Since when a test is red; None for one that is not."""
        suspect = self.suspects.get(nodeid)
        if suspect is None or suspect.since is None:
            return None
        green = None if suspect.green is None else self.runs[suspect.green]
        return Since(self.runs[suspect.since], suspect.row, green)


def read(database: sqlite3.Connection, most: int) -> Data:
    """All that the pages need.

    Args:
        database: of the newest schema.
        most: how many runs, the newest.
    """
    among = rows.runs(database, most)
    runs = tuple(
        Run(
            number=number,
            name=row.name,
            started=row.started,
            head=row.head,
            dirty=row.dirty,
            runner=row.runner,
            flavour=row.flavour,
            state=row.state,
            seconds=row.seconds,
        )
        for number, row in enumerate(among)
    )
    by_id = {row.id: run for row, run in zip(among, runs, strict=True)}
    items: dict[tuple[str, str], list[ItemRun]] = {}
    kinds: dict[str, str] = {}
    sets: dict[str, list[RunRow]] = {}
    listed = rows.items(database, among)
    for row, run in zip(among, runs, strict=True):
        for item in listed[row.id]:
            one = ItemRun(run, item.verdict, item.reason, item.seconds)
            items.setdefault((item.name, run.runner), []).append(one)
            kinds[item.name] = item.kind
        sets.setdefault(", ".join(sorted(each.name for each in listed[row.id])), []).append(row)
    tests = read_outcomes(
        database, [(item.id, by_id[item.run]) for row in among for item in listed[row.id]]
    )
    suspects = [each.nodeid for each in tests if each.odd or each.reds]
    return Data(
        runs=runs,
        items=items,
        kinds=kinds,
        tests=tests,
        suspects=read_tests(database, among, suspects),
        faults=_faults(database, by_id),
        builds=_builds(database, by_id),
        metrics=_metrics(database, among),
        coverage=_coverage(database, among, sets),
        build_times=trends.builds(database, among),
        problems=[text for (text,) in database.execute("SELECT DISTINCT text FROM note")],
    )


def _faults(database: sqlite3.Connection, runs: dict[int, Run]) -> list[Fault]:
    return [
        Fault(runs[run], *rest)
        for run, *rest in database.execute(
            "SELECT run.id, item.name, coalesce(nodeid, ''), fault.verdict, class, grouping,"
            " fault.reason FROM fault JOIN item ON item.id = fault.item"
            " JOIN run ON run.id = item.run LEFT JOIN test ON test.id = fault.test"
            " ORDER BY run.started DESC, run.name DESC, fault.id"
        )
        if run in runs
    ]


def _builds(database: sqlite3.Connection, runs: dict[int, Run]) -> list[Build]:
    return [
        Build(runs[run], *rest)
        for run, *rest in database.execute(
            "SELECT run, kind, build.name, key, how, build.seconds FROM build"
            " JOIN run ON run.id = build.run ORDER BY run.started, run.name, build.kind, build.name"
        )
        if run in runs
    ]


def _metrics(database: sqlite3.Connection, among: Sequence[RunRow]) -> list[Series]:
    checked = {name for (name,) in database.execute("SELECT DISTINCT metric FROM contract_check")}
    return [
        each
        for each in trends.metrics(database, among)
        if each.name in checked or each.name.startswith("timing/")
    ]


def _coverage(
    database: sqlite3.Connection, among: Sequence[RunRow], sets: dict[str, list[RunRow]]
) -> list[Series]:
    """Runs of other items cover other lines: one curve over all would only show who ran."""
    index = {row.id: number for number, row in enumerate(among)}
    found = []
    for name, part in sets.items():
        series = trends.coverage(database, part)
        points = tuple(replace(each, run=index[part[each.run].id]) for each in series.points)
        found.append(replace(series, item=name, points=points))
    return found
