"""The coverage of one item: all that its processes left becomes one data file and one verdict."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.cover.data import Combined
from exacthead.cover.journal import BrokenJournalError, read_journal
from exacthead.cover.processes import read_processes
from exacthead.cover.settings import LOG, PARTS, read_record
from exacthead.runs.files import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.cover.processes import Process
    from exacthead.cover.settings import Record

DATA = "coverage.sqlite"
SUMMARY = "coverage.json"

_WORDS = {"sysmon": "sys.monitoring", "ctrace": "the C tracer", "pytrace": "the Python tracer"}
_SHOWN = 5


@dataclass(frozen=True)
class ItemCoverage:
    """What is known of one item's coverage; ``coverage.json`` in its folder.

    Attributes:
        reasons: why lines may be missing; the coverage is complete when there are none.
        how: by which means lines were seen, in words, as it really was.
        processes: how many processes measured.
        recovered: how many of them were ended before they could save, and lost nothing.
    """

    reasons: tuple[str, ...]
    how: str
    processes: int
    recovered: int

    @property
    def complete(self) -> bool:
        """Whether every line that ran is known."""
        return not self.reasons


def combine_item(item: Path, *, ended: str = "") -> ItemCoverage:
    """Combine what the processes of an item left, once all of them are gone.

    Writes ``coverage.sqlite``, with names relative to the checkout, and ``coverage.json``. The
    parts are removed when all of them were whole, and kept for a look otherwise.

    Args:
        item: the item's folder, prepared by :func:`exacthead.cover.settings.prepare`.
        ended: why the item did not come to its end (``timed_out: ...``); empty when it did.

    Raises:
        HarnessError: it was never prepared, or its folder cannot be written to.
    """
    parts = item / PARTS
    record = read_record(parts)
    processes = read_processes(parts / LOG)
    combined = Combined(item / DATA, _relative(record))
    reasons = [f"it did not come to its end: {ended}"] if ended else []
    if not processes:
        reasons.append("no process measured anything; does its worker hold coverage 7.14 or newer?")
    used: set[str] = set()
    for process in processes:
        reasons += _add(process, parts, record, combined, used)
    if record.contexts:
        # Between two tests coverage writes what it has, so a killed process leaves most of it.
        for path in sorted((parts / "data").iterdir()):
            if path.name not in used:
                combined.add(path)
    combined.close()
    found = ItemCoverage(
        reasons=tuple(reasons),
        how=_how(record, processes),
        processes=len(processes),
        recovered=sum(not each.files for each in processes) if not reasons else 0,
    )
    write_json(item / SUMMARY, asdict(found))
    if found.complete:
        shutil.rmtree(parts, ignore_errors=True)
    return found


def read_item(item: Path) -> ItemCoverage:
    """Read ``coverage.json`` of an item.

    Raises:
        HarnessError: there is none, or it is not one.
    """
    return read_json(
        item / SUMMARY,
        lambda data: ItemCoverage(**{**data, "reasons": tuple(data["reasons"])}),
        "run the item again with coverage",
    )


def _add(
    process: Process, parts: Path, record: Record, combined: Combined, used: set[str]
) -> list[str]:
    """Add what a process left; returns what it lost."""
    problems, lost = [], not process.files
    for name in map(_last, process.saved):
        path = parts / "data" / name
        used.add(name)
        if not path.exists():
            lost = True
        elif wrong := combined.add(path):
            problems.append(f"{process}: its data file {wrong}")
    noted, broken = 0, ""
    for journal in process.journals:
        try:
            lines = read_journal(parts / _last(journal.base))
        except BrokenJournalError as error:
            broken = f", and its journal is broken: {error}"
        else:
            combined.add_lines(lines, journal.context if record.contexts else "")
            noted += 1
    if lost and noted < len(process.cores):
        problems.append(f"{process}: it was ended before it saved what it had measured{broken}")
    return problems


def _last(path: str) -> str:
    """The last part of a path; the folders before it may be those of a container."""
    return Path(path).name


def _relative(record: Record) -> Callable[[str], str]:
    prefixes = [f"{root.rstrip('/')}/" for root in record.roots]

    def relative(name: str) -> str:
        for prefix in prefixes:
            if name.startswith(prefix):
                return name.removeprefix(prefix)
        return name

    return relative


def _how(record: Record, processes: list[Process]) -> str:
    """The plan, and who did not keep to it."""
    planned = {record.core, "sysmon"} if record.contexts else {record.core}
    others = [each for each in processes if not planned.issuperset(each.cores)]
    if not others:
        return record.how
    cores = Counter(core for each in others for core in each.cores if core not in planned)
    means = " and ".join(_WORDS.get(core, core) for core in sorted(cores))
    shown = "; ".join(map(str, others[:_SHOWN])) + ("; ..." if len(others) > _SHOWN else "")
    return f"{record.how}, but {len(others)} of {len(processes)} processes by {means}: {shown}"
