"""What is to be said of a run's faults: one model, and its lines for the report."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from exacthead.runs.render import code, plain
from exacthead.units.result import FAULTS
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from exacthead.runs.result import ItemResult
    from exacthead.triage.known import Known, KnownFailure
    from exacthead.units.result import Attempt, TestResult

# So many entries of a section are written out; of the others the number is given.
_SHOWN = 50
_ALSO_RED = "also red on base"
_TITLES = {
    "quarantined": "Quarantined: known failures, which do not block",
    "flaky": "Flaky: a fresh process disagreed",
    "broken": "Broken: retried, and never passed",
    "also_red": "Also red on the base",
    "ready": "Ready to leave the known failures",
    "expired": "Expired known failures, which block again",
    "unused": "Unused known failures",
    "notes": "Not read of the history",
}


@dataclass(frozen=True)
class Said:
    """One entry of a section.

    Attributes:
        name: a node id, the id of a leg, or what a known failure names.
        why: the rest of the sentence.
        attempts: what became of each attempt, where that is told.
    """

    name: str
    why: str
    attempts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Triage:
    """The sections, in the order in which they are said; none twice in one section.

    Attributes:
        quarantined: faults that a known failure covers.
        flaky: tests that passed in one process and showed a fault in another, with all attempts.
        broken: tests that were retried and never passed, with all attempts.
        also_red: faults that the base head shows too.
        ready: known failures that have passed often enough to leave.
        expired: known failures whose last day is over.
        unused: known failures that name nothing that was collected.
        notes: what could not be read of the history.
    """

    quarantined: tuple[Said, ...] = ()
    flaky: tuple[Said, ...] = ()
    broken: tuple[Said, ...] = ()
    also_red: tuple[Said, ...] = ()
    ready: tuple[Said, ...] = ()
    expired: tuple[Said, ...] = ()
    unused: tuple[Said, ...] = ()
    notes: tuple[Said, ...] = ()


def of_results(results: Iterable[TestResult]) -> Triage:
    """What tests have to say, after known failures and the base were looked at."""
    every = tuple(results)
    return Triage(
        quarantined=tuple(_why(each) for each in every if each.verdict.kind is Kind.QUARANTINED),
        flaky=tuple(_tried(each) for each in every if each.flaky),
        broken=tuple(_tried(each) for each in every if _broken(each)),
        also_red=tuple(said for each in every for said in _red(each.nodeid, each.notes)),
    )


def of_legs(legs: Iterable[ItemResult]) -> Triage:
    """The same of legs."""
    every = tuple(legs)
    return Triage(
        quarantined=tuple(
            Said(each.item_id, each.verdict.reason)
            for each in every
            if each.verdict.kind is Kind.QUARANTINED
        ),
        also_red=tuple(said for each in every for said in _red(each.item_id, each.notes)),
    )


def of_known(
    known: Known,
    today: date,
    ready: Iterable[KnownFailure] = (),
    unused: Iterable[KnownFailure] = (),
    notes: Iterable[str] = (),
) -> Triage:
    """What the list of known failures itself has to say.

    Args:
        known: all of them.
        today: the day on which they must still hold.
        ready: as :func:`exacthead.triage.leave.ready_to_leave` gives them.
        unused: as :func:`exacthead.triage.check.unused_in` gives them.
        notes: as :attr:`exacthead.history.folders.History.notes` gives them.
    """
    return Triage(
        ready=tuple(Said(each.target, f"{_who(each)}: remove its entry") for each in ready),
        expired=tuple(
            Said(each.target, f"since {each.expires}; {_who(each)}")
            for each in known.entries
            if each.expired(today)
        ),
        unused=tuple(Said(each.target, f"names no test; {_who(each)}") for each in unused),
        notes=tuple(Said("", note) for note in notes),
    )


def joined(parts: Iterable[Triage]) -> Triage:
    """One triage of several items; what two of them say alike is said once."""
    every = tuple(parts)
    return Triage(
        **{
            each.name: tuple(
                dict.fromkeys(said for part in every for said in getattr(part, each.name))
            )
            for each in fields(Triage)
        }
    )


def lines(triage: Triage) -> list[str]:
    """The sections as lines of Markdown; none when there is nothing to say."""
    written: list[str] = []
    for section, title in _TITLES.items():
        entries: tuple[Said, ...] = getattr(triage, section)
        if not entries:
            continue
        written += ["", f"### {title} ({len(entries)})", ""]
        for said in entries[:_SHOWN]:
            name = f"{code(said.name)}: " if said.name else ""
            written.append(f"- {name}{plain(said.why)}")
            written += [f"  - {plain(attempt)}" for attempt in said.attempts]
        if len(entries) > _SHOWN:
            written.append(f"- and {len(entries) - _SHOWN} more")
    return written[1:]


def _broken(result: TestResult) -> bool:
    """Whether a retried test showed a fault each time and never passed: it is broken, not flaky."""
    kinds = [attempt.verdict.kind for attempt in result.attempts]
    return Kind.PASSED not in kinds and sum(kind in FAULTS for kind in kinds) > 1


def _why(result: TestResult) -> Said:
    return Said(result.nodeid, result.verdict.reason)


def _tried(result: TestResult) -> Said:
    attempts = enumerate(result.attempts, 1)
    passed = sum(attempt.verdict.kind is Kind.PASSED for attempt in result.attempts)
    why = f"{passed} of {len(result.attempts)} attempts passed"
    return Said(result.nodeid, why, tuple(_attempt(number, each) for number, each in attempts))


def _attempt(number: int, attempt: Attempt) -> str:
    seconds = "" if attempt.seconds is None else f", {attempt.seconds:.2f} s"
    said = f": {attempt.verdict.reason}" if attempt.verdict.reason else ""
    where = f"process {attempt.process}{seconds}"
    return f"attempt {number} ({where}) {attempt.verdict.kind}{said}"


def _red(name: str, notes: tuple[str, ...]) -> list[Said]:
    return [Said(name, note) for note in notes if note.startswith(_ALSO_RED)]


def _who(entry: KnownFailure) -> str:
    return f"{entry.owner}, {entry.issue}"
