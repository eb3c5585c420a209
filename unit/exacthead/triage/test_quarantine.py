from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.runs.result import ItemResult
from exacthead.triage.known import Known, KnownFailure
from exacthead.triage.quarantine import apply, apply_leg
from exacthead.units.result import FAULTS, Attempt, Cause, TestResult
from exacthead.verdict import Kind, Verdict
from unit.exacthead.triage.making import TODAY, known_failure, outcome

NODEID = "u/test_a.py::test_b"


def judged(result: TestResult, *entries: KnownFailure, runner: str = "small") -> TestResult:
    (after,) = apply([result], Known(entries), runner, TODAY)
    return after


@pytest.mark.parametrize("kind", sorted(FAULTS))
def test_a_known_fault_is_quarantined_with_issue_expiry_and_what_happened(kind: Kind) -> None:
    after = judged(outcome(NODEID, kind), known_failure())

    assert after.verdict == Verdict(
        Kind.QUARANTINED,
        "the cache is cold (https://tracker.example/issues/7, until 2030-01-31); "
        f"{kind}: assert 1 == 2",
    )
    assert after.verdict.green
    assert after.attempts == outcome(NODEID, kind).attempts


@pytest.mark.parametrize("kind", [Kind.NOT_RUN, Kind.INTERRUPTED, Kind.SKIPPED])
def test_what_did_not_run_is_never_quarantined(kind: Kind) -> None:
    before = outcome(NODEID, kind)

    assert judged(before, known_failure()) == before


def test_a_file_that_cannot_be_collected_is_not_quarantined() -> None:
    verdict = Verdict(Kind.FAILED, "ImportError: no module named 'alpha'")
    before = TestResult("u/test_a.py", (Attempt(1, 0.1, (Cause("collection", verdict),)),), verdict)

    assert judged(before, known_failure("u/test_a.py")) == before


def test_a_fault_beside_a_part_that_did_not_run_is_not_quarantined() -> None:
    call = Cause("call", Verdict(Kind.FAILED, "assert 1 == 2"))
    untold = Cause("process", Verdict(Kind.NOT_RUN, "pytest told nothing of its teardown"))
    before = TestResult(NODEID, (Attempt(1, 0.1, (call, untold)),), call.verdict)

    assert judged(before, known_failure()) == before


def test_two_faults_of_one_test_are_quarantined_together() -> None:
    call = Cause("call", Verdict(Kind.FAILED, "assert 1 == 2"))
    teardown = Cause("teardown", Verdict(Kind.FAILED, "port 99 is taken"))
    before = TestResult(NODEID, (Attempt(1, 0.1, (call, teardown)),), call.verdict)

    assert judged(before, known_failure()).verdict.kind is Kind.QUARANTINED


def test_a_pass_stays_a_pass_and_says_that_it_was_known_to_fail() -> None:
    after = judged(outcome(NODEID, Kind.PASSED), known_failure())

    assert after.verdict == Verdict(Kind.PASSED)
    assert after.notes == ("passes, though known to fail: https://tracker.example/issues/7",)


def test_an_entry_of_another_runner_does_not_apply() -> None:
    before = outcome(NODEID, Kind.FAILED)
    entry = known_failure(runner="large")

    assert judged(before, entry, runner="small") == before
    assert judged(before, entry, runner="large").verdict.kind is Kind.QUARANTINED


def test_an_expired_entry_blocks_again_and_is_told() -> None:
    yesterday = TODAY - timedelta(days=1)

    after = judged(outcome(NODEID, Kind.FAILED), known_failure(expires=yesterday))

    assert after.verdict == Verdict(Kind.FAILED, "assert 1 == 2")
    assert after.notes == ("known failure https://tracker.example/issues/7 expired on 2030-01-14",)


def test_an_entry_still_holds_on_its_last_day() -> None:
    after = judged(outcome(NODEID, Kind.FAILED), known_failure(expires=TODAY))

    assert after.verdict.kind is Kind.QUARANTINED


def test_the_closest_entry_gives_the_reason() -> None:
    whole_file = known_failure("u/test_a.py", reason="the whole file")

    after = judged(outcome(NODEID, Kind.FAILED), whole_file, known_failure())

    assert after.verdict.reason.startswith("the cache is cold (")


def test_an_expired_entry_does_not_hide_one_that_holds() -> None:
    whole_file = known_failure("u/test_a.py", reason="the whole file")
    expired = known_failure(expires=TODAY - timedelta(days=1))

    after = judged(outcome(NODEID, Kind.FAILED), whole_file, expired)

    assert after.verdict.reason.startswith("the whole file (")


def test_a_neighbour_is_not_touched() -> None:
    before = outcome("u/test_a.py::test_bc", Kind.FAILED)

    assert judged(before, known_failure()) == before


def test_a_known_leg_is_quarantined_and_its_leftovers_stay_told() -> None:
    entry = known_failure(None, leg="train.plain")
    before = ItemResult(
        item_id="train.plain",
        verdict=Verdict(Kind.CRASHED, "SIGSEGV"),
        leftovers=("process 12 was still there",),
    )

    after = apply_leg(before, Known((entry,)), "small", TODAY)

    assert after.verdict.kind is Kind.QUARANTINED
    assert after.verdict.reason.endswith("until 2030-01-31); crashed: SIGSEGV")
    assert after.leftovers == before.leftovers


@pytest.mark.parametrize("item_id", ["train.other", "train", "unit.train.plain"])
def test_another_leg_is_not_touched(item_id: str) -> None:
    entry = known_failure(None, leg="train.plain")
    before = ItemResult(item_id=item_id, verdict=Verdict(Kind.FAILED, "exit code 1"))

    assert apply_leg(before, Known((entry,)), "small", TODAY) == before


def test_an_entry_of_a_test_says_nothing_of_a_leg() -> None:
    before = ItemResult(item_id=NODEID, verdict=Verdict(Kind.FAILED, "exit code 1"))

    assert apply_leg(before, Known((known_failure(),)), "small", TODAY) == before


RUNNERS = ["small", "large"]
TARGETS = ["u/a.py", "u/a.py::test_b", "u/a.py::test_b[1]", "u/a.py::C", "u/a.py::C::test_d"]
NODEIDS = [
    "u/a.py",
    "u/a.py::test_b[1]",
    "u/a.py::test_b[2]",
    "u/a.py::C::test_d",
    "u/z.py::test_b",
]
days = st.dates(TODAY - timedelta(days=2), TODAY + timedelta(days=2))
entries = st.lists(
    st.builds(
        known_failure,
        st.sampled_from(TARGETS),
        reason=st.sampled_from(["one reason", "another"]),
        expires=days,
        runner=st.sampled_from(RUNNERS),
    ),
    unique_by=lambda entry: (entry.test, entry.runner),
)
results = st.lists(
    st.builds(
        lambda nodeid, kinds: outcome(nodeid, *kinds),
        st.sampled_from(NODEIDS),
        st.lists(st.sampled_from(sorted(Kind)), min_size=1, max_size=3),
    )
)


@given(results, entries, st.sampled_from(RUNNERS), days)
def test_applying_twice_changes_nothing(
    before: list[TestResult], known: list[KnownFailure], runner: str, today: date
) -> None:
    once = apply(before, Known(tuple(known)), runner, today)

    assert apply(once, Known(tuple(known)), runner, today) == once


@given(results, entries.flatmap(lambda known: st.tuples(st.just(known), st.permutations(known))))
def test_the_order_of_entries_is_irrelevant(
    before: list[TestResult], known: tuple[list[KnownFailure], list[KnownFailure]]
) -> None:
    one, two = (apply(before, Known(tuple(order)), "small", TODAY) for order in known)

    assert one == two


@given(results, entries, st.sampled_from(RUNNERS), days)
def test_an_entry_turns_nothing_red_and_makes_nothing_green_that_did_not_run(
    before: list[TestResult], known: list[KnownFailure], runner: str, today: date
) -> None:
    after = apply(before, Known(tuple(known)), runner, today)

    for old, new in zip(before, after, strict=True):
        assert (new.nodeid, new.attempts) == (old.nodeid, old.attempts)
        if new.verdict != old.verdict:
            assert old.verdict.kind in FAULTS
            assert new.verdict.kind is Kind.QUARANTINED
            assert any(
                each.covers(old.nodeid) and each.runner == runner and today <= each.expires
                for each in known
            )


@given(st.sampled_from(sorted(Kind)), days)
def test_a_leg_follows_the_same_laws(kind: Kind, today: date) -> None:
    known = Known((known_failure(None, leg="train.plain", expires=TODAY),))
    before = ItemResult(item_id="train.plain", verdict=Verdict(kind, "why"))

    once = apply_leg(before, known, "small", today)

    assert apply_leg(once, known, "small", today) == once
    quarantined = kind in FAULTS and today <= TODAY
    assert once.verdict.kind is (Kind.QUARANTINED if quarantined else kind)
    assert replace(once.verdict, reason="why") == (
        Verdict(Kind.QUARANTINED, "why") if quarantined else before.verdict
    )
