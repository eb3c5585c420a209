"""History: what became of tests and legs in earlier runs, read from the run folders."""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from pydantic import ValidationError

from exacthead.errors import HarnessError
from exacthead.history import records
from exacthead.history.cases import read_cases
from exacthead.runs.folder import RunFolder, State
from exacthead.triage.signature import of_messages
from exacthead.units.result import FAULTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from exacthead.history.cases import PastCase
    from exacthead.verdict import Kind

_RUN_ID = re.compile(r"(\d{8}-\d{6})-\S+", re.ASCII)
_LEG = "leg"
# The pages over all runs, beside them.
DASHBOARD = "dashboard"
_QUOTE = {'"': "&quot;"}
_STAMP = "%Y%m%d-%H%M%S"
# What another version, another tool or a full disk may have left in a folder. RecursionError: of
# data nested without end.
UNREADABLE = (OSError, ValueError, RecursionError, HarnessError)


@dataclass(frozen=True)
class Run:
    """One earlier run.

    Attributes:
        id: the name of its folder.
        when: when it started, UTC.
        commit: its head's commit.
        dirty: whether its checkout was anything but that commit, from its start to its end.
        runner: the kind of its runner.
        state: what became of it.
        items: the kind (``leg``, ``suite``, ...) of each of its items, by id.
        folder: where it lies.
        plan: what was planned.
        used: what was really used.
    """

    id: str
    when: datetime
    commit: str
    dirty: bool
    runner: str
    state: State
    items: dict[str, str]
    folder: RunFolder
    plan: records.Plan
    used: records.Provenance


@dataclass(frozen=True)
class Outcome:
    """What became of one test, or of one leg, in one run.

    Attributes:
        run: the run; its commit, its day and whether it was dirty hold for the outcome.
        item: the id of the item.
        nodeid: the test's; empty when the outcome is that of the item itself.
        kind: its verdict's.
        seconds: how long it took; None when that is not known.
        signature: of its fault (:mod:`exacthead.triage.signature`); empty without one.
        flaky: whether it passed after an attempt that showed a fault.
        reason: why it is no plain pass, one line.
        text: the long form of that, of a test.
        attempts: how many there were.
    """

    run: Run
    item: str
    nodeid: str
    kind: Kind
    seconds: float | None
    signature: str = ""
    flaky: bool = False
    reason: str = ""
    text: str = ""
    attempts: int = 1


@dataclass
class History:
    """The run folders below ``runs_folder``, read only as far as they are asked for.

    A folder or file that is no run's, or is broken, costs itself and becomes a note.

    Attributes:
        runs_folder: the folder of all runs; it need not exist.
        notes: what could not be read, a sentence each; they come while the history is read.
    """

    runs_folder: Path
    notes: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Outcome]:
        """Every outcome, the newest run first."""
        for run in self.runs():
            yield from self.outcomes(run)

    def runs(self) -> Iterator[Run]:
        """The runs that have ended, the newest first; only their headers are read.

        A run that goes on, or that died before it had a worker, has nothing to say.
        """
        try:
            paths = [path for path in self.runs_folder.iterdir() if _may_be_a_run(path)]
        except FileNotFoundError:
            return
        except OSError as error:
            self.note(self.runs_folder, error)
            return
        for path in sorted(paths, key=lambda path: path.name, reverse=True):
            try:
                run = read_run(path)
            except UNREADABLE as error:
                self.note(path, error)
                continue
            if run is not None:
                yield run

    def outcomes(self, run: Run, mentioning: Collection[str] = ()) -> Iterator[Outcome]:
        """What became of the items of a run: of a leg itself, and of each test of a suite.

        Args:
            run: one of :meth:`runs`.
            mentioning: texts (files of tests, ids of legs); what mentions none of them is passed
                over unread. Empty for everything.
        """
        for item in run.items:
            yield from self.item_outcomes(run, item, mentioning)

    def item_outcomes(
        self, run: Run, item: str, mentioning: Collection[str] = ()
    ) -> Iterator[Outcome]:
        """The same of one item."""
        if run.items[item] == _LEG:
            if not mentioning or item in mentioning:
                yield from self._leg(run, item)
            return
        for case in self.cases(run, item, mentioning):
            yield Outcome(run, item, *case)

    def cases(self, run: Run, item: str, mentioning: Collection[str] = ()) -> Iterator[PastCase]:
        """The tests of a suite's item alone, without what all outcomes of the run share."""
        folder = run.folder.item_path(item)
        source = folder.junit
        if run.state is State.ABANDONED and not source.exists():
            return  # it never got there
        try:
            if not mentioning or _mentions(source, mentioning):
                yield from read_cases(source)
        except UNREADABLE as error:
            self.note(folder.path, error)

    def _leg(self, run: Run, item: str) -> Iterator[Outcome]:
        folder = run.folder.item_path(item)
        if run.state is State.ABANDONED and not folder.result.exists():
            return
        try:
            yield _leg(run, item, folder.result)
        except UNREADABLE as error:
            self.note(folder.path, error)

    def note(self, path: Path, error: Exception) -> None:
        """Keep that something could not be read, once."""
        place = path.relative_to(self.runs_folder) if path != self.runs_folder else path.name
        note = f"{place}: {in_words(error)}"
        if note not in self.notes:
            self.notes.append(note)


def _may_be_a_run(path: Path) -> bool:
    """Not so of what else is kept beside runs: their pages, and what is being written."""
    return path.is_dir() and path.name != DASHBOARD and not path.name.startswith(".")


def read_run(path: Path) -> Run | None:
    """The run in a folder; None when it still goes on, or nothing of it was run."""
    stamp = _RUN_ID.fullmatch(path.name)
    if stamp is None:
        raise ValueError("not the name of a run folder")
    folder = RunFolder(path)
    state = folder.state()
    plan = records.read(records.Plan, path / "plan.json")
    used = path / "provenance.json"
    if state is State.RUNNING or not used.exists():
        return None
    provenance = records.read(records.Provenance, used)
    if any((path.parent / part).is_dir() for part in provenance.parts):
        return None  # merged: its parts speak for themselves
    return Run(
        id=path.name,
        when=datetime.strptime(stamp[1], _STAMP).replace(tzinfo=UTC),
        commit=plan.head.commit,
        dirty=plan.head.dirty or bool(provenance.changed),
        runner=plan.runner,
        state=state,
        items={item.id: item.kind for item in plan.items},
        folder=folder,
        plan=plan,
        used=provenance,
    )


def _leg(run: Run, item: str, path: Path) -> Outcome:
    result = records.read(records.Result, path)
    verdict = result.verdict
    fault = of_messages([verdict.reason]) if verdict.kind in FAULTS else ""
    reason = " ".join(verdict.reason.split())
    return Outcome(run, item, "", verdict.kind, result.seconds, fault, reason=reason)


def _mentions(path: Path, texts: Collection[str]) -> bool:
    """Whether a JUnit file holds one of the texts; far quicker than reading it as XML."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(content.find(escape(text, _QUOTE).encode()) >= 0 for text in texts)


def in_words(error: Exception) -> str:
    """Why something of a run could not be read, in one line."""
    match error:
        case HarnessError():
            said = error.found
        case ValidationError():
            first = error.errors()[0]
            said = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        case OSError():
            said = f"{error.strerror or error}: {PurePath(str(error.filename)).name}"
        case _:
            said = str(error)
    return " ".join(said.split())
