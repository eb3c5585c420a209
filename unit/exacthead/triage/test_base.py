from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from exacthead.history.folders import History
from exacthead.runs.result import ItemResult
from exacthead.triage.base import MOST_RUNS, compare_leg_with_base, compare_with_base
from exacthead.units.result import FAULTS
from exacthead.verdict import Kind, Verdict
from unit.exacthead.triage.making import COMMIT, outcome

if TYPE_CHECKING:
    from exacthead.units.result import TestResult
    from unit.exacthead.triage.making import Runs

B = "u/test_a.py::test_b"
OTHER = "beef" * 10
NOTE = f"also red on base {COMMIT[:12]}"


def notes(runs: Runs, result: TestResult) -> tuple[str, ...]:
    (after,) = compare_with_base([result], History(runs.folder), COMMIT)
    assert (after.verdict, after.attempts) == (result.verdict, result.attempts)
    return after.notes


def test_a_fault_that_the_base_shows_too_is_noted(runs: Runs) -> None:
    runs.add({"unit.own": [outcome(B, Kind.FAILED, reason="no answer after 2.0 s")]})

    assert notes(runs, outcome(B, Kind.FAILED, reason="no answer after 3.1 s")) == (NOTE,)


def test_the_base_may_have_been_cut_into_other_shards(runs: Runs) -> None:
    runs.add({"unit.own.1of9": [], "unit.own.2of9": [outcome(B, Kind.FAILED)]})

    assert notes(runs, outcome(B, Kind.FAILED)) == (NOTE,)


@pytest.mark.parametrize(
    "base",
    [
        outcome(B, Kind.FAILED, reason="assert 1 == 3"),
        outcome(B, Kind.CRASHED),
        outcome(B, Kind.PASSED),
        outcome(B, Kind.FAILED, Kind.PASSED),
        outcome(B, Kind.NOT_RUN),
        outcome(B, Kind.QUARANTINED),
        outcome("u/test_a.py::test_c", Kind.FAILED),
    ],
)
def test_what_is_not_identical_is_not_noted(runs: Runs, base: TestResult) -> None:
    runs.add({"unit.own": [base]})

    assert notes(runs, outcome(B, Kind.FAILED)) == ()


@pytest.mark.parametrize(
    "facts", [{"commit": OTHER}, {"dirty": True}, {"changed": ("posttrain/loss.py",)}]
)
def test_a_run_of_another_or_a_dirty_head_says_nothing(runs: Runs, facts: dict[str, Any]) -> None:
    runs.add({"unit.own": [outcome(B, Kind.FAILED)]}, **facts)

    assert notes(runs, outcome(B, Kind.FAILED)) == ()


def test_runs_of_the_base_that_disagree_are_counted(runs: Runs) -> None:
    for kind in (Kind.FAILED, Kind.PASSED, Kind.SKIPPED, Kind.PASSED, Kind.FAILED, Kind.PASSED):
        runs.add({"unit.own": [outcome(B, kind)]})

    assert notes(runs, outcome(B, Kind.FAILED)) == (f"{NOTE} in 2 of 5 runs",)


def test_a_test_of_two_items_counts_once_in_a_run(runs: Runs) -> None:
    runs.add({"unit.a": [outcome(B, Kind.FAILED)], "unit.b": [outcome(B, Kind.FAILED)]})
    runs.add({"unit.a": [outcome(B, Kind.PASSED)]})

    assert notes(runs, outcome(B, Kind.FAILED)) == (f"{NOTE} in 1 of 2 runs",)


@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.FAILED, Kind.CRASHED, Kind.TIMED_OUT}))
def test_what_is_no_fault_is_not_compared(runs: Runs, kind: Kind) -> None:
    runs.add({"unit.own": [outcome(B, kind)]})

    assert notes(runs, outcome(B, kind)) == ()


def test_no_fault_reads_no_history(runs: Runs) -> None:
    (runs.add().path / "plan.json").unlink()
    history = History(runs.folder)

    compare_with_base([outcome(B, kind) for kind in Kind if kind not in FAULTS], history, COMMIT)

    assert history.notes == []


def test_old_runs_of_the_base_are_not_read(runs: Runs) -> None:
    runs.add({"unit.own": [outcome(B, Kind.FAILED)]})
    runs.again(runs.add({"unit.own": [outcome(B, Kind.SKIPPED)]}), MOST_RUNS - 1)

    assert notes(runs, outcome(B, Kind.FAILED)) == ()


def test_comparing_twice_changes_nothing_and_keeps_the_order(runs: Runs) -> None:
    c = outcome("u/test_a.py::test_c", Kind.CRASHED)
    runs.add({"unit.own": [outcome(B, Kind.FAILED), c]})
    history = History(runs.folder)

    once = compare_with_base([c, outcome(B, Kind.FAILED)], history, COMMIT)

    assert [(each.nodeid, each.notes) for each in once] == [(c.nodeid, (NOTE,)), (B, (NOTE,))]
    assert compare_with_base(once, history, COMMIT) == once


def test_a_leg_is_compared_by_its_own_verdict(runs: Runs) -> None:
    runs.add(legs={"train.plain": Verdict(Kind.FAILED, "exit code 3")})
    same = ItemResult(item_id="train.plain", verdict=Verdict(Kind.FAILED, "exit code 3"))
    other = same.model_copy(update={"verdict": Verdict(Kind.FAILED, "exit code 4")})
    passed = same.model_copy(update={"verdict": Verdict(Kind.PASSED)})

    found = [
        compare_leg_with_base(each, History(runs.folder), COMMIT).notes
        for each in (same, other, passed)
    ]

    assert found == [(NOTE,), (), ()]
