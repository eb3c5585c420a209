"""A shift: processes that work through a list of groups, replaced when they die."""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING, Any

from exacthead.units.alive import alive
from exacthead.units.death import long_form
from exacthead.units.ending import Cut, Ending, meaning
from exacthead.units.inside.selection import is_below
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from exacthead.units.groups import Groups
    from exacthead.units.pytest_process import PytestProcess

_POLL_S = 0.05
# What the end of pytest may take of what is left of the shard's time.
_END_SHARE, _LEAST_END_S = 0.5, 1.0
# A signal to the whole item reaches tests and driver in any order.
_SIGNAL_S = 0.3
_FROM_OUTSIDE = frozenset({-1, -2, -15})


class Shift:
    """Works through groups; what it decides goes to the journal.

    Args:
        groups: the common list.
        start: starts the next process on that list.
        note: takes an event of or about a process: its number and the event.
        write: the same for events that are the driver's own and must be kept.
        halt: why nothing may run any more; empty while everything may.
        test_limit_s: the limit of one test.
        start_limit_s: the limit of pytest's start, of collecting one file, and of its end.
        deadline: when nothing may run any more, of the monotonic clock.
        excluded: files that ended a process while they were collected; added to.
    """

    def __init__(  # noqa: PLR0913 - what a shift needs of its driver
        self,
        groups: Groups,
        *,
        start: Callable[[Groups], PytestProcess],
        note: Callable[[int, dict[str, Any]], None],
        write: Callable[..., None],
        halt: Callable[[], Cut | None],
        test_limit_s: float,
        start_limit_s: float,
        deadline: float,
        excluded: dict[str, str],
    ) -> None:
        self._groups = groups
        self._start, self._note, self._write, self._halt = start, note, write, halt
        self._test_limit_s, self._start_limit_s = test_limit_s, start_limit_s
        self._deadline, self._excluded = deadline, excluded
        self._running: list[PytestProcess] = []
        self._deaths = 0
        self._over = ""

    def run(self, *, width: int, restarts: int) -> None:
        """Work until no group waits and no process runs.

        Args:
            width: how many processes run at once.
            restarts: how many may die before the rest is not run.
        """
        try:
            while True:
                if halt := self._halt():
                    self._stop_all(halt)
                while len(self._groups) > 0 and len(self._running) < width:
                    self._running.append(self._start(self._groups))
                if not self._running:
                    return
                self._wait()
                for process in list(self._running):
                    self._attend(process, alone=width == 1, restarts=restarts)
        finally:
            for process in self._running:  # only when something went wrong here
                process.end(0.0)
                os.waitpid(process.pid, 0)
                process.close()

    def _wait(self) -> None:
        files: list[Any] = [process.handle for process in self._running]
        files += [process.channel for process in self._running if process.channel is not None]
        select.select(files, [], [], _POLL_S)

    def _attend(self, process: PytestProcess, *, alone: bool, restarts: int) -> None:
        """Read what it has to say, answer it, look at the clock, notice its end."""
        ended = bool(select.select([process.handle], [], [], 0)[0])
        process.kills.look(process.pid)
        self._read(process)
        if ended:
            self._bury(process, None, restarts)
            return
        while question := process.question():
            self._answer(process, question, alone=alone)
        if time.monotonic() - process.since > self._limit_s(process):
            self._bury(process, self._cut(process), restarts)

    def _limit_s(self, process: PytestProcess) -> float:
        if process.test:
            return self._test_limit_s
        if not process.ending:
            return self._start_limit_s
        # Before the shard's own limit, which could not say what was waited for.
        rest_s = self._deadline - process.since
        return min(self._start_limit_s, max(_LEAST_END_S, rest_s * _END_SHARE))

    def _read(self, process: PytestProcess) -> None:
        for event in process.news():
            self._note(process.number, event)

    def _answer(self, process: PytestProcess, question: str, *, alone: bool) -> None:
        known = len(process.groups)
        if question == "rest":
            process.answer(rest=self._groups.rest(known, alone=alone))
            return
        # Everything that it has told so far comes before what it gets now.
        self._read(process)
        group = None if self._halt() else self._groups.take(known)
        if group is not None:
            process.claimed.update(dict.fromkeys(process.groups[group]))
        process.answer(group=group)

    def _cut(self, process: PytestProcess) -> Cut:
        """Its time is up: note where it stands, then end it."""
        test, file = process.test, process.file
        text = process.where_it_stands()
        if test:
            reason = f"the limit of one test is {self._test_limit_s:g} s, its fixtures included"
        elif file:
            reason = f"the limit of collecting one file is {self._start_limit_s:g} s"
        elif process.ending:
            holds = alive(text)
            threads = f"; alive in it: {holds}" if holds else ""
            reason = f"pytest's end took longer than {self._limit_s(process):.1f} s{threads}"
        else:
            stage = "next test" if process.ready else "first file"
            reason = f"pytest did not come to its {stage} within {self._start_limit_s:g} s"
        process.end()
        return Cut(Kind.TIMED_OUT, reason, test, file, text)

    def _stop_all(self, halt: Cut) -> None:
        """End everything, because time is up or the driver was told to stop."""
        self._over = halt.reason
        self._give_up(self._groups.drop(lambda _: True), halt.reason)
        for process in list(self._running):
            text = process.where_it_stands() if halt.kind is Kind.TIMED_OUT else ""
            cut = Cut(halt.kind, halt.reason, process.test, process.file, text)
            process.end()
            self._bury(process, cut, restarts=0)

    def _bury(self, process: PytestProcess, cut: Cut | None, restarts: int) -> None:
        """Draw the conclusions from an end."""
        self._running.remove(process)
        returncode = process.wait()
        self._read(process)
        if cut is None and returncode in _FROM_OUTSIDE:
            time.sleep(_SIGNAL_S)
            if halt := self._halt():
                cut = Cut(halt.kind, halt.reason, process.test, process.file)
        ending = meaning(process, returncode, cut)
        if ending.kind is not Kind.PASSED:
            # What it started cannot be asked to tidy up any more.
            process.end(0.0)
            self._blame(process, ending, cut)
        _, _, usage = os.wait4(process.pid, 0)
        self._write(
            "exit",
            process=process.number,
            returncode=returncode,
            cpu_s=usage.ru_utime + usage.ru_stime,
            seconds=time.monotonic() - process.started,
            reason=ending.reason,
        )
        process.close()
        self._go_on(process, ending, restarts)

    def _blame(self, process: PytestProcess, ending: Ending, cut: Cut | None) -> None:
        """Tell who ended the process, with everything that it left behind."""
        blamed = ending.test or ending.file
        written = process.captured() if ending.test else {}
        for stream, chunks in written.items():
            for text in chunks:
                self._write(
                    "output",
                    process=process.number,
                    test=ending.test,
                    phase="process",
                    stream=stream,
                    text=text,
                )
        text = long_form(
            crash=process.crash_stacks() if cut is None else "",
            stacks=cut.text if cut else "",
            output="".join("".join(chunks) for chunks in written.values()),
            log=process.log_end(),
        )
        told = {"process": process.number, "kind": ending.kind, "reason": ending.reason}
        if blamed:
            phase = "process" if ending.test else "collection"
            self._write("lost", test=blamed, phase=phase, text=text, **told)
            process.claimed.pop(blamed, None)
        elif ending.fault:
            self._write("fault", phase="process", text=process.trouble or text, **told)
        if process.test and process.test != blamed:
            # It began another test before the blow fell; that one runs again.
            self._write("void", process=process.number, test=process.test)

    def _go_on(self, process: PytestProcess, ending: Ending, restarts: int) -> None:
        """Decide what happens to what it left over."""
        left = list(process.claimed)
        if ending.file:
            reason = f"{ending.file} could not be collected: {ending.reason}"
            self._excluded[ending.file] = reason
            self._give_up(self._groups.drop(lambda each: is_below(each, ending.file)), reason)
        died = ending.kind is not Kind.PASSED or bool(left)
        self._deaths += died
        if self._over or ending.stopped or ending.hopeless:
            why = self._over or ending.stopped or ending.reason
        elif died and self._deaths > restarts and (left or len(self._groups) > 0):
            why = f"{self._deaths} processes had died before it, and {restarts} may"
        else:
            self._groups.put_back(left)
            return
        self._give_up([*left, *self._groups.drop(lambda _: True)], why)

    def _give_up(self, tests: Iterable[str], reason: str) -> None:
        if tests := list(tests):
            self._write("not_run", process=0, tests=tests, reason=reason)
