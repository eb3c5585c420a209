"""Outcomes as arrays: the same rows that the database holds, whatever ran together."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exacthead.history.packed import VERDICTS, complete
from exacthead.history.schema import connect
from exacthead.report.dashboard.data import Data, read
from exacthead.report.dashboard.rows import flakiest, slowest, slowing, stretches
from exacthead.verdict import Kind

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from exacthead.report.dashboard.outcomes import TestRow

TESTS = ("a.py::a", "a.py::b", "b.py::c")
Outcome = tuple[str, float | None, int, bool]
# Of each run: item by item, what became of which test.
OUTCOME = st.tuples(
    st.sampled_from([str(kind) for kind in Kind]),
    st.none() | st.sampled_from([0.25, 0.5, 2.0]),
    st.integers(1, 3),
    st.booleans(),
)
RUNS = st.lists(
    st.lists(st.dictionaries(st.sampled_from(TESTS), OUTCOME), min_size=1, max_size=3), max_size=8
)


def filled(runs: Sequence[Sequence[dict[str, Outcome]]]) -> sqlite3.Connection:
    database = connect(Path(":memory:"))
    for number, nodeid in enumerate(TESTS):
        file = nodeid.partition("::")[0]
        database.execute("INSERT INTO test VALUES (?, ?, ?)", (number, nodeid, file))
    item = 0
    for run, items in enumerate(runs):
        database.execute(
            "INSERT INTO run VALUES (?, ?, ?, 'c0ffee', 't', 0, 'r', 'cpu', 'passed', 1, 'm', '')",
            (run, f"run-{run}", f"2026-03-01T{run:02d}:00:00+00:00"),
        )
        for part, outcomes in enumerate(items):
            database.execute(
                "INSERT INTO item VALUES (?, ?, ?, 'suite', 's', 'passed', '', 1, 1, NULL, 1, '')",
                (item, run, f"unit.{part}"),
            )
            database.executemany(
                "INSERT INTO outcome VALUES (?, ?, ?, ?, ?, ?)",
                [(item, TESTS.index(name), *rest) for name, rest in outcomes.items()],
            )
            item += 1
    complete(database)
    return database


def told(runs: Sequence[Sequence[dict[str, Outcome]]]) -> Data:
    with closing(filled(runs)) as database:
        return read(database, 60)


def seen(row: TestRow) -> list[tuple[int, str, float | None]]:
    return [
        (run, stretch, None if math.isnan(seconds) else seconds)
        for run, stretch, seconds in zip(row.runs, row.ends, row.seconds, strict=True)
    ]


@settings(deadline=None, max_examples=60)
@given(RUNS)
def test_nothing_is_lost_or_mixed_up_whichever_tests_ran_together(
    runs: list[list[dict[str, Outcome]]],
) -> None:
    expected: dict[str, list[tuple[int, str, float | None]]] = {}
    for run, items in enumerate(runs):
        for outcomes in items:
            for name, (verdict, seconds, _, flaky) in outcomes.items():
                end = (run, "flaky" if flaky else verdict, seconds)
                expected.setdefault(name, []).append(end)

    found = told(runs)

    # Two items of one run have no order in time.
    key = str
    assert {row.nodeid: sorted(seen(row), key=key) for row in found.tests} == {
        name: sorted(ends, key=key) for name, ends in expected.items()
    }
    for row in found.tests:
        assert list(row.runs) == sorted(row.runs)
        assert sum(each.count for each in stretches(row, found.runs)) == len(row.runs)


def passed(seconds: float | None) -> Outcome:
    return ("passed", seconds, 1, False)


def test_the_typical_time_is_that_of_the_last_twenty_passes() -> None:
    ends: list[Outcome] = [passed(9.0)] * 3 + [passed(0.5)] * 18
    ends += [("passed", 2.0, 2, True), ("failed", 60.0, 1, False), passed(None), passed(0.25)]

    data = told([[{TESTS[0]: each, TESTS[1]: passed(0.75)}] for each in ends])

    # Eighteen of half a second, one that passed in a fresh process, one that was quicker.
    assert data.tests[0].typical == 0.5
    assert [each.nodeid for each in slowest(data.tests)] == [TESTS[1], TESTS[0]]
    timeless = told([[{TESTS[0]: ("failed", 3.0, 1, False)}]])
    assert timeless.tests[0].typical is None
    assert slowest(timeless.tests) == []


def test_only_what_became_slower_and_is_no_noise_of_the_machine_slows_down() -> None:
    def ends(number: int) -> dict[str, Outcome]:
        slow, jitter = number >= 12, number % 3 / 50
        return {
            TESTS[0]: passed((2.0 if slow else 1.0) + jitter),
            TESTS[1]: passed((1.0 if slow else 2.0) + jitter),
            TESTS[2]: passed(0.02 if slow else 0.01),
        }

    data = told([[ends(number)] for number in range(20)])

    (slower,) = slowing(data.tests, data.runs)
    assert (slower.test.nodeid, slower.run.number) == (TESTS[0], 12)
    assert (slower.change.before, slower.change.after) == pytest.approx((1.02, 2.02))


def test_the_flakiest_come_first_and_broken_ones_not_at_all() -> None:
    names = dict(zip(TESTS, ("pff", "ppf", "fff"), strict=True))
    words: dict[str, Outcome] = {"p": ("passed", 1.0, 1, False), "f": ("failed", 1.0, 1, False)}

    data = told(
        [[{name: words[ends[run]] for name, ends in names.items()}] for run in range(3)]
        + [[{TESTS[0]: ("passed", 1.0, 2, True)}]],
    )

    assert [each.nodeid for each in flakiest(data)] == [TESTS[1], TESTS[0]]
    assert data.score(TESTS[1]) == pytest.approx(2 / 3)
    # One pass and two faults, and the last run adds one of each.
    assert data.score(TESTS[0]) == pytest.approx(2 * 3 / 10)


def test_what_did_not_run_ends_no_row_of_faults_and_known_ones_count() -> None:
    kinds = ("passed", "failed", "skipped", "crashed", "quarantined")

    data = told([[{TESTS[0]: (kind, 1.0, 1, False)}] for kind in kinds])

    since = data.since(TESTS[0])
    assert since is not None
    assert since.green is not None
    assert (since.first.number, since.runs, since.green.number) == (1, 3, 0)
    assert data.tests[0].reds == 3
    assert not data.tests[0].red


def test_a_code_keeps_its_meaning_and_every_verdict_has_one() -> None:
    assert VERDICTS[:3] == ("passed", "failed", "crashed")
    assert set(VERDICTS) == {*map(str, Kind), "flaky"}
