"""The coverage of a run: the data of all items, one XML file, one verdict on their completeness."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.parsers import expat

from exacthead.cover.data import Combined
from exacthead.cover.item import DATA, read_item
from exacthead.cover.settings import counted
from exacthead.cover.tool import run_tool
from exacthead.errors import HarnessError
from exacthead.git import git

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exacthead.cover.settings import Settings

XML = "coverage.xml"
_DEADLINE_S = 600
_SHOWN = 3


@dataclass(frozen=True)
class FileCoverage:
    """One source file: how many of its executable lines ran."""

    path: str
    covered: int
    total: int


@dataclass(frozen=True)
class Coverage:
    """The coverage of a run.

    Attributes:
        files: all files that count, by path, also those that nothing imported.
        reasons: why lines may be missing, by item; complete when there are none.
        how: by which means lines were seen, in words, a sentence for each way.
        notes: what is worth knowing and is no reason for doubt.
    """

    files: tuple[FileCoverage, ...]
    reasons: tuple[str, ...]
    how: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every line that ran is known."""
        return not self.reasons

    @property
    def percent(self) -> float | None:
        """Covered lines of all executable ones; None when there are none."""
        total = sum(file.total for file in self.files)
        return 100 * sum(file.covered for file in self.files) / total if total else None

    def __str__(self) -> str:
        shown = "no executable lines" if self.percent is None else f"{self.percent:.1f} % of lines"
        more = len(self.reasons) - _SHOWN
        reasons = (*self.reasons[:_SHOWN], *([f"and {more} more"] if more > 0 else []))
        state = "" if self.complete else f", incomplete: {'; '.join(reasons)}"
        return f"{shown} ({'; '.join(self.how) or 'no item measured anything'}){state}"


def combine_run(run: Path, items: Mapping[str, Path], root: Path, settings: Settings) -> Coverage:
    """Combine the items of a run into ``coverage.sqlite`` and ``coverage.xml`` in its folder.

    Args:
        run: the run's folder.
        items: the folder of each item that was to be measured, by its id.
        root: the checkout that ran; files that count and were never imported are found there.
        settings: what counts.

    Raises:
        HarnessError: the run's folder cannot be written to, or the report cannot be made.
    """
    reasons: list[str] = []
    how: dict[str, list[str]] = {}
    notes = []
    combined = Combined(run / DATA, rename=str)
    for item_id, folder in sorted(items.items()):
        try:
            item = read_item(folder)
        except HarnessError as error:
            reasons.append(f"{item_id}: it has no coverage: {error.found}")
            continue
        reasons += [f"{item_id}: {reason}" for reason in item.reasons]
        how.setdefault(item.how, []).append(item_id)
        if item.recovered:
            notes.append(
                f"{item_id}: {item.recovered} of {item.processes} processes were ended before they"
                " could save; their journals hold all that they ran"
            )
        if wrong := combined.add(folder / DATA):
            reasons.append(f"{item_id}: its {DATA} {wrong}")
    listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    combined.add_files(sorted(name for name in counted(settings, listed) if (root / name).exists()))
    combined.close()
    notes += _write_xml(run, root, settings)
    return Coverage(
        files=read_files(run / XML),
        reasons=tuple(reasons),
        how=tuple(_sentences(how)),
        notes=tuple(notes),
    )


def _sentences(how: dict[str, list[str]]) -> list[str]:
    if len(how) == 1:
        return list(how)
    return [f"{', '.join(items)}: {words}" for words, items in sorted(how.items())]


def _write_xml(run: Path, root: Path, settings: Settings) -> list[str]:
    """Let coverage write its report; returns what it warned of.

    In a process of its own: coverage takes names as relative to where it was started, and a
    second ``Coverage`` in this process would make the first give up its data.
    """
    config = [
        "[tool.coverage.run]",
        "relative_files = true",
        "[tool.coverage.report]",
        # What is no Python, and what a test made and removed, has no lines to count.
        "ignore_errors = true",
        f"exclude_also = {json.dumps([each.replace('$', '$$') for each in settings.exclude])}",
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.toml"
        path.write_text("\n".join([*config, ""]), encoding="utf-8")
        data = f"--data-file={run / DATA}"
        arguments = ["xml", "-q", f"--rcfile={path}", data, "-o", str(run / XML)]
        done = run_tool("coverage", arguments, root, _DEADLINE_S)
    said = [line.strip() for line in done.stderr.splitlines() if "Warning: " in line]
    if done.returncode != 0:
        raise HarnessError(
            f"a coverage report {run / XML}",
            (done.stdout + done.stderr).strip()[-500:],
            "the data beside it are intact; `coverage xml` says more",
        )
    return [line.partition("Warning: ")[2] for line in said]


def read_files(path: Path) -> tuple[FileCoverage, ...]:
    """The files of a ``coverage.xml`` that :func:`combine_run` has made.

    Raises:
        OSError: it cannot be read.
        expat.ExpatError: it is no XML.
        KeyError: it is no such file; StopIteration too.
    """
    counts: dict[str, list[int]] = {}

    def started(name: str, attributes: dict[str, str]) -> None:
        if name == "class":
            counts[attributes["filename"]] = [0, 0]
        elif name == "line":
            count = next(reversed(counts.values()))
            count[0] += attributes["hits"] != "0"
            count[1] += 1

    parser = expat.ParserCreate()
    parser.StartElementHandler = started
    with path.open("rb") as file:
        parser.ParseFile(file)
    return tuple(FileCoverage(name, *count) for name, count in sorted(counts.items()))
