from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.report.model import Counts
from exacthead.report.verdict import verdict_line
from exacthead.runs.folder import State

LOST = "items/unit.a/junit.xml was written, and cannot be read any more"


@pytest.mark.parametrize(
    ("state", "counts", "reasons", "idle", "line"),
    [
        (
            State.FAILED,
            Counts(new=2, known=1, also_red=1, not_run=3, passed=9),
            (),
            (),
            "2 new failures, 1 known, 1 also red on base, 3 not run, 9 passed",
        ),
        (State.FAILED, Counts(new=1), (), (), "1 new failure"),
        (State.PASSED, Counts(passed=312), (), (), "312 passed"),
        (
            State.PASSED,
            Counts(passed=312, known=1, flaky=2, skipped=4),
            (),
            (),
            "312 passed, 1 known, 2 flaky, 4 skipped",
        ),
        (State.PASSED, Counts(known=1), (), (), "nothing failed, 1 known"),
        (
            State.PASSED,
            Counts(skipped=1),
            (),
            ("no accelerator", "empty by plan"),
            "passed, and nothing ran: no accelerator; empty by plan",
        ),
        (State.FAILED, Counts(passed=1), (LOST,), (), f"{LOST}, 1 passed"),
        (State.FAILED, Counts(passed=1), (), (), "failed, 1 passed"),
        (State.FAILED, Counts(), (), (), "failed: nothing ran"),
        (State.FAILED, Counts(), (), ("why",), "failed: nothing ran"),
        (
            State.INTERRUPTED,
            Counts(not_run=2, passed=1),
            (),
            (),
            "interrupted before all items had run, 2 not run, 1 passed",
        ),
    ],
)
def test_the_line_says_what_became_of_the_run(
    state: State, counts: Counts, reasons: tuple[str, ...], idle: tuple[str, ...], line: str
) -> None:
    assert verdict_line(state, counts, reasons, idle) == line


_COUNT = st.integers(0, 3)


@given(
    st.builds(
        Counts,
        new=_COUNT,
        known=_COUNT,
        also_red=_COUNT,
        not_run=_COUNT,
        skipped=_COUNT,
        flaky=_COUNT,
        passed=_COUNT,
    )
)
def test_a_red_run_never_reads_as_a_green_one(counts: Counts) -> None:
    """Law 2: a colour is not needed to tell them apart."""
    red = verdict_line(State.FAILED, counts)

    assert red != verdict_line(State.PASSED, counts)
    assert any(word in red for word in ("new failure", "failed", "also red", "not run"))
