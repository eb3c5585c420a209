"""Faults that the base head shows too: noted, so that nobody looks for them in the change."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from exacthead.shards.nodeid import file_of
from exacthead.triage.signature import of_messages, of_result
from exacthead.units.result import FAULTS
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from exacthead.history.folders import History, Outcome, Run
    from exacthead.runs.result import ItemResult
    from exacthead.units.result import TestResult

# How many runs of the base are read at most, the newest ones.
MOST_RUNS = 20
_DIGITS = 12

# A test by its node id, since the base may have been cut into other items; a leg by its item's id.
_Key = tuple[str, str]
_Fault = tuple[Kind, str]


def compare_with_base(
    results: Iterable[TestResult], history: History, base_commit: str
) -> tuple[TestResult, ...]:
    """Note on each fault whether clean runs of the base had the identical one.

    Identical means the same test, the same kind of verdict and the same signature. The note says
    ``also red on base <commit>``, with the counts where runs of the base disagree; it changes no
    verdict. Nothing is read when there is no fault.

    Args:
        results: in any order, which is kept.
        history: without the run that is judged, unless its head is another commit.
        base_commit: the full id of the base.
    """
    every = tuple(results)
    faults = {
        ("", each.nodeid): (each.verdict.kind, of_result(each))
        for each in every
        if each.verdict.kind in FAULTS
    }
    notes = _notes(faults, history, base_commit)
    return tuple(replace(each, notes=_with(each.notes, notes, ("", each.nodeid))) for each in every)


def compare_leg_with_base(result: ItemResult, history: History, base_commit: str) -> ItemResult:
    """The same for the result of a leg."""
    key = (result.item_id, "")
    verdict = result.verdict
    faults = {key: (verdict.kind, of_messages([verdict.reason]))} if verdict.kind in FAULTS else {}
    notes = _notes(faults, history, base_commit)
    return result.model_copy(update={"notes": _with(result.notes, notes, key)})


def _with(before: tuple[str, ...], notes: Mapping[_Key, str], key: _Key) -> tuple[str, ...]:
    note = notes.get(key)
    return before if note is None or note in before else (*before, note)


def _notes(faults: Mapping[_Key, _Fault], history: History, base_commit: str) -> dict[_Key, str]:
    """What is to be noted, by what shows the fault."""
    ran: Counter[_Key] = Counter()
    red: Counter[_Key] = Counter()
    mentioning = {item or file_of(nodeid) for item, nodeid in faults}
    for run in _runs_of(base_commit, history) if faults else ():
        outcomes = history.outcomes(run, mentioning)
        judged = [each for each in outcomes if _key(each) in faults and _says_something(each)]
        ran.update({_key(each) for each in judged})
        same = {_key(each) for each in judged if (each.kind, each.signature) == faults[_key(each)]}
        red.update(same)
    return {key: _note(base_commit, red[key], ran[key]) for key in red}


def _runs_of(base_commit: str, history: History) -> Iterator[Run]:
    clean = (run for run in history.runs() if run.commit == base_commit and not run.dirty)
    return islice(clean, MOST_RUNS)


def _key(outcome: Outcome) -> _Key:
    return ("", outcome.nodeid) if outcome.nodeid else (outcome.item, "")


def _says_something(outcome: Outcome) -> bool:
    """Whether the test ran to an end that is about itself."""
    return outcome.kind is Kind.PASSED or outcome.kind in FAULTS


def _note(base_commit: str, red: int, ran: int) -> str:
    note = f"also red on base {base_commit[:_DIGITS]}"
    return note if red == ran else f"{note} in {red} of {ran} runs"
