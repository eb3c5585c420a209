"""Tests over many runs: since when, and how flaky; from real run folders."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from exacthead.history.database import open_history, sync
from exacthead.history.folders import History
from exacthead.history.rows import runs as read_runs
from exacthead.history.tests import TestHistory, read_items, read_tests
from exacthead.verdict import Kind, Verdict
from unit.exacthead.triage.making import COMMIT, outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unit.exacthead.triage.making import Runs

B = "u/test_a.py::test_b"
OTHER = "beef" * 10
P, F = (Kind.PASSED,), (Kind.FAILED,)


def add(runs: Runs, *kinds: Kind, nodeid: str = B, **facts: object) -> None:
    runs.add({"unit.own": [outcome(nodeid, *kinds)]}, **facts)  # type: ignore[arg-type]


def told(runs: Runs, nodeids: Sequence[str] = (B,)) -> dict[str, TestHistory]:
    with closing(open_history(runs.folder)) as connection:
        sync(connection, History(runs.folder))
        return read_tests(connection, read_runs(connection), nodeids)


@pytest.mark.parametrize(
    ("ends", "since", "green", "row"),
    [
        ([P, P], None, None, 0),
        ([P, F], 1, 0, 1),
        ([P, F, F, F], 1, 0, 3),
        ([F, F], 0, None, 2),
        ([F, P, F], 2, 1, 1),
        ([P, F, (Kind.SKIPPED,), F], 1, 0, 2),
        ([P, F, (Kind.NOT_RUN,)], 1, 0, 1),
        ([P, (Kind.CRASHED,), (Kind.QUARANTINED,)], 1, 0, 2),
        ([P, F, (Kind.FAILED, Kind.PASSED)], None, None, 0),
        ([(Kind.SKIPPED,)], None, None, 0),
    ],
)
def test_a_row_of_faults_begins_after_the_last_pass(
    runs: Runs, ends: list[tuple[Kind, ...]], since: int | None, green: int | None, row: int
) -> None:
    for kinds in ends:
        add(runs, *kinds)

    found = told(runs)[B]

    assert (found.since, found.green, found.row) == (since, green, row)


@pytest.mark.parametrize(
    ("ends", "score"),
    [
        ([P, P, P], 0.0),
        ([F, F, F], 0.0),  # broken
        ([(Kind.FAILED, Kind.FAILED)], 0.0),
        ([(Kind.FAILED, Kind.PASSED)], 1.0),  # one pair, and it disagrees
        ([P, F], 1.0),
        ([P, F, P], 2 / 3),
        ([(Kind.FAILED, Kind.PASSED), P], 2 / 3),
        ([P] * 9 + [F], 9 / 45),
        ([P, (Kind.SKIPPED,)], 0.0),
    ],
)
def test_the_score_is_the_share_of_pairs_of_fresh_processes_that_disagree(
    runs: Runs, ends: list[tuple[Kind, ...]], score: float
) -> None:
    for kinds in ends:
        add(runs, *kinds)

    assert told(runs)[B].score == pytest.approx(score)


def test_only_processes_at_one_clean_head_on_one_runner_are_held_against_each_other(
    runs: Runs,
) -> None:
    add(runs, Kind.PASSED)
    add(runs, Kind.FAILED, commit=OTHER)  # a change may have broken it
    add(runs, Kind.FAILED, runner="large")
    add(runs, Kind.FAILED, dirty=True)

    assert told(runs)[B].score == 0.0


def test_each_test_has_its_own_history_and_what_never_ran_has_none(runs: Runs) -> None:
    other = "t.py::c"
    runs.add({"unit.own": [outcome(B, Kind.PASSED), outcome(other, Kind.FAILED)]})
    runs.add({"unit.own": [outcome(other, Kind.FAILED, Kind.PASSED)]})

    found = told(runs, [other, B, "t.py::gone"])

    assert list(found) == [other, B]
    assert [
        (each.run, each.verdict, each.attempts, each.flaky) for each in found[other].outcomes
    ] == [
        (0, "failed", 1, False),
        (1, "passed", 2, True),
    ]
    # One pass and two faults.
    assert found[other].score == pytest.approx(2 / 3)
    assert [each.run for each in found[B].outcomes] == [0]


def test_items_have_a_history_too(runs: Runs) -> None:
    runs.add(legs={"train.plain": Verdict(Kind.PASSED)}, commit=OTHER)
    runs.add(legs={"train.plain": Verdict(Kind.FAILED, "exit code 1")}, commit=COMMIT)

    with closing(open_history(runs.folder)) as connection:
        sync(connection, History(runs.folder))
        found = read_items(connection, read_runs(connection))

    assert (found["train.plain"].since, found["train.plain"].green) == (1, 0)


def test_the_window_takes_the_newest_runs_of_one_runner(runs: Runs) -> None:
    add(runs, Kind.PASSED, runner="large")
    for _ in range(3):
        add(runs, Kind.PASSED)
    with closing(open_history(runs.folder)) as connection:
        sync(connection, History(runs.folder))
        every = read_runs(connection)
        newest = read_runs(connection, most=2)
        large = read_runs(connection, runner="large")

    assert [run.name for run in every] == sorted(run.name for run in every)
    assert newest == every[-2:]
    assert large == every[:1]
