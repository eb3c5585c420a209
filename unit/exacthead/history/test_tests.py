"""Tests over many runs: since when, how flaky, how slow; from real run folders."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from exacthead.history.database import open_history, sync
from exacthead.history.folders import History
from exacthead.history.rows import runs as read_runs
from exacthead.history.tests import (
    TestHistory,
    flakiest,
    read_items,
    read_tests,
    red,
    slowest,
    slowing,
)
from exacthead.verdict import Kind, Verdict
from unit.exacthead.triage.making import COMMIT, outcome

if TYPE_CHECKING:
    from exacthead.units.result import TestResult
    from unit.exacthead.triage.making import Runs

B = "u/test_a.py::test_b"
OTHER = "beef" * 10
P, F = (Kind.PASSED,), (Kind.FAILED,)


def add(runs: Runs, *kinds: Kind, nodeid: str = B, **facts: object) -> None:
    runs.add({"unit.own": [outcome(nodeid, *kinds)]}, **facts)  # type: ignore[arg-type]


def told(runs: Runs, nodeids: list[str] | None = None) -> dict[str, TestHistory]:
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
    assert [each.nodeid for each in red({B: found})] == ([B] if since is not None else [])


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


def test_the_flakiest_come_first_and_broken_ones_not_at_all(runs: Runs) -> None:
    names = {"flaky": [P, F, F], "rarely": [P, P, F], "broken": [F, F, F], "fine": [P, P, P]}
    for number in range(3):
        runs.add({"unit.own": [outcome(f"t.py::{n}", *ends[number]) for n, ends in names.items()]})
    add(runs, Kind.FAILED, Kind.PASSED, nodeid="t.py::flaky")

    found = flakiest(told(runs), 10)

    assert [each.nodeid for each in found] == ["t.py::rarely", "t.py::flaky"]
    assert found[0].score == pytest.approx(2 / 3)
    # One pass and two faults, and the last run adds one of each.
    assert found[1].score == pytest.approx(2 * 3 / 10)
    assert found[1].flaky_runs == 1
    assert flakiest(told(runs), 1) == found[:1]


def test_the_state_of_quarantine_is_that_of_the_last_run(runs: Runs) -> None:
    add(runs, Kind.QUARANTINED)
    assert told(runs)[B].quarantined

    add(runs, Kind.PASSED)
    assert not told(runs)[B].quarantined


def timed(nodeid: str, seconds: float) -> TestResult:
    passed = outcome(nodeid, Kind.PASSED)
    return replace(passed, attempts=(replace(passed.attempts[0], seconds=seconds),))


def test_what_slows_down_is_told_with_where_it_began(runs: Runs) -> None:
    for number in range(20):
        slow = number >= 12
        runs.add(
            {
                "unit.own": [
                    timed("t.py::slowing", (2.0 if slow else 1.0) + number % 3 / 50),
                    timed("t.py::quicker", (1.0 if slow else 2.0) + number % 3 / 50),
                    timed("t.py::steady", 3.0 + number % 3 / 50),
                    timed("t.py::tiny", 0.02 if slow else 0.01),
                ]
            },
            commit=f"{number:040x}",
        )

    found = told(runs)

    assert [each.nodeid for each in slowest(found, 2)] == ["t.py::steady", "t.py::quicker"]
    (slower,) = slowing(found, 10)
    assert slower.nodeid == "t.py::slowing"
    assert slower.slower_run == 12
    assert slower.slower is not None
    assert (slower.slower.before, slower.slower.after) == (1.02, 2.02)
    # The median of the last twenty passes, which are all.
    assert found["t.py::slowing"].typical == pytest.approx(1.04)


def test_some_tests_are_read_as_all_are(runs: Runs) -> None:
    add(runs, Kind.PASSED)
    runs.add({"unit.own": [outcome(B, Kind.FAILED), outcome("t.py::c", Kind.PASSED)]})

    assert told(runs, [B, "t.py::gone"]) == {B: told(runs)[B]}


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
