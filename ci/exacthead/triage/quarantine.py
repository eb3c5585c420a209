"""Known failures applied to results: what is known still runs and is shown, and does not block."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from exacthead.units.result import FAULTS
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from exacthead.runs.result import ItemResult
    from exacthead.triage.known import Known, KnownFailure
    from exacthead.units.result import Attempt, TestResult

_UNRUN = frozenset({Kind.NOT_RUN, Kind.INTERRUPTED})


def apply(
    results: Iterable[TestResult], known: Known, runner: str, today: date
) -> tuple[TestResult, ...]:
    """Give known faults the verdict ``quarantined``; applied twice, nothing changes any more.

    Only a fault of a test that ran is quarantined. A file that could not be collected is none: the
    tests in it did not run, whatever is known about them. Neither is a test of which a part
    did not run, beside its fault.

    Args:
        results: in any order, which is kept.
        known: the known failures.
        runner: the kind of the runner that they ran on.
        today: the day on which an entry must still hold.
    """
    return tuple(_apply(result, known, runner, today) for result in results)


def apply_leg(result: ItemResult, known: Known, runner: str, today: date) -> ItemResult:
    """The same for the result of a leg; the id of its item is ``job.leg``."""
    entries = known.for_leg(result.item_id, runner)
    verdict, said = _judge(result.verdict, entries, today)
    notes = (*result.notes, *(note for note in said if note not in result.notes))
    return result.model_copy(update={"verdict": verdict, "notes": notes})


def _apply(result: TestResult, known: Known, runner: str, today: date) -> TestResult:
    if not _ran(result.attempts[-1]):
        return result
    verdict, said = _judge(result.verdict, known.for_test(result.nodeid, runner), today)
    notes = (*result.notes, *(note for note in said if note not in result.notes))
    return replace(result, verdict=verdict, notes=notes)


def _ran(attempt: Attempt) -> bool:
    """Whether a test ran as far as its faults let it."""
    return not any(
        cause.phase == "collection" or cause.verdict.kind in _UNRUN for cause in attempt.causes
    )


def _judge(
    verdict: Verdict, entries: tuple[KnownFailure, ...], today: date
) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict that the closest entry leaves, and what a report should say beside it."""
    holding = [entry for entry in entries if not entry.expired(today)]
    if verdict.kind in FAULTS and holding:
        entry = holding[0]
        link = f"{entry.issue}, until {entry.expires}"
        reason = f"{entry.reason} ({link}); {verdict.kind}: {verdict.reason}"
        return Verdict(Kind.QUARANTINED, reason), ()
    if verdict.kind in FAULTS and entries:
        entry = entries[0]
        return verdict, (f"known failure {entry.issue} expired on {entry.expires}",)
    if verdict.kind is Kind.PASSED and holding:
        return verdict, (f"passes, though known to fail: {holding[0].issue}",)
    return verdict, ()
