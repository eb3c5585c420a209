"""What is to be said of the known failures themselves, as lines for the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.runs.render import code, plain

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from exacthead.triage.known import Known, KnownFailure

# So many entries of a section are written out; of the others the number is given.
_SHOWN = 50
_TITLES = {
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
    """

    name: str
    why: str


@dataclass(frozen=True)
class Triage:
    """The sections, in the order in which they are said; none twice in one section.

    Attributes:
        ready: known failures that have passed often enough to leave.
        expired: known failures whose last day is over.
        unused: known failures that name nothing that was collected.
        notes: what could not be read of the history.
    """

    ready: tuple[Said, ...] = ()
    expired: tuple[Said, ...] = ()
    unused: tuple[Said, ...] = ()
    notes: tuple[Said, ...] = ()


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
        if len(entries) > _SHOWN:
            written.append(f"- and {len(entries) - _SHOWN} more")
    return written[1:]


def _who(entry: KnownFailure) -> str:
    return f"{entry.owner}, {entry.issue}"
