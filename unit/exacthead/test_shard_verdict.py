"""Law 2 for the item of a shard: green only when every planned test was seen to end well."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.runs.item import ItemOutcome
from exacthead.units.result import Attempt, Cause, TestResult
from exacthead.units.verdict import count, details, shard_verdict
from exacthead.verdict import Kind, Verdict

PASSED = Verdict(Kind.PASSED)


def verdict(kind: Kind, reason: str = "so") -> Verdict:
    return Verdict(kind, "" if kind is Kind.PASSED else reason)


def result(kind: Kind, *, reason: str = "so", before: Kind | None = None) -> TestResult:
    kinds = [kind] if before is None else [before, kind]
    attempts = tuple(
        Attempt(
            number,
            0.5,
            () if each is Kind.PASSED else (Cause("call", verdict(each, reason)),),
        )
        for number, each in enumerate(kinds, 1)
    )
    return TestResult(f"test_it.py::test_{kind}", attempts, verdict(kind, reason))


def outcome(
    ended: Verdict = PASSED, returncode: int | None = 0, leftovers: tuple[str, ...] = ()
) -> ItemOutcome:
    return ItemOutcome(ended, returncode, None, 1.0, 0.0, leftovers, (), Path("log"))


def test_passed_tests_are_green() -> None:
    results = [result(Kind.PASSED), result(Kind.PASSED)]

    assert shard_verdict(results, [], outcome(), may_skip=False) == PASSED
    assert count(results) == "2 tests: 2 passed"


RED = Verdict(Kind.FAILED, "exit code 1")


@pytest.mark.parametrize(
    ("results", "faults", "ended", "reason"),
    [
        ([], [], outcome(), "no test passed: 0 tests: none"),
        ([result(Kind.SKIPPED)], [], outcome(), "no test passed: 1 tests: 1 skipped"),
        (
            [result(Kind.PASSED), result(Kind.FAILED)],
            [],
            outcome(RED, 1),
            "1 of 2 tests failed: test_it.py::test_failed",
        ),
        ([result(Kind.PASSED), result(Kind.NOT_RUN)], [], outcome(), "1 of 2 tests not run"),
        ([result(Kind.PASSED)], ["process 1: crashed"], outcome(RED, 1), "process 1: crashed"),
        ([result(Kind.PASSED)], [], outcome(RED, 1), "ended red, and no result says why"),
        ([result(Kind.PASSED)], [], outcome(RED, 2), "the driver: exit code 1"),
        (
            [result(Kind.PASSED)],
            [],
            outcome(Verdict(Kind.FAILED, "left"), 0, ("process 7",)),
            "left behind: process 7",
        ),
    ],
)
def test_what_is_not_seen_to_end_well_is_red(
    results: list[TestResult], faults: list[str], ended: ItemOutcome, reason: str
) -> None:
    found = shard_verdict(results, faults, ended, may_skip=True)

    assert found.kind is Kind.FAILED
    assert reason in found.reason


@pytest.mark.parametrize("kind", [Kind.TIMED_OUT, Kind.CRASHED, Kind.INTERRUPTED, Kind.NOT_RUN])
def test_the_item_s_own_end_is_its_verdict_and_the_tests_are_said_too(kind: Kind) -> None:
    ended = outcome(Verdict(kind, "from outside"), None)

    found = shard_verdict([result(Kind.FAILED)], [], ended, may_skip=True)

    assert found.kind is kind
    assert found.reason.startswith("from outside; 1 of 1 tests failed")


def test_a_test_that_skips_itself_is_red_where_skips_are_not_accepted() -> None:
    results = [result(Kind.PASSED), result(Kind.SKIPPED)]

    assert shard_verdict(results, [], outcome(), may_skip=True) == PASSED
    strict = shard_verdict(results, [], outcome(), may_skip=False)
    assert strict.reason == "1 of 2 tests skipped themselves: test_it.py::test_skipped"


def test_a_test_that_failed_as_expected_did_not_skip_itself_and_only_its_report_says_so() -> None:
    called_so = result(Kind.SKIPPED, reason="xfail: a known bug")
    (attempt,) = called_so.attempts
    ran = replace(attempt, causes=(replace(attempt.causes[0], expected=True),))
    results = [result(Kind.PASSED), replace(called_so, attempts=(ran,))]

    assert shard_verdict(results, [], outcome(), may_skip=False) == PASSED
    red = shard_verdict([result(Kind.PASSED), called_so], [], outcome(), may_skip=False)
    assert red.reason == "1 of 2 tests skipped themselves: test_it.py::test_skipped"


def test_a_test_whose_subtests_skip_themselves_is_skipped_in_part() -> None:
    passed = result(Kind.PASSED)
    part = replace(passed, attempts=(replace(passed.attempts[0], skipped_parts=("no GPU",)),))

    assert shard_verdict([part], [], outcome(), may_skip=True) == PASSED
    strict = shard_verdict([part], [], outcome(), may_skip=False)
    assert strict.reason == "1 of 1 tests skipped themselves in part: test_it.py::test_passed"


def test_a_quarantined_fault_explains_a_red_driver() -> None:
    results = [result(Kind.PASSED), result(Kind.QUARANTINED)]

    assert shard_verdict(results, [], outcome(RED, 1), may_skip=False) == PASSED


def test_a_flaky_test_passes_and_all_its_attempts_are_shown() -> None:
    flaky = result(Kind.PASSED, before=Kind.FAILED)

    assert shard_verdict([flaky], [], outcome(), may_skip=False) == PASSED
    assert count([flaky]) == "1 tests: 1 passed, 1 of them flaky"
    assert "attempts: failed, passed" in details([flaky]).replace("\\", "")


@given(st.lists(st.sampled_from(sorted(Kind)), max_size=6), st.booleans())
def test_green_needs_a_pass_and_nothing_at_fault(kinds: list[Kind], may_skip: bool) -> None:
    found = shard_verdict([result(kind) for kind in kinds], [], outcome(), may_skip=may_skip)

    good = {Kind.PASSED, Kind.QUARANTINED}
    accepted = good | ({Kind.SKIPPED} if may_skip else set())
    assert found.green == (bool(good & set(kinds)) and set(kinds) <= accepted)


def test_many_tests_that_are_no_plain_pass_are_cut_off_and_counted() -> None:
    text = details([result(Kind.FAILED)] * 25)

    assert text.count("test_failed") == 20
    assert "and 5 more" in text
