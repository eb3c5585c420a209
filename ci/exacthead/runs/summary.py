"""What is said about a run: one model, from which both renderings (terminal, Markdown) are made."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from exacthead.runs.folder import State
from exacthead.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from exacthead.runs.provenance import Provenance
    from exacthead.runs.result import ItemResult

_WORDS = {
    State.PASSED: "passed: every required item is green",
    State.FAILED: "failed",
    State.INTERRUPTED: "interrupted before all items had run",
    State.RUNNING: "still running",
    State.ABANDONED: "abandoned: the harness died before the run's end",
}
_KEY_DIGITS = 12


@dataclass(frozen=True)
class Table:
    """A titled table of plain text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Trouble:
    """An item that is not green, or that was not run: why, and the line that runs it again."""

    item_id: str
    kind: str
    cause: str
    reproduction: str
    leftovers: tuple[str, ...]


@dataclass(frozen=True)
class Summary:
    """The text of a run in its order: verdict, troubles, what did not run, details, tables, rest.

    ``sections`` are lines of Markdown.
    """

    state: State
    verdict: str
    counts: str
    folder: Path
    red: tuple[Trouble, ...]
    not_run: tuple[Trouble, ...]
    details: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    notes: tuple[str, ...]
    sections: tuple[str, ...] = ()


def summarize(
    state: State,
    results: Sequence[ItemResult],
    provenance: Provenance,
    folder: Path,
    sections: Sequence[str] = (),
) -> Summary:
    """Put together what is to be said.

    Args:
        state: what became of the run.
        results: the items, in the plan's order.
        provenance: what was used.
        folder: the run folder.
        sections: further lines of Markdown: known failures, coverage.
    """
    exact = not (provenance.dirty or provenance.changed)
    head = provenance.commit[:12] + ("" if exact else "-dirty")
    unrun = {Kind.NOT_RUN, Kind.SKIPPED}
    bad = [result for result in results if result.verdict.kind is not Kind.PASSED]
    return Summary(
        state=state,
        verdict=f"{_words(state, results)}, at head {head}",
        counts=_counts(results),
        folder=folder,
        red=tuple(_trouble(each) for each in bad if each.verdict.kind not in unrun),
        not_run=tuple(_trouble(each) for each in bad if each.verdict.kind in unrun),
        details=tuple((each.item_id, text) for each in results for text in each.details),
        tables=(_items(results), _stages(results), _workers(provenance)),
        notes=_notes(results, provenance),
        sections=tuple(sections),
    )


def _words(state: State, results: Sequence[ItemResult]) -> str:
    reasons = dict.fromkeys(" ".join(each.verdict.reason.split()) for each in results)
    skipped = all(each.verdict.kind is Kind.SKIPPED for each in results)
    if state is State.PASSED and results and skipped:
        return f"passed, and nothing ran: {'; '.join(reasons)}"
    return _WORDS[state]


def _counts(results: Sequence[ItemResult]) -> str:
    if not results:
        return "no items: nothing ran"
    count = Counter(result.verdict.kind for result in results)
    each = ", ".join(f"{count[kind]} {kind.value}" for kind in Kind if count[kind])
    return f"{len(results)} item{'s' if len(results) > 1 else ''}: {each}"


def _trouble(result: ItemResult) -> Trouble:
    optional = "" if result.required else " (not required)"
    return Trouble(
        item_id=result.item_id,
        kind=f"{result.verdict.kind.value}{optional}",
        cause=" ".join(result.verdict.reason.split()),
        reproduction=result.reproduction,
        leftovers=result.leftovers,
    )


def _items(results: Sequence[ItemResult]) -> Table:
    rows = tuple(
        (
            each.item_id,
            each.verdict.kind.value,
            f"{each.seconds:.1f}",
            f"{each.peak_pss_mb:.0f}",
            ", ".join(each.workers),
        )
        for each in results
    )
    return Table("Items", ("item", "verdict", "seconds", "peak MiB", "workers"), rows)


def _stages(results: Sequence[ItemResult]) -> Table:
    rows = tuple(
        (each.item_id, stage, f"{seconds:.1f}")
        for each in results
        for stage, seconds in each.stages.items()
    )
    return Table("Stages", ("item", "stage", "seconds"), rows)


def _workers(provenance: Provenance) -> Table:
    rows = tuple(
        (each.name, each.flavour, each.key[:_KEY_DIGITS], each.how, f"{each.seconds:.1f}")
        for each in provenance.workers
    )
    return Table("Workers", ("worker", "flavour", "key", "how", "seconds"), rows)


def _notes(results: Sequence[ItemResult], provenance: Provenance) -> tuple[str, ...]:
    dirty = ("The checkout was dirty: its commit does not tell what ran.",)
    edited = f"The checkout was changed while the run went on: {', '.join(provenance.changed)}."
    return (
        *(dirty if provenance.dirty else ()),
        *((edited,) if provenance.changed else ()),
        *(f"worker {each.name}: {note}" for each in provenance.workers for note in each.notes),
        *(f"image {name}: {digest}" for name, digest in provenance.images.items()),
        *(f"{each.item_id}: {note}" for each in results for note in each.notes),
    )
