"""What the history says of a run: since when, how long it should take, what it differs in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from exacthead.differences import between
from exacthead.errors import HarnessError
from exacthead.git import git
from exacthead.history import rows, tests, trends
from exacthead.history.change import LEAST
from exacthead.report.model import Green, Mark, Since
from exacthead.runs.folder import RunFolder, State

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from exacthead.history.rows import RunRow
    from exacthead.history.tests import TestHistory
    from exacthead.history.trends import Series
    from exacthead.report.model import Failure
    from exacthead.runs.provenance import Provenance

_KEY_DIGITS = 12
_COMMITS = 10
# A change can be told once its new level has some runs; from then on it is said so many runs long.
_FRESH = 2 * LEAST


@dataclass(frozen=True)
class PastRuns:
    """The runs on one kind of runner, the oldest first; the last one is what is reported.

    Attributes:
        connection: of the history, up to date.
        run: the id of what is reported.
        among: those runs.
        own: the ids of what is reported: its own, and those of the runs that it is merged of.
        items: the items' histories over them, by name.
    """

    connection: sqlite3.Connection
    run: str
    among: Sequence[RunRow]
    own: frozenset[str] = frozenset()
    items: dict[str, TestHistory] = field(default_factory=dict)

    @classmethod
    def read(
        cls, connection: sqlite3.Connection, run: str, runner: str, parts: Sequence[str] = ()
    ) -> PastRuns:
        """The runs up to ``run``, which is in the history itself, or else the last of its parts."""
        newest = rows.runs(connection, most=rows.WINDOW, runner=runner)
        own = frozenset((run, *parts))
        last = max((at for at, row in enumerate(newest, 1) if row.name in own), default=0)
        among = newest[:last]
        return cls(connection, run, among, own, tests.read_items(connection, among))

    def dated(self, failures: Iterable[Failure]) -> tuple[Failure, ...]:
        """The failures with since when they are, and how flaky."""
        every = tuple(failures)
        nodeids = [each.name for each in every if each.name != each.item]
        past = {**tests.read_tests(self.connection, self.among, nodeids), **self.items}
        return tuple(self._dated(each, past.get(each.name)) for each in every)

    def _dated(self, failure: Failure, past: TestHistory | None) -> Failure:
        if past is None:
            return failure
        since = None
        if past.since is not None:
            first = self.among[past.since]
            green = self.among[past.green].head if past.green is not None else ""
            run = self.run if first.name in self.own else first.name
            since = Since(run, first.head, first.started, past.row, first.dirty, green)
        return replace(failure, since=since, score=round(past.score, 4))

    def expected(self) -> dict[str, float]:
        """Item -> the seconds that its earlier passes let expect."""
        return trends.expected(self.connection, self._before())

    def marks(self) -> tuple[Mark, ...]:
        """Changes that are still news, of series that the run itself is in."""
        found = [
            *self.metrics(),
            *trends.seconds(self.connection, self.among),
        ]
        here = len(self.among) - 1
        return tuple(
            Mark(
                series=series.title,
                run=self.among[series.points[change.at].run].name,
                commit=self.among[series.points[change.at].run].head,
                before=change.before,
                after=change.after,
                shift=change.shift,
            )
            for series in found
            for change in series.changes
            if series.points[-1].run == here and len(series.points) - change.at <= _FRESH
        )

    def _before(self) -> list[RunRow]:
        return [row for row in self.among if row.name not in self.own]

    def metrics(self) -> list[Series]:
        """The metrics of legs over those runs."""
        return trends.metrics(self.connection, self.among)

    def green(self, root: Path, runs: Path, used: Provenance) -> Green | None:
        """The last green run of at least the same items before this one, and what differs.

        Args:
            root: the checkout.
            runs: the folder of all runs.
            used: what the run itself used.
        """
        if not self.among:
            return None
        per_run = rows.items(self.connection, self.among)
        here = (row.id for row in self.among if row.name in self.own)
        mine = {item.name for number in here for item in per_run[number]}
        for row in reversed(self._before()):
            names = {item.name for item in per_run[row.id]}
            if row.state == State.PASSED and mine <= names:
                there = RunFolder(runs / row.name)
                said = (*_commits(root, row, used), *_used(there, used, row.runner))
                return Green(row.name, row.head, row.started, said)
        return None


def _commits(root: Path, there: RunRow, here: Provenance) -> list[str]:
    """The commits between two heads, the newest first."""
    dirty = [f"the checkout was dirty {where}" for where, is_so in (
        ("then", there.dirty), ("now", here.dirty)) if is_so]  # fmt: skip
    if there.head == here.commit:
        return dirty
    try:
        between_heads = git(root, "log", "--format=%h %s", f"{there.head}..{here.commit}")
    except HarnessError:
        return [f"head {here.commit[:12]}, and {there.head[:12]} is not in this checkout", *dirty]
    commits = between_heads.splitlines()
    if not commits:
        return [f"head {here.commit[:12]} is before {there.head[:12]}", *dirty]
    more = [f"and {len(commits) - _COMMITS} more commits"] if len(commits) > _COMMITS else []
    return [*(f"commit {each}" for each in commits[:_COMMITS]), *more, *dirty]


def _used(there: RunFolder, here: Provenance, runner: str) -> list[str]:
    """How workers, images, machine and the rest differ, as far as that run's folder tells."""
    try:
        then = there.read_provenance()
    except HarnessError:
        return ["the folder of that run does not tell what it used"]
    before = {each.name: each for each in then.workers}
    lines = [
        f"worker {each.name}: key {each.key[:_KEY_DIGITS]} here,"
        f" {before[each.name].key[:_KEY_DIGITS]} there"
        for each in here.workers
        if each.name in before and before[each.name].key != each.key
    ]
    for name, digest in here.images.items():
        if then.images.get(name, digest) != digest:
            lines.append(f"image {name}: {digest[:19]} here, {then.images[name][:19]} there")
    return [*lines, *between(here, then, runner)]
