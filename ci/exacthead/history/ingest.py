"""Ingest: one run folder into the database, in one transaction."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exacthead.classes import evidence
from exacthead.classes.classify import classify
from exacthead.errors import HarnessError
from exacthead.history import facts, packed, records
from exacthead.history.folders import UNREADABLE
from exacthead.runs.folder import State
from exacthead.shards.nodeid import files_of
from exacthead.triage.signature import of_messages
from exacthead.units.result import FAULTS, RED
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exacthead.classes.classify import Evidence
    from exacthead.classes.rules import Rule
    from exacthead.history.cases import PastCase
    from exacthead.history.folders import History, Run
    from exacthead.verdict import Verdict

_REASON_LENGTH = 2000
_SAID = {kind: kind.value for kind in Kind}


@dataclass
class Ingest:
    """Writes runs into an open database.

    Attributes:
        connection: as :func:`exacthead.history.schema.connect` gives it.
        history: where the runs are read from; its notes on a run are kept with the run.
        rules: of the failure classes.
    """

    connection: sqlite3.Connection
    history: History
    rules: tuple[Rule, ...]
    _tests: dict[str, int] = field(default_factory=dict, init=False)
    _newest_test: int = field(default=0, init=False)

    def add(self, run: Run, stamp: str) -> None:
        """Put a run in, in place of what is there of it; all of it or nothing.

        Args:
            run: one that has ended.
            stamp: tells its folder's state, so that a change is seen.

        Raises:
            HarnessError: the database cannot be written to.
        """
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                if not self._there(run, stamp):  # another process may have been quicker
                    self._add(run, stamp)
                self.connection.execute("COMMIT")
            except BaseException:
                self._tests, self._newest_test = {}, 0
                self.connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            todo = "make room, or remove the file: it is made again from the run folders"
            raise HarnessError(f"the history with run {run.id}", str(error), todo) from error

    def _there(self, run: Run, stamp: str) -> bool:
        row = self.connection.execute("SELECT stamp FROM run WHERE name = ?", (run.id,)).fetchone()
        return row is not None and row[0] == stamp

    def _add(self, run: Run, stamp: str) -> None:
        noted = len(self.history.notes)
        self.connection.execute("DELETE FROM run WHERE name = ?", (run.id,))
        number = facts.insert(
            self.connection,
            "run (name, started, head, tree, dirty, runner, flavour, state, seconds, machine,"
            " stamp)",
            *(run.id, run.when.isoformat(), run.commit, run.plan.head.tree, run.dirty),
            *(run.runner, run.plan.flavour, str(run.state), 0.0, str(run.used.machine), stamp),
        )
        seconds = sum(self._item(run, number, planned) for planned in run.plan.items)
        self.connection.execute("UPDATE run SET seconds = ? WHERE id = ?", (seconds, number))
        facts.builds(self.connection, number, run.used)
        for path, why in facts.coverage(self.connection, number, run.folder.path):
            self.history.note(path, why)
        self.connection.executemany(
            "INSERT INTO note VALUES (?, ?)",
            [(number, note) for note in self.history.notes[noted:]],
        )

    def _item(self, run: Run, number: int, planned: records.Item) -> float:
        """One item with all that belongs to it; returns how long it took, in seconds."""
        folder = run.folder.item_path(planned.id)
        if run.state is State.ABANDONED and not folder.result.exists():
            return 0.0  # it never got there
        try:
            result = records.read(records.Result, folder.result)
        except UNREADABLE as error:
            self.history.note(folder.path, error)
            return 0.0
        seconds = result.seconds or 0.0
        seconds = seconds if math.isfinite(seconds) else 0.0
        verdict = result.verdict
        item = facts.insert(
            self.connection,
            "item (run, name, kind, suite, verdict, reason, required, seconds, started, peak_mb,"
            " image)",
            *(number, planned.id, planned.kind, planned.shard.suite if planned.shard else ""),
            *(str(verdict.kind), verdict.reason[:_REASON_LENGTH], result.required, seconds),
            *(result.started, result.peak_pss_mb, run.plan.images.get(planned.id, "")),
        )
        told = planned.kind != "leg" and self._outcomes(item, self.history.cases(run, planned.id))
        if verdict.kind in RED and not told:
            self._item_fault(item, verdict, evidence.of_item(folder, verdict))
        if planned.kind == "leg":
            for path, why in facts.leg(self.connection, item, folder):
                self.history.note(path, why)
        return seconds

    def _outcomes(self, item: int, cases: Iterable[PastCase]) -> bool:
        """The tests of a suite's item; returns whether one of them showed a fault."""
        rows: dict[str, PastCase] = {}
        for case in cases:
            # Of two cases of one test the one that shows a fault tells more.
            if case.nodeid not in rows or case.kind in RED:
                rows[case.nodeid] = case
        ids = self._ids(rows)
        # By their numbers, which is where the tables have them.
        numbered = sorted((ids[nodeid], case) for nodeid, case in rows.items())
        self.connection.executemany(
            "INSERT INTO outcome VALUES (?, ?, ?, ?, ?, ?)",
            [
                (item, test, _SAID[case.kind], case.seconds, case.attempts, case.flaky)
                for test, case in numbered
            ],
        )
        packed.write(
            self.connection,
            item,
            [(test, _SAID[case.kind], case.seconds, case.flaky) for test, case in numbered],
        )
        red = [each for each in rows.values() if each.kind in RED]
        for each in red:
            said = evidence.of_test(str(each.kind), each.reason, each.text)
            self._fault(item, ids[each.nodeid], said, each.signature)
        return bool(red)

    def _item_fault(self, item: int, verdict: Verdict, said: Evidence) -> None:
        signature = of_messages([verdict.reason]) if verdict.kind in FAULTS else ""
        self._fault(item, None, said, signature)

    def _fault(self, item: int, test: int | None, said: Evidence, signature: str) -> None:
        found = classify(said, self.rules)
        facts.insert(
            self.connection,
            "fault (item, test, verdict, signature, reason, class, rule, grouping)",
            *(item, test, said.kind, signature, said.cause[:_REASON_LENGTH]),
            *(str(found.failure_class), found.rule, found.group),
        )

    def _ids(self, nodeids: Iterable[str]) -> dict[str, int]:
        """The number of each test, new ones included; read once, and then only what is new."""
        known = self.connection.execute(
            "SELECT id, nodeid FROM test WHERE id > ? ORDER BY id", (self._newest_test,)
        )
        for number, nodeid in known:
            self._tests[nodeid] = self._newest_test = number
        new = [nodeid for nodeid in nodeids if nodeid not in self._tests]
        numbers = range(self._newest_test + 1, self._newest_test + 1 + len(new))
        rows = list(zip(numbers, new, files_of(new), strict=True))
        self.connection.executemany("INSERT INTO test VALUES (?, ?, ?)", rows)
        for number, nodeid, _ in rows:
            self._tests[nodeid] = self._newest_test = number
        return self._tests
