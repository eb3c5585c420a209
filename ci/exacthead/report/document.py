"""The report as a document: sections of entries and tables, in the order in which they are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from exacthead.report.faults import by_cause
from exacthead.report.model import Standing
from exacthead.report.words import plural, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from exacthead.report.model import Failure, Mark, NotRun, Report

# So many entries of a section are written out; of the others the number is given.
_SHOWN = 50
_KEY_DIGITS = 12
_HEAD_DIGITS = 12
# Of the faults that share a cause so many are named.
_NAMED = 5
_TITLES = {
    Standing.NEW: "New failures",
    Standing.ALSO_RED: "Also red on the base",
    Standing.KNOWN: "Quarantined: known failures, which do not block",
}


@dataclass(frozen=True)
class Entry:
    """One thing of a section: its name, the rest of the sentence, further lines, a line to copy."""

    name: str
    said: str
    lines: tuple[str, ...] = ()
    command: str = ""


@dataclass(frozen=True)
class Table:
    """Plain text in columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Section:
    """A part of the document; what is empty is left out.

    Attributes:
        title: empty for Markdown with headings of its own.
        entries: at most fifty.
        more: how many there are beside them.
        table: below them.
        markdown: below that, as it is.
        first: whether it is read first, and stands last on a terminal.
    """

    title: str
    entries: tuple[Entry, ...] = ()
    more: int = 0
    table: Table | None = None
    markdown: str = ""
    first: bool = False

    @property
    def empty(self) -> bool:
        """Whether it says nothing."""
        return not (self.entries or self.markdown or (self.table and self.table.rows))


def heading(report: Report) -> str:
    """The second line: state, head, runner, time against expected."""
    time = seconds(report.seconds)
    if report.expected:
        time += f" (expected {seconds(report.expected)})"
    return f"{report.state} at head {short(report)} on {report.runner} ({report.flavour}), {time}"


def short(report: Report) -> str:
    """The head in short."""
    return report.head.commit[:_HEAD_DIGITS] + ("-dirty" if report.head.dirty else "")


def sections(report: Report) -> tuple[Section, ...]:
    """What is said, in order; no empty section."""
    written = [
        _failures(report, Standing.NEW, first=True),
        _failures(report, Standing.ALSO_RED, first=True),
        _listed("Not run", [_not_run(each) for each in report.not_run], first=True),
        _failures(report, Standing.KNOWN, first=False),
        _listed("Flaky: a fresh process disagreed", [_flaky(each) for each in report.flaky]),
        *(
            Section(item.id, markdown=text.strip())
            for item in report.items
            for text in item.details
        ),
        Section("Items", table=_items(report)),
        Section("Stages", table=_stages(report)),
        Section("Workers", table=_workers(report)),
        _green(report),
        _listed("Changed in the last runs", [_mark(each) for each in report.marks]),
        Section("", markdown="\n".join(report.sections).strip()),
        _listed("Notes", [Entry("", note) for note in report.told]),
    ]
    return tuple(each for each in written if not each.empty)


def _listed(title: str, entries: Iterable[Entry], *, first: bool = False) -> Section:
    every = tuple(entries)
    count = f"{title} ({len(every)})" if title != "Notes" else title
    return Section(count, every[:_SHOWN], max(0, len(every) - _SHOWN), first=first)


def _failures(report: Report, standing: Standing, *, first: bool) -> Section:
    """Faults of one standing by their cause, as the pages have them."""
    failures = [each for each in report.failures if each.standing is standing]
    entries = [_failure(each, others, report) for each, others in by_cause(failures)]
    section = _listed(_TITLES[standing], entries, first=first)
    return replace(section, title=f"{_TITLES[standing]} ({len(failures)})")


def _failure(failure: Failure, others: Sequence[Failure], report: Report) -> Entry:
    optional = "" if failure.required else ", not required"
    lines = [*_since(failure, report), *_attempts(failure), *failure.notes, *_others(others)]
    leftovers = next((i.leftovers for i in report.items if i.id == failure.name), ())
    lines += [f"left behind: {sentence}" for sentence in leftovers]
    known = failure.standing is Standing.KNOWN
    kind = f"{failure.kind} ({failure.failure_class}{optional})"
    return Entry(
        failure.name,
        f"{kind}: {failure.cause}",
        tuple(lines),
        "" if known else failure.reproduction,
    )


def _since(failure: Failure, report: Report) -> list[str]:
    since = failure.since
    if since is None:
        return []
    head = since.commit[:_HEAD_DIGITS] + ("-dirty" if since.dirty else "")
    before = f", green at {since.green[:_HEAD_DIGITS]}" if since.green else ""
    if since.run == report.run:
        return [f"since this run{before}"] if before else []
    return [f"since head {head} ({since.when[:10]}), {since.runs} runs{before}"]


def _attempts(failure: Failure) -> list[str]:
    """A line for each, or one for all of them when all showed the same."""
    attempts = failure.attempts
    if len(attempts) < 2:  # noqa: PLR2004 - one attempt has nothing beside it
        return []
    if all(each.message == failure.cause and each.verdict == failure.kind for each in attempts):
        return [f"all {len(attempts)} attempts showed the same"]
    lines = []
    for each in attempts:
        time = "" if each.seconds is None else f" after {each.seconds:.2f} s"
        said = f": {each.message}" if each.message else ""
        lines.append(f"attempt {each.number} {each.verdict}{time}{said}")
    return lines


def _others(others: Sequence[Failure]) -> list[str]:
    if not others:
        return []
    more = f", and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    names = ", ".join(each.name for each in others[:_NAMED])
    return [f"the same cause in {plural(len(others), 'other')}: {names}{more}"]


def _flaky(failure: Failure) -> Entry:
    passed = sum(each.verdict == "passed" for each in failure.attempts)
    said = f"{passed} of {len(failure.attempts)} attempts passed"
    if failure.score:
        said += f"; over all runs fresh processes disagree in {failure.score:.0%} of pairs"
    return Entry(failure.name, said, tuple(_attempts(failure)))


def _not_run(each: NotRun) -> Entry:
    optional = "" if each.required else " (not required)"
    alone = each.count == 1
    name = each.names[0] if alone else f"{each.item}: {each.count} tests"
    lines = () if alone else tuple(each.names[:3])
    return Entry(name, f"{each.kind}{optional}: {each.why}", lines, each.reproduction)


def _items(report: Report) -> Table:
    rows = tuple(
        (
            each.id,
            each.verdict,
            f"{each.seconds:.1f}",
            f"{each.expected:.1f}" if each.expected else "",
            f"{each.peak_mb:.0f}",
            ", ".join(each.workers),
        )
        for each in report.items
    )
    return Table(("item", "verdict", "seconds", "expected", "peak MiB", "workers"), rows)


def _stages(report: Report) -> Table:
    rows = tuple(
        (each.id, stage, f"{took:.1f}")
        for each in report.items
        for stage, took in each.stages.items()
    )
    return Table(("item", "stage", "seconds"), rows)


def _workers(report: Report) -> Table:
    rows = tuple(
        (each.name, each.flavour, each.key[:_KEY_DIGITS], each.how, f"{each.seconds:.1f}")
        for each in report.workers
    )
    return Table(("worker", "flavour", "key", "how", "seconds"), rows)


def _green(report: Report) -> Section:
    green = report.green
    if green is None:
        return Section("")
    lines = tuple(Entry("", each) for each in green.differences or ("nothing that is known",))
    title = f"Different from the last green run {green.run}"
    return Section(title, lines[:_SHOWN], max(0, len(lines) - _SHOWN))


def _mark(mark: Mark) -> Entry:
    by = f" ({mark.shift:.0f} x its noise)" if mark.shift is not None else ""
    change = f"{mark.before:.4g} -> {mark.after:.4g}{by}"
    return Entry(mark.series, f"{change} since head {mark.commit[:_HEAD_DIGITS]}, run {mark.run}")
