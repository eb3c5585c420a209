"""Known failures that fail no more: reported as ready to leave the list."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from exacthead.units.result import FAULTS
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from exacthead.history.folders import History, Outcome
    from exacthead.triage.known import Known, KnownFailure

# So many passes in a row, of each test that an entry covers.
PASSES = 10
# How far back is looked for them, in runs.
MOST_RUNS = 200


def ready_to_leave(known: Known, history: History) -> tuple[KnownFailure, ...]:
    """The entries whose tests passed ten times in a row on clean heads.

    Only runs on runners that an entry applies to count. An entry for several tests (a file, a
    class, parameters) is ready when each of them has passed ten times since its last fault. A pass
    after a retry is no pass here; a skip, or a test that was not run, says nothing. Reading ends as
    soon as every entry is decided.
    """
    rows = {entry: Counter[str]() for entry in known.entries}
    ready = set()
    runs = islice(history.runs(), MOST_RUNS)
    while rows and (run := next(runs, None)):
        concerned = [] if run.dirty else [entry for entry in rows if entry.on(run.runner)]
        if not concerned:
            continue
        mentioning = {entry.file or entry.target for entry in concerned}
        outcomes = list(history.outcomes(run, mentioning))
        for entry in concerned:
            mine = [each for each in outcomes if _is_about(entry, each)]
            row = rows[entry]
            faults = {each.nodeid for each in mine if _shows_fault(each)}
            row.update({each.nodeid for each in mine if each.kind is Kind.PASSED} - faults)
            if any(row[nodeid] < PASSES for nodeid in faults):
                del rows[entry]
            elif min(row.values(), default=0) >= PASSES:
                ready.add(entry)
                del rows[entry]
    return tuple(entry for entry in known.entries if entry in ready)


def _is_about(entry: KnownFailure, outcome: Outcome) -> bool:
    if entry.leg is not None:
        return not outcome.nodeid and outcome.item == entry.leg
    return bool(outcome.nodeid) and entry.covers(outcome.nodeid)


def _shows_fault(outcome: Outcome) -> bool:
    return outcome.flaky or outcome.kind in FAULTS or outcome.kind is Kind.QUARANTINED
