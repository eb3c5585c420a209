"""The verdict line: what became of a run, in words and never by a colour alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.runs.folder import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exacthead.report.model import Counts

_BEFORE = {
    State.INTERRUPTED: "interrupted before all items had run",
    State.RUNNING: "still running",
    State.ABANDONED: "abandoned: the harness died before the run's end",
}


def verdict_line(
    state: State, counts: Counts, reasons: Sequence[str] = (), idle: Sequence[str] = ()
) -> str:
    """The line: ``2 new failures, 1 known, 1 also red on base, 3 not run``.

    A run that passed begins with how many passed. A run that is red always says why.

    Args:
        state: what became of the run.
        counts: of its subjects.
        reasons: what makes it red beside them.
        idle: why nothing ran, if nothing did.
    """
    if state is State.PASSED and idle:
        return f"passed, and nothing ran: {'; '.join(idle)}"
    passed = f"{counts.passed} passed" if counts.passed else ""
    plural = "s" if counts.new != 1 else ""
    bad = [
        f"{counts.new} new failure{plural}" if counts.new else "",
        _said(counts.known, "known"),
        _said(counts.also_red, "also red on base"),
        _said(counts.not_run, "not run"),
        _said(counts.flaky, "flaky"),
        _said(counts.skipped, "skipped"),
    ]
    words = [*filter(None, bad), *reasons]
    if state is State.PASSED:
        return ", ".join([passed or "nothing failed", *words])
    before = _BEFORE.get(state, "")
    if state is State.FAILED and not (counts.new or counts.also_red or counts.not_run or reasons):
        before = "failed" if counts.passed or words else "failed: nothing ran"
    return ", ".join(filter(None, [before, *words, passed]))


def _said(count: int, words: str) -> str:
    return f"{count} {words}" if count else ""
