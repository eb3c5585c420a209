"""The files of a folder, for people to open."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_MOST = 300
_OWN = frozenset({"index.html", "coverage.html"})
# Thousands of journals of processes; the item's own report says what came of them.
_PASSED_OVER = frozenset({"coverage.parts"})


@dataclass(frozen=True)
class File:
    """A file: its path relative to the page, with ``/``, and its size in bytes."""

    path: str
    size: int


def listing(folder: Path, *, inside: bool) -> tuple[tuple[File, ...], int]:
    """The files in a folder, by path, and how many more there are than are listed.

    Args:
        folder: it need not exist.
        inside: whether folders in it are looked into.
    """
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _PASSED_OVER) if inside else []
        for name in names:
            path = Path(place) / name
            if path.is_symlink() or (Path(place) == folder and name in _OWN):
                continue
            # A name may hold bytes that are no UTF-8; an address can hold any byte.
            shown = str(path.relative_to(folder))
            found.append(File(shown, path.stat().st_size))
    found.sort(key=lambda each: each.path)
    return tuple(found[:_MOST]), max(0, len(found) - _MOST)
