"""From how a suite's driver ended, and what its processes streamed, to the item's result."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from exacthead import junit
from exacthead.cover.item import combine_item
from exacthead.errors import HarnessError
from exacthead.junit import Case
from exacthead.runs.render import block
from exacthead.units.death import last_bytes
from exacthead.units.read import read_results
from exacthead.units.result import Attempt, Cause, TestResult
from exacthead.units.verdict import details, shard_verdict
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.ended import Ended
    from exacthead.judgement import Judgement
    from exacthead.runs.item import ItemOutcome, ItemRequest
    from exacthead.runs.result import ItemResult
    from exacthead.verdict import Verdict


def conclude_suite(ended: Ended, judgement: Judgement) -> ItemResult:
    """The result of a suite's item, with its JUnit file: each planned test has a case there.

    Args:
        ended: the item, and how its driver ended or that it never started.
        judgement: what is known of faults beforehand.

    Raises:
        HarnessError: the item's folder cannot be written to.
    """
    item, request, outcome = ended.item, ended.request, ended.outcome
    if item.shard is None or item.settled:
        log = last_bytes(request.folder.log)
        ended.write_cases([Case(item.id, "the suite", None, outcome.verdict, message=log)])
        return ended.result(details=(block(log),) if log else ())
    whole = outcome.verdict.kind in {Kind.PASSED, Kind.FAILED}
    unfinished = "" if whole else str(outcome.verdict)
    # By a signal of its own, as a test may send one to its parent.
    killed = outcome.verdict.kind is Kind.CRASHED and (outcome.returncode or 0) < 0
    reading = read_results(request.folder.path, item.shard.nodeids, unfinished, killed=killed)
    results = judgement.tests([_without_secrets(each, ended.clean) for each in reading.results])
    faults = (*reading.faults, *item.shard.faults)
    verdict = shard_verdict(results, faults, outcome, may_skip=item.shard.may_skip)
    cases = results
    if not verdict.green and all(result.verdict.green for result in results):
        # No test is to blame (a crash at the end, a leftover), and yet the file must be red.
        cases = (*results, TestResult(item.id, (_attempt(outcome, verdict),), verdict))
    junit.write_results(request.folder.junit, item.id, cases, ended.properties, outcome.seconds)
    notes = _coverage(request, unfinished) if item.measured else ()
    return ended.result(
        verdict=verdict,
        details=(details(results),),
        notes=(*outcome.notes, *reading.notes, *notes),
    )


def _without_secrets(result: TestResult, clean: Callable[[str], str]) -> TestResult:
    """What a test said is compared with earlier runs, of which only what is masked is left."""
    if not any(attempt.causes for attempt in result.attempts):
        return result

    def said(verdict: Verdict) -> Verdict:
        return replace(verdict, reason=clean(verdict.reason))

    attempts = tuple(
        replace(
            attempt,
            causes=tuple(
                replace(cause, verdict=said(cause.verdict), text=clean(cause.text))
                for cause in attempt.causes
            ),
        )
        for attempt in result.attempts
    )
    return replace(result, attempts=attempts, verdict=said(result.verdict))


def _attempt(outcome: ItemOutcome, verdict: Verdict) -> Attempt:
    return Attempt(0, outcome.seconds, (Cause("process", verdict),))


def _coverage(request: ItemRequest, unfinished: str) -> tuple[str, ...]:
    """Put the item's coverage together; what is lost of it is a note here, and red at a gate."""
    try:
        reasons = combine_item(request.folder.path, ended=unfinished).reasons
    except HarnessError as error:
        reasons = (str(error),)
    if not reasons:
        return ()
    more = f"; and {len(reasons) - 1} more, in coverage.json" if len(reasons) > 1 else ""
    return (f"coverage incomplete: {reasons[0]}{more}",)
