from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from exacthead.history.folders import History
from exacthead.triage.known import Known
from exacthead.triage.leave import PASSES, ready_to_leave
from exacthead.verdict import Kind, Verdict
from unit.exacthead.triage.making import known_failure, outcome

if TYPE_CHECKING:
    from exacthead.triage.known import KnownFailure
    from unit.exacthead.triage.making import Runs

B = "u/test_a.py::test_b"


def ready(runs: Runs, *entries: KnownFailure) -> tuple[KnownFailure, ...]:
    return ready_to_leave(Known(entries), History(runs.folder))


def passes(runs: Runs, count: int, *nodeids: str, **facts: Any) -> None:
    run = runs.add({"unit.own": [outcome(each, Kind.PASSED) for each in nodeids or (B,)]}, **facts)
    runs.again(run, count - 1)


def test_ten_passes_in_a_row_are_enough_and_nine_are_not(runs: Runs) -> None:
    passes(runs, PASSES - 1)
    assert ready(runs, known_failure()) == ()

    passes(runs, 1)
    assert ready(runs, known_failure()) == (known_failure(),)


@pytest.mark.parametrize(
    "kinds",
    [
        (Kind.FAILED,),
        (Kind.CRASHED,),
        (Kind.TIMED_OUT,),
        (Kind.QUARANTINED,),
        (Kind.FAILED, Kind.PASSED),
    ],
)
def test_a_fault_ends_the_row(runs: Runs, kinds: tuple[Kind, ...]) -> None:
    passes(runs, 5)
    runs.add({"unit.own": [outcome(B, *kinds)]})
    passes(runs, PASSES - 1)
    assert ready(runs, known_failure()) == ()

    passes(runs, 1)
    assert ready(runs, known_failure()) == (known_failure(),)


@pytest.mark.parametrize("kind", [Kind.SKIPPED, Kind.NOT_RUN, Kind.INTERRUPTED])
def test_what_did_not_run_neither_counts_nor_ends_the_row(runs: Runs, kind: Kind) -> None:
    passes(runs, PASSES - 1)
    runs.add({"unit.own": [outcome(B, kind)]})
    runs.add({"unit.own": []})
    assert ready(runs, known_failure()) == ()

    passes(runs, 1)
    assert ready(runs, known_failure()) == (known_failure(),)


def test_dirty_heads_and_other_runners_say_nothing(runs: Runs) -> None:
    entry = known_failure(runner="large")
    passes(runs, PASSES - 1, runner="large")
    passes(runs, 1, runner="small")
    runs.add({"unit.own": [outcome(B, Kind.PASSED)]}, runner="large", dirty=True)
    runs.add({"unit.own": [outcome(B, Kind.FAILED)]}, runner="large", dirty=True)
    runs.add({"unit.own": [outcome(B, Kind.FAILED)]}, runner="small")
    assert ready(runs, entry) == ()

    passes(runs, 1, runner="large")
    assert ready(runs, entry) == (entry,)


def test_every_test_that_an_entry_covers_must_have_passed(runs: Runs) -> None:
    one, two = f"{B}[1]", f"{B}[2]"
    passes(runs, 4, one)
    passes(runs, PASSES - 1, two)
    passes(runs, 6, one)
    assert ready(runs, known_failure()) == ()
    assert ready(runs, known_failure(one)) == (known_failure(one),)

    passes(runs, 1, two)
    assert ready(runs, known_failure()) == (known_failure(),)


def test_a_fault_before_a_test_s_own_ten_passes_is_forgiven(runs: Runs) -> None:
    one, two = f"{B}[1]", f"{B}[2]"
    passes(runs, PASSES - 1, two)
    runs.add({"unit.own": [outcome(one, Kind.FAILED), outcome(two, Kind.PASSED)]})
    passes(runs, PASSES - 1, one)
    runs.add({"unit.own": [outcome(two, Kind.SKIPPED)]})
    assert ready(runs, known_failure()) == ()

    passes(runs, 1, one, two)
    assert ready(runs, known_failure()) == (known_failure(),)


def test_a_test_that_passes_in_one_item_and_fails_in_another_has_failed(runs: Runs) -> None:
    runs.add({"unit.a": [outcome(B, Kind.PASSED)], "unit.b": [outcome(B, Kind.FAILED)]})
    passes(runs, PASSES - 1)

    assert ready(runs, known_failure()) == ()


def test_a_test_of_two_items_passes_once_in_a_run(runs: Runs) -> None:
    run = runs.add({"unit.a": [outcome(B, Kind.PASSED)], "unit.b": [outcome(B, Kind.PASSED)]})
    runs.again(run, PASSES - 2)

    assert ready(runs, known_failure()) == ()


def test_a_leg_leaves_by_its_own_verdict(runs: Runs) -> None:
    entry = known_failure(None, leg="train.plain")
    runs.again(runs.add(legs={"train.plain": Verdict(Kind.PASSED)}), PASSES - 1)
    assert ready(runs, entry) == (entry,)

    runs.add(legs={"train.plain": Verdict(Kind.QUARANTINED, "known")})
    assert ready(runs, entry) == ()


def test_several_entries_come_in_their_own_order(runs: Runs) -> None:
    entries = [known_failure(f"u/test_a.py::test_{name}") for name in "cab"]
    passes(runs, 3, "u/test_a.py::test_a", B)
    passes(runs, PASSES, "u/test_a.py::test_b", "u/test_a.py::test_c")
    passes(runs, 7, "u/test_a.py::test_a")

    assert [entry.names[0] for entry in ready(runs, *entries)] == ["test_a", "test_b", "test_c"]


def test_reading_ends_when_everything_is_decided(runs: Runs) -> None:
    (runs.add().path / "plan.json").unlink()
    passes(runs, PASSES)
    history = History(runs.folder)

    assert ready_to_leave(Known((known_failure(),)), history) == (known_failure(),)
    assert history.notes == []


def test_nothing_known_reads_nothing(runs: Runs) -> None:
    (runs.add().path / "plan.json").unlink()
    history = History(runs.folder)

    assert ready_to_leave(Known(), history) == ()
    assert history.notes == []
