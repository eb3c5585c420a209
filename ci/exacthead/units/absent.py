"""Absent: test files of a suite of which pytest has nothing to tell, though nobody asked for that.

pytest passes over a file in silence for many reasons: its folder is in ``norecursedirs``, a
conftest lists it in ``collect_ignore`` or drops its tests, it holds none. Nothing that did not run
is green, so such a file is named and its suite is red; what the suite's own options leave out
(``-m``, ``-k``, ``--deselect``, ``--ignore``) is said.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from exacthead.shards.nodeid import file_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from exacthead.units.collect import Collected

_SHOWN = 5


@dataclass(frozen=True)
class Absent:
    """What of a suite is not planned.

    Attributes:
        faults: what nothing explains, a line each.
        notes: what options explain, a line each.
    """

    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def absent(collected: Collected, root: Path, files: Sequence[str]) -> Absent:
    """Look for every test file of a suite in what was collected.

    Args:
        collected: what pytest found.
        root: of the checkout.
        files: the suite's test files, from the root.
    """
    told = {*collected.planned, *collected.deselected_in, *collected.dropped}
    base = Path(collected.rootdir or root)
    seen = {os.path.realpath(base / place) for place in set(map(_place, told))}
    missing: list[str] = []
    ignored: list[str] = []
    for file in files:
        # A link may lead to a file, and a folder that could not be collected stands for its files.
        path = Path(os.path.realpath(root / file))
        if seen.isdisjoint(map(str, (path, *path.parents))):
            by_option = _ignored(root / file, collected)
            (ignored if by_option else missing).append(file)
    return Absent(tuple(_faults(missing, collected.dropped)), tuple(_notes(ignored)))


def _faults(missing: Sequence[str], dropped: Sequence[str]) -> Iterator[str]:
    if missing:
        yield (
            f"pytest found no test in {_named(missing)}: empty, or passed over (norecursedirs, "
            "collect_ignore, python_files)? Mend that, or say so with --ignore in the suite's "
            "arguments or with project.not_tests"
        )
    if dropped:
        yield (
            f"a conftest or plugin dropped without a word {_named(dropped)}; let it call "
            "pytest_deselected"
        )


def _notes(ignored: Sequence[str]) -> Iterator[str]:
    if ignored:
        yield f"left out by --ignore: {_named(ignored)}"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _place(nodeid: str) -> str:
    """The file or folder that an id stands for; pytest 7 names a package by its first file."""
    return file_of(nodeid.removesuffix("/__init__.py"))


def _ignored(path: Path, collected: Collected) -> bool:
    """Whether an option says that pytest shall not collect a file."""
    places: Iterable[PurePath] = (path, *path.parents)
    return any(
        str(place) in collected.ignore
        or any(fnmatch(str(place), pattern) for pattern in collected.ignore_globs)
        for place in places
    )
