"""What became of one test, over all its attempts: streams are read into it, reports made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from exacthead.verdict import Kind, Verdict

Phase = Literal["collection", "setup", "call", "teardown", "process"]

# A test that ended in one of these has shown a fault (of its own or of its process).
FAULTS = frozenset({Kind.FAILED, Kind.CRASHED, Kind.TIMED_OUT})
# The same, those included that are known and do not block.
RED = FAULTS | {Kind.QUARANTINED}
# What did not come to an end of its own.
UNRUN = frozenset({Kind.NOT_RUN, Kind.INTERRUPTED, Kind.SKIPPED})
_WORST_FIRST = (
    *(Kind.CRASHED, Kind.TIMED_OUT, Kind.INTERRUPTED, Kind.FAILED, Kind.NOT_RUN),
    *(Kind.SKIPPED, Kind.QUARANTINED, Kind.PASSED),
)


@dataclass(frozen=True)
class Cause:
    """One reason why an attempt is no plain pass; a call and its teardown can give one each.

    Attributes:
        phase: where it happened; ``process`` for what ended the process from within or outside.
        verdict: its kind and, in one line, why.
        text: the long form: a traceback, the last lines of output, stacks.
        expected: the test ran and failed as its ``xfail`` says; only of a skip.
    """

    phase: Phase
    verdict: Verdict
    text: str = ""
    expected: bool = False


@dataclass(frozen=True)
class Output:
    r"""What a phase wrote to one stream; bytes that are no UTF-8 stand as ``\xff``."""

    phase: Phase
    stream: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True)
class Attempt:
    """One run of a test in one process.

    Attributes:
        process: the number of the process in its shard, from 1.
        seconds: setup, call and teardown together; None when its end was not seen.
        causes: in the order in which they came; empty for a plain pass.
        outputs: in the order in which they came.
        skipped_parts: why subtests of it skipped themselves, a reason each.
    """

    process: int
    seconds: float | None
    causes: tuple[Cause, ...] = ()
    outputs: tuple[Output, ...] = ()
    skipped_parts: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst of the causes; passed when there are none."""
        if not self.causes:
            return Verdict(Kind.PASSED)
        return min((each.verdict for each in self.causes), key=_badness)

    @property
    def skipped(self) -> bool:
        """Whether the test, or a part of it, left its work undone by its own word."""
        skips = [each for each in self.causes if each.verdict.kind is Kind.SKIPPED]
        return bool(self.skipped_parts) or any(not each.expected for each in skips)


@dataclass(frozen=True)
class TestResult:
    """One planned test and its end.

    Attributes:
        nodeid: pytest's; the path of a file for a file that could not be collected or skips itself.
        attempts: at least one; every one after the first ran in a fresh process of its own.
        verdict: the last word; that of the last attempt unless known failures say otherwise.
        notes: what a report should say beside it (``also red on base abc123``).
        properties: further facts for JUnit, by name.
    """

    __test__ = False  # for pytest, to which the name looks like a test class

    nodeid: str
    attempts: tuple[Attempt, ...]
    verdict: Verdict
    notes: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def flaky(self) -> bool:
        """Whether a fresh process disagreed: at least one attempt passed and one showed a fault."""
        kinds = {attempt.verdict.kind for attempt in self.attempts}
        return Kind.PASSED in kinds and bool(kinds & FAULTS)

    @property
    def seconds(self) -> float | None:
        """The last attempt's time, in seconds."""
        return self.attempts[-1].seconds


def _badness(verdict: Verdict) -> int:
    return _WORST_FIRST.index(verdict.kind)
