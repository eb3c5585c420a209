"""From the results of a shard's tests to the verdict of its item, and the words below it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from exacthead.runs.render import code, plain
from exacthead.units.result import FAULTS
from exacthead.verdict import Kind, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exacthead.runs.item import ItemOutcome
    from exacthead.units.result import TestResult

# The item's own end says more than its tests do.
_OUTSIDE = frozenset({Kind.TIMED_OUT, Kind.CRASHED, Kind.INTERRUPTED, Kind.NOT_RUN})
# The driver's exit codes that its results explain: all fine, some test at fault.
_EXPLAINED = frozenset({0, 1})
_GREEN = frozenset({Kind.PASSED, Kind.QUARANTINED})
_UNRUN = frozenset({Kind.NOT_RUN, Kind.INTERRUPTED})
_NAMED = 3
_SHOWN = 20
_CUT = 300


def shard_verdict(
    results: Sequence[TestResult],
    faults: Sequence[str],
    outcome: ItemOutcome,
    *,
    may_skip: bool,
) -> Verdict:
    """The verdict of a shard (law 2): green only when each planned test was seen to end well.

    Args:
        results: one for each planned test, known failures already applied.
        faults: what went wrong outside of any test.
        outcome: how the driver's process ended.
        may_skip: whether tests that skip themselves are accepted.
    """
    problems = [*_test_problems(results, may_skip=may_skip), *faults]
    if outcome.verdict.kind in _OUTSIDE:
        return Verdict(outcome.verdict.kind, "; ".join([outcome.verdict.reason, *problems]))
    if outcome.leftovers:
        problems.append(f"left behind: {'; '.join(outcome.leftovers)}")
    if outcome.returncode not in _EXPLAINED:
        problems.append(f"the driver: {outcome.verdict.reason or 'no exit code'}")
    if not any(result.verdict.kind in _GREEN for result in results):
        problems.append(f"no test passed: {count(results)}")
    elif outcome.returncode == 1 and not problems and not _quarantined(results):
        problems.append("the driver ended red, and no result says why")
    return Verdict(Kind.FAILED, "; ".join(problems)) if problems else Verdict(Kind.PASSED)


def count(results: Sequence[TestResult]) -> str:
    """How many tests there are of each kind: ``120 tests: 118 passed, 2 failed``."""
    kinds = Counter(result.verdict.kind for result in results)
    flaky = sum(result.flaky for result in results)
    words = [f"{kinds[kind]} {kind}" for kind in Kind if kinds[kind]]
    words += [f"{flaky} of them flaky"] if flaky else []
    return f"{len(results)} tests: {', '.join(words) or 'none'}"


def details(results: Sequence[TestResult]) -> str:
    """Markdown of the tests that are no plain pass: each with its reason and all its attempts."""
    shown = [each for each in results if not _plain(each)]
    lines = [count(results), *(_line(each) for each in shown[:_SHOWN])]
    if len(shown) > _SHOWN:
        lines.append(f"- and {len(shown) - _SHOWN} more, in the item's junit.xml")
    return "\n".join(lines)


def _test_problems(results: Sequence[TestResult], *, may_skip: bool) -> list[str]:
    problems = []
    skipped = [each for each in results if _skipped(each)]
    for words, found in (
        ("failed", [each.nodeid for each in results if each.verdict.kind in FAULTS]),
        ("not run to their end", [each.nodeid for each in results if each.verdict.kind in _UNRUN]),
        ("skipped themselves", [] if may_skip else [e.nodeid for e in skipped if not _part(e)]),
        ("skipped themselves in part", [] if may_skip else [e.nodeid for e in skipped if _part(e)]),
    ):
        if found:
            more = ", ..." if len(found) > _NAMED else ""
            named = ", ".join(found[:_NAMED])
            problems.append(f"{len(found)} of {len(results)} tests {words}: {named}{more}")
    return problems


def _skipped(result: TestResult) -> bool:
    """Whether a test did not do all its work; one that was expected to fail has done it."""
    green = result.verdict.kind in {Kind.PASSED, Kind.SKIPPED}
    return green and result.attempts[-1].skipped


def _part(result: TestResult) -> bool:
    return result.verdict.kind is Kind.PASSED


def _quarantined(results: Sequence[TestResult]) -> bool:
    return any(result.verdict.kind is Kind.QUARANTINED for result in results)


def _plain(result: TestResult) -> bool:
    return result.verdict.kind is Kind.PASSED and len(result.attempts) == 1 and not result.notes


def _line(result: TestResult) -> str:
    reason = " ".join(result.verdict.reason.split())
    said = [f"{result.verdict.kind}{f' ({reason[:_CUT]})' if reason else ''}"]
    if len(result.attempts) > 1:
        tries = ", ".join(str(attempt.verdict.kind) for attempt in result.attempts)
        said.append(f"attempts: {tries}")
    return f"- {code(result.nodeid)}: {plain('; '.join((*said, *result.notes)))}"
