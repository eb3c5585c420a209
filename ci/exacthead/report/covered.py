"""The coverage of a run for its pages: files, and the lines of the change that did not run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from exacthead.cover.combine import XML, read_files
from exacthead.cover.patch import SUMMARY, Patch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from exacthead.cover.combine import FileCoverage

_MOST_FILES = 2000
_MOST_MISSED = 100
_MOST_LINES = 200
_AROUND = 2
_LONGEST = 400


@dataclass(frozen=True)
class Line:
    """One line of a source file, and whether it should have run and did not."""

    number: int
    text: str
    missed: bool


@dataclass(frozen=True)
class Missed:
    """A file of the change with lines that did not run.

    Attributes:
        path: of the file.
        anchor: its name on the page.
        ranges: the numbers in words: ``3, 8-12``.
        lines: the lines with some around them, None for a gap; empty when the text is not at hand.
    """

    path: str
    anchor: str
    ranges: str
    lines: tuple[Line | None, ...]


@dataclass(frozen=True)
class FileShare:
    """One file: its covered lines of all executable ones, and that in percent."""

    path: str
    covered: int
    total: int
    percent: float


@dataclass(frozen=True)
class Judged:
    """What was said of a change: a state like a verdict's, and words."""

    state: str
    words: str


@dataclass(frozen=True)
class Covered:
    """The coverage as it is shown; ``..._more`` is how many files there are beyond those listed."""

    percent: float | None
    total: int
    files: tuple[FileShare, ...]
    files_more: int
    patch: Judged | None
    missed: tuple[Missed, ...]
    missed_more: int


def read_coverage(run: Path, root: Path | None, clean: Callable[[str], str] = str) -> Covered:
    """The coverage that a run has written.

    Args:
        run: the run's folder.
        root: the checkout that ran, for the text of lines; None when it is not at hand.
        clean: takes secrets out of a text.

    Raises:
        OSError: there is none.
        ValueError: a file of it is broken; ExpatError, KeyError and StopIteration too.
    """
    files = read_files(run / XML)
    total = sum(each.total for each in files)
    covered = sum(each.covered for each in files)
    patch = _read_patch(run / SUMMARY)
    missing = dict(patch.missing) if patch else {}
    return Covered(
        percent=100 * covered / total if total else None,
        total=total,
        files=_shares(files)[:_MOST_FILES],
        files_more=max(0, len(files) - _MOST_FILES),
        patch=Judged(patch.state, str(patch)) if patch else None,
        missed=tuple(
            Missed(path, f"missed-{index}", ranges(lines), _lines(root, path, lines, clean))
            for index, (path, lines) in enumerate(list(missing.items())[:_MOST_MISSED])
        ),
        missed_more=max(0, len(missing) - _MOST_MISSED),
    )


def _shares(files: Sequence[FileCoverage]) -> tuple[FileShare, ...]:
    """Those with most missing lines first; a file without any executable line is covered."""
    shares = [
        FileShare(
            each.path,
            each.covered,
            each.total,
            100 * each.covered / each.total if each.total else 100.0,
        )
        for each in files
    ]
    return tuple(sorted(shares, key=lambda each: (each.covered - each.total, each.path)))


def _read_patch(path: Path) -> Patch | None:
    try:
        return TypeAdapter(Patch).validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise ValueError(f"{path.name}: {error.errors()[0]['msg']}") from error


def ranges(numbers: Sequence[int]) -> str:
    """Numbers in ascending order in words: ``3, 8-12``."""
    if not numbers:
        return ""
    parts = [[numbers[0], numbers[0]]]
    for before, this in pairwise(numbers):
        if this == before + 1:
            parts[-1][1] = this
        else:
            parts.append([this, this])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _lines(
    root: Path | None, path: str, missed: Sequence[int], clean: Callable[[str], str]
) -> tuple[Line | None, ...]:
    """The lines that are missed and two around each; nothing when the file is not what it was."""
    if root is None:
        return ()
    place = (root / path).resolve()
    if not place.is_relative_to(root.resolve()) or not place.is_file():
        return ()
    whole = place.read_text(encoding="utf-8", errors="replace")
    text = clean(whole).splitlines()
    if len(text) != len(whole.splitlines()) or (missed and missed[-1] > len(text)):
        return ()
    wanted = sorted(
        {
            number
            for each in missed[:_MOST_LINES]
            for number in range(max(1, each - _AROUND), min(len(text), each + _AROUND) + 1)
        }
    )
    absent = set(missed)
    shown: list[Line | None] = []
    for before, number in pairwise([wanted[0], *wanted]) if wanted else ():
        if number > before + 1:
            shown.append(None)
        shown.append(Line(number, text[number - 1][:_LONGEST], number in absent))
    return tuple(shown)
