"""Assembling: from the events of processes and driver to one result for each test.

The driver feeds events as they come, the reader feeds them from files; both end up here, so that
what the driver retries is what the report calls a fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from exacthead.units.result import Attempt, Cause, Output, TestResult
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PHASES = frozenset({"setup", "call", "teardown"})
# How pytest marks the reason of a test that its ``xfail(run=False)`` kept from running.
_NOT_RUN = "[NOTRUN]"


@dataclass
class _Record:
    """One test in one process, while its events come in."""

    process: int
    causes: list[Cause] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    skipped_parts: list[str] = field(default_factory=list)
    seconds: float | None = None
    over: bool = False  # its end was seen, or someone said what ended it

    def attempt(self) -> Attempt:
        return Attempt(
            self.process,
            self.seconds,
            tuple(self.causes),
            _joined(self.outputs),
            tuple(self.skipped_parts),
        )

    def all_notes(self) -> list[str]:
        """Its notes, and what it left undone in part."""
        count = len(self.skipped_parts)
        if not count:
            return self.notes
        reasons = "; ".join(dict.fromkeys(self.skipped_parts))
        return [*self.notes, f"{count} subtest{'s' if count > 1 else ''} skipped: {reasons}"]


class Assembler:
    """Takes events in the order of each process; different processes may interleave.

    Args:
        keep_output: keep what tests wrote; the driver does without.
    """

    def __init__(self, *, keep_output: bool = True) -> None:
        self._keep_output = keep_output
        self._records: dict[tuple[str, int], _Record] = {}
        self._by_test: dict[str, list[_Record]] = {}
        self._not_run: dict[str, str] = {}

    def feed(self, process: int, event: Mapping[str, Any]) -> None:
        """Take one event of a process, or of the driver about a process."""
        handler = getattr(self, f"_on_{event['event']}", None)
        if handler is not None:
            handler(process, event)

    def attempt(self, test: str, process: int) -> Attempt | None:
        """What a test did in one process, as far as it is known."""
        record = self._records.get((test, process))
        return record.attempt() if record else None

    def tests(self) -> list[str]:
        """Everything that has a record, in the order in which the records began."""
        return [test for test, records in self._by_test.items() if records]

    def result(self, test: str, *, open_verdict: Verdict, default: str) -> TestResult:
        """The result of one test over all its attempts.

        Args:
            test: its node id.
            open_verdict: for an attempt that began and whose end nobody told.
            default: why it was not run, when nobody said so.
        """
        records = sorted(self._by_test.get(test, ()), key=lambda each: each.process)
        if not records:
            verdict = Verdict(Kind.NOT_RUN, self._not_run.get(test, default))
            return TestResult(test, (Attempt(0, None, (Cause("process", verdict),)),), verdict)
        for record in records:
            if not record.over:
                record.causes.append(Cause("process", open_verdict))
                record.over = True
        attempts = tuple(record.attempt() for record in records)
        return TestResult(
            test,
            attempts,
            attempts[-1].verdict,
            notes=tuple(dict.fromkeys(note for record in records for note in record.all_notes())),
            properties=dict(records[-1].properties),
        )

    def _record(self, process: int, test: str) -> _Record:
        key = (test, process)
        if key not in self._records:
            self._records[key] = _Record(process)
            self._by_test.setdefault(test, []).append(self._records[key])
        return self._records[key]

    def _on_begin(self, process: int, event: Mapping[str, Any]) -> None:
        self._record(process, event["test"])

    def _on_output(self, process: int, event: Mapping[str, Any]) -> None:
        # A file that was collected well is no result, whatever it wrote meanwhile.
        if self._keep_output and (event["phase"] != "collection"):
            output = Output(event["phase"], event["stream"], event["text"])
            self._record(process, event["test"]).outputs.append(output)

    def _on_phase(self, process: int, event: Mapping[str, Any]) -> None:
        record = self._record(process, event["test"])
        outcome, reason, expected = event["outcome"], event["reason"], event["xfail"]
        if outcome == "passed":
            if event["phase"] == "call":
                record.notes.append(f"passed although marked xfail: {expected or 'no reason'}")
            return
        as_expected = False
        if outcome == "skipped":
            as_expected = expected is not None and _NOT_RUN not in expected
            words = reason if expected is None else f"xfail: {expected or reason}"
            verdict = Verdict(Kind.SKIPPED, words)
        elif outcome == "failed":
            verdict = Verdict(Kind.FAILED, reason)
        else:  # a plugin's own word, as "rerun" is
            words = f"{reason} (a plugin called it {outcome!r} and went on in the same process)"
            verdict = Verdict(Kind.FAILED, words)
        record.causes.append(Cause(event["phase"], verdict, event["text"], as_expected))

    def _on_part_skipped(self, process: int, event: Mapping[str, Any]) -> None:
        self._record(process, event["test"]).skipped_parts.append(event["reason"])

    def _on_forked(self, process: int, event: Mapping[str, Any]) -> None:
        words = "a child that it forked came back into pytest; the child was ended"
        self._record(process, event["test"]).causes.append(
            Cause("process", Verdict(Kind.FAILED, words))
        )

    def _on_properties(self, process: int, event: Mapping[str, Any]) -> None:
        self._record(process, event["test"]).properties.update(event["properties"])

    def _on_broken(self, process: int, event: Mapping[str, Any]) -> None:
        record = self._record(process, event["test"])
        record.over = True
        words = f"it ended pytest: {event['reason']}"
        record.causes.append(Cause("process", Verdict(Kind.FAILED, words)))

    def _on_end(self, process: int, event: Mapping[str, Any]) -> None:
        record = self._record(process, event["test"])
        record.over = True
        record.seconds = float(event["seconds"])
        told = {cause.phase for cause in record.causes}
        untold = _PHASES - set(event["passed"]) - told
        if "setup" in told:
            untold -= {"call"}  # a setup that fails or skips is the end of it
        if untold and not any(cause.verdict.kind is Kind.FAILED for cause in record.causes):
            words = f"pytest told nothing of its {', '.join(sorted(untold))}"
            record.causes.append(Cause("process", Verdict(Kind.NOT_RUN, words)))

    def _on_missing(self, process: int, event: Mapping[str, Any]) -> None:
        record = self._record(process, event["test"])
        if not record.over:
            record.over = True
            verdict = Verdict(Kind(event["kind"]), event["reason"])
            record.causes.append(Cause("collection", verdict))

    def _on_file(self, process: int, event: Mapping[str, Any]) -> None:
        """A file that could not be collected, or skips itself; the same in every process."""
        if self._by_test.get(event["file"]):
            return
        record = self._record(process, event["file"])
        record.over = True
        kind = Kind.SKIPPED if event["outcome"] == "skipped" else Kind.FAILED
        cause = Cause("collection", Verdict(kind, event["reason"]), event["text"])
        record.causes.append(cause)

    def _on_lost(self, process: int, event: Mapping[str, Any]) -> None:
        """The driver's word on what was in flight when a process ended."""
        record = self._record(process, event["test"])
        record.over = True
        verdict = Verdict(Kind(event["kind"]), event["reason"])
        record.causes.append(Cause(event["phase"], verdict, event["text"]))

    def _on_void(self, process: int, event: Mapping[str, Any]) -> None:
        """What the driver cut short without blaming it, and runs again."""
        record = self._records.pop((event["test"], process), None)
        if record is not None:
            self._by_test[event["test"]].remove(record)

    def _on_not_run(self, _process: int, event: Mapping[str, Any]) -> None:
        for test in event["tests"]:
            self._not_run.setdefault(test, event["reason"])


def _joined(outputs: Iterable[Output]) -> tuple[Output, ...]:
    """Chunks of one phase and stream joined again, in the order in which each came first."""
    texts: dict[tuple[Any, Any], list[str]] = {}
    for output in outputs:
        texts.setdefault((output.phase, output.stream), []).append(output.text)
    return tuple(Output(*key, "".join(parts)) for key, parts in texts.items())
