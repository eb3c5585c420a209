"""The driver of a shard: starts pytest processes, survives them, retries, says how it went."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exacthead.runs.stacks import STACKS_VARIABLE
from exacthead.shards.nodeid import within
from exacthead.units.assemble import Assembler
from exacthead.units.ending import Cut
from exacthead.units.groups import Groups
from exacthead.units.inside.stream import Stream
from exacthead.units.places import ShardFiles
from exacthead.units.progress import Progress, shows_fault
from exacthead.units.pytest_process import PytestProcess
from exacthead.units.shift import Shift
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from exacthead.units.order import ShardOrder
    from exacthead.units.result import Attempt, TestResult

OK, FAULTS, NOTHING, STOPPED = 0, 1, 5, 4

_GREEN = frozenset({Kind.PASSED, Kind.SKIPPED, Kind.QUARANTINED})
# What the driver keeps of the shard's time to end processes and to write.
_MARGIN_SHARE, _LONGEST_MARGIN_S = 0.2, 15.0
_UNTOLD = Verdict(Kind.CRASHED, "its process ended and nobody told how")


class Driver:
    """One shard, from its order to its exit code.

    Args:
        order: what to run.
        item: the item's folder.
        environment: the item's environment.
        say: prints one line of progress.
    """

    def __init__(
        self,
        order: ShardOrder,
        item: Path,
        environment: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        self._order = order
        self._files = ShardFiles(item)
        self._files.folder.mkdir(parents=True, exist_ok=True)
        self._started = time.monotonic()
        margin = min(_LONGEST_MARGIN_S, order.timeout_s * _MARGIN_SHARE)
        self._deadline = self._started + order.timeout_s - margin
        self._journal = Stream(str(self._files.journal))
        self._assembler = Assembler(keep_output=False)
        self._progress = Progress(say)
        self._excluded: dict[str, str] = {}
        self._settled: dict[int, dict[str, Attempt]] = {}
        self._number = self._faults = 0
        self._retrying = False
        self._told = ""
        stacks = environment.get(STACKS_VARIABLE)
        self._stacks = Path(stacks) if stacks else self._files.stacks
        self._stacks.mkdir(parents=True, exist_ok=True)
        self._more = {STACKS_VARIABLE: str(self._stacks)}

    def stop(self, number: int, _frame: object = None) -> None:
        """Be told to stop, by a signal."""
        self._told = self._told or signal.Signals(number).name

    def run(self) -> int:
        """Run the shard; returns the exit code (see ``drive.py``)."""
        planned = self._order.nodeids
        self._journal.write("driver", suite=self._order.suite, tests=len(planned))
        if not planned:
            self._progress.line("shard: empty by plan")
            return self._done(NOTHING)
        self._work(Groups(self._order.groups), self._order.processes, self._order.restarts)
        self._retrying = True
        for test in planned if self._order.retries else ():
            self._retry(test)
        results = [self._result(test) for test in self._everything()]
        self._progress.end(results, self._faults, time.monotonic() - self._started)
        if self._told:
            return self._done(STOPPED)
        red = self._faults or any(result.verdict.kind not in _GREEN for result in results)
        return self._done(FAULTS if red else OK)

    def _done(self, code: int) -> int:
        self._journal.write("done", code=code, seconds=time.monotonic() - self._started)
        return code

    def _everything(self) -> list[str]:
        planned = self._order.nodeids
        known = set(planned)
        return [*planned, *(test for test in self._assembler.tests() if test not in known)]

    def _result(self, test: str) -> TestResult:
        return self._assembler.result(test, open_verdict=_UNTOLD, default="nothing ran it")

    def _work(self, groups: Groups, width: int, restarts: int) -> None:
        shift = Shift(
            groups,
            start=self._start,
            note=self._note,
            write=self._write,
            halt=self._halt,
            test_limit_s=self._order.test_timeout_s,
            start_limit_s=self._order.start_timeout_s,
            deadline=self._deadline,
            excluded=self._excluded,
        )
        shift.run(width=width, restarts=restarts)

    def _start(self, groups: Groups) -> PytestProcess:
        self._number += 1
        process = PytestProcess(self._number, self._files.process(self._number), groups.snapshot())
        process.start(self._order, list(self._excluded), self._stacks, self._more)
        purpose = "retry" if self._retrying else "shard"
        self._write("process", process=self._number, pid=process.pid, purpose=purpose)
        return process

    def _retry(self, test: str) -> None:
        """Run a test that showed a fault again, alone, each time in a fresh process."""
        attempt = self._last_attempt(test)
        for count in range(1, self._order.retries + 1):
            # A file that could not be collected is no test of its own.
            if attempt is None or not shows_fault(attempt) or not within(test) or self._halt():
                return
            self._work(Groups([[test]]), 1, 0)
            attempt = self._assembler.attempt(test, self._number)
            if attempt is not None:
                self._progress.retried(test, count, attempt)

    def _last_attempt(self, test: str) -> Attempt | None:
        numbers = range(self._number, 0, -1)
        attempts = (self._assembler.attempt(test, number) for number in numbers)
        return next((attempt for attempt in attempts if attempt is not None), None)

    def _halt(self) -> Cut | None:
        """Why nothing may run any more."""
        if self._told:
            return Cut(Kind.INTERRUPTED, f"the shard was told to stop ({self._told})", "", "")
        if time.monotonic() > self._deadline:
            reason = f"the shard's limit is {self._order.timeout_s:g} s"
            return Cut(Kind.TIMED_OUT, reason, "", "")
        return None

    def _write(self, event: str, **fields: Any) -> None:
        """An event of the driver's own: kept, and taken into account."""
        self._journal.write(event, **fields)
        self._note(int(fields["process"]), {"event": event, **fields})

    def _note(self, process: int, event: dict[str, Any]) -> None:
        """Take an event into account, and tell people what they want to know at once."""
        self._assembler.feed(process, event)
        match event["event"]:
            case "end" | "missing" | "broken" | "lost" if not self._retrying:
                self._settle(process, event["test"])
            case "file" if event["outcome"] != "skipped":
                self._settle(process, event["file"])
            case "group" | "exit":
                self._progress.group(self._settled.pop(process, {}))
            case "not_run":
                self._progress.line(f"NOT RUN {len(event['tests'])} test(s): {event['reason']}")
            case "fault":
                self._faults += 1
                self._progress.line(f"FAULT of process {process}: {event['reason']}")

    def _settle(self, process: int, test: str) -> None:
        attempt = self._assembler.attempt(test, process)
        if attempt is not None:
            self._settled.setdefault(process, {})[test] = attempt
            self._progress.fault(test, attempt)
