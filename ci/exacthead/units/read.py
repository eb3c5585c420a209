"""Reading a shard's streams: one result for each planned test, whatever became of the processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.units.assemble import Assembler
from exacthead.units.places import ShardFiles
from exacthead.units.result import Cause, TestResult
from exacthead.units.tail import Tail
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

_UNTOLD = "the driver ended without a word about it"
_KILLED = "its driver was killed while it ran"
_DEAD = "the shard's driver had been killed before its turn"


@dataclass(frozen=True)
class Fault:
    """Something wrong that belongs to no test: a crash at exit, a fixture of the session.

    Attributes:
        process: the number of the process in its shard.
        cause: what happened.
    """

    process: int
    cause: Cause

    def __str__(self) -> str:
        where = f"process {self.process}: " if self.process else ""
        return f"{where}{self.cause.verdict}"


@dataclass(frozen=True)
class ProcessEnd:
    """One pytest process of the shard.

    Attributes:
        number: from 1, in the order of their starts.
        purpose: ``shard`` or ``retry``.
        seconds: wall time; None when its end was not seen.
        cpu_s: processor seconds of it and of the children it waited for; None as before.
        returncode: as of ``subprocess``; None when its end was not seen.
        reason: why it did not end as it should; empty when it did.
    """

    number: int
    purpose: str
    seconds: float | None = None
    cpu_s: float | None = None
    returncode: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class Reading:
    """Everything that a shard's streams say.

    Attributes:
        results: one for each planned id in planned order; then what else could not be collected
            or skipped itself (files, classes), in the order in which it came.
        outside: what is wrong and belongs to no test. Any of it makes the shard red.
        processes: by number.
        complete: the driver came to its end.
        notes: what a report should say (torn streams, output taken from logs).
    """

    results: tuple[TestResult, ...]
    outside: tuple[Fault, ...]
    processes: tuple[ProcessEnd, ...]
    complete: bool
    notes: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong and belongs to no test, a line each."""
        return tuple(map(str, self.outside))

    @property
    def seconds(self) -> dict[int, float]:
        """Wall seconds by process, of those whose end was seen."""
        return {each.number: each.seconds for each in self.processes if each.seconds is not None}


def read_results(
    folder: Path, nodeids: Sequence[str], interrupted: str, *, killed: bool = False
) -> Reading:
    """Read what a shard has left behind.

    Args:
        folder: the item's folder.
        nodeids: what was planned, in order.
        interrupted: why the item as a whole was ended from outside, in words; empty when it was
            not. It becomes the verdict of tests in flight and the reason of those not run.
        killed: the driver itself has died. A test in flight may have done that, and is the only one
            to blame; the others say it in short.

    Returns:
        The reading. Missing streams are no error: what they would tell about was not run.
    """
    files = ShardFiles(folder)
    assembler = Assembler()
    faults: list[Fault] = []
    notes: list[str] = []
    for number in files.numbers():
        tail = Tail(files.process(number).stream)
        for event in tail.read():
            assembler.feed(number, event)
            if event["event"] == "fault":
                fault = _fault(number, event, Kind.FAILED)
                # Every process that collects a file says the same of it.
                if event["phase"] != "collection" or fault.cause not in [f.cause for f in faults]:
                    faults.append(fault)
            if event["event"] == "start" and event["output_from"] == "log":
                notes.append(
                    f"process {number}: pytest's capture was {event['capture']!r}, so output is "
                    "taken from the process's log, where both streams are one"
                )
        if tail.torn:
            notes.append(f"process {number}: the last line of its stream is torn")
    journal = Tail(files.journal).read()
    ends, complete = _read_journal(journal, assembler, faults)
    if not complete and not interrupted:
        faults.append(_driver_lost())
    return Reading(
        results=tuple(
            _results(assembler, nodeids, *_ends(interrupted, complete=complete, killed=killed))
        ),
        outside=tuple(sorted(faults, key=lambda fault: fault.process)),
        processes=tuple(ends[number] for number in sorted(ends)),
        complete=complete,
        notes=tuple(notes),
    )


def _read_journal(
    journal: Iterable[Mapping[str, Any]], assembler: Assembler, faults: list[Fault]
) -> tuple[dict[int, ProcessEnd], bool]:
    """Take in the driver's events: the processes by number, and whether it came to its end."""
    ends: dict[int, ProcessEnd] = {}
    complete = False
    for event in journal:
        number = int(event.get("process", 0))
        assembler.feed(number, event)
        match event["event"]:
            case "process":
                ends[number] = ProcessEnd(number, event["purpose"])
            case "exit":
                ends[number] = ProcessEnd(
                    number,
                    ends[number].purpose,
                    float(event["seconds"]),
                    float(event["cpu_s"]),
                    event["returncode"],
                    event["reason"],
                )
            case "fault":
                faults.append(_fault(number, event, Kind(event["kind"])))
            case "done":
                complete = True
    return ends, complete


def _ends(interrupted: str, *, complete: bool, killed: bool) -> tuple[Verdict, str]:
    """The verdict of what was in flight, and why the rest was not run, where nobody says more."""
    if killed:
        return Verdict(Kind.CRASHED, _KILLED), _DEAD
    if interrupted:
        return Verdict(Kind.INTERRUPTED, interrupted), interrupted
    return Verdict(Kind.CRASHED, _UNTOLD), "no stream tells of it" if complete else _UNTOLD


def _results(
    assembler: Assembler, planned: Sequence[str], open_verdict: Verdict, default: str
) -> list[TestResult]:
    known = set(planned)
    others = [test for test in assembler.tests() if test not in known]
    return [
        assembler.result(test, open_verdict=open_verdict, default=default)
        for test in [*planned, *others]
    ]


def _fault(number: int, event: Mapping[str, Any], kind: Kind) -> Fault:
    return Fault(number, Cause(event["phase"], Verdict(kind, event["reason"]), event["text"]))


def _driver_lost() -> Fault:
    return Fault(0, Cause("process", Verdict(Kind.CRASHED, "the shard's driver did not finish")))
