"""Progress of a shard, for a person who watches: a line a group, and each fault as it comes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from exacthead.shards.nodeid import file_of
from exacthead.units.result import FAULTS
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from exacthead.units.result import Attempt, TestResult

_ORDER = tuple(Kind)


class Progress:
    """Prints what happens.

    Args:
        say: prints one line.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def line(self, text: str) -> None:
        """One line as it is."""
        self._say(text)

    def fault(self, test: str, attempt: Attempt) -> None:
        """A test that is no pass and no skip, with its reasons."""
        for cause in attempt.causes:
            if cause.verdict.kind not in {Kind.PASSED, Kind.SKIPPED}:
                where = "" if cause.phase in {"call", "process"} else f" in {cause.phase}"
                kind = str(cause.verdict.kind).upper()
                self._say(f"{kind}{where} {test} - {cause.verdict.reason}")

    def group(self, attempts: dict[str, Attempt]) -> None:
        """A group that is done, with its counts."""
        if not attempts:
            return
        seconds = sum(attempt.seconds or 0.0 for attempt in attempts.values())
        kinds = counted(attempt.verdict.kind for attempt in attempts.values())
        self._say(f"{_title(list(attempts))}: {kinds} ({seconds:.1f} s)")

    def retried(self, test: str, count: int, attempt: Attempt) -> None:
        """What a fresh process says of a test."""
        self._say(f"retry {count} of {test}: {attempt.verdict}")

    def end(self, results: Iterable[TestResult], faults: int, seconds: float) -> None:
        """The last line."""
        results = list(results)
        flaky = sum(result.flaky for result in results)
        parts = [counted(result.verdict.kind for result in results) or "nothing"]
        parts += [f"{flaky} flaky"] if flaky else []
        parts += [f"{faults} fault(s) outside of tests"] if faults else []
        self._say(f"shard: {', '.join(parts)} in {seconds:.1f} s")


def counted(kinds: Iterable[Kind]) -> str:
    """Counts by kind in words."""
    counts = Counter(kinds)
    return ", ".join(f"{counts[kind]} {kind}" for kind in _ORDER if counts[kind])


def shows_fault(attempt: Attempt) -> bool:
    """Whether an attempt is one that a retry may contradict."""
    return attempt.verdict.kind in FAULTS


def _title(tests: list[str]) -> str:
    files = list(dict.fromkeys(file_of(test) for test in tests))
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
