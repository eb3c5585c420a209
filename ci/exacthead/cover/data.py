"""Data files of coverage: whether one is whole, and several as one."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from coverage import CoverageData
from coverage.exceptions import CoverageException

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

# What coverage adds to the name of a data file when it is finished: the digest of its content.
FINISHED = re.compile(r"\.H[0-9A-Za-z]+h$")


def damage(path: Path) -> str | None:
    """What is wrong with a finished data file; None when it is whole.

    Coverage's own ``combine`` warns of a truncated file and ends with 0.
    """
    if not path.exists():
        return "is missing"
    try:
        # Immutable: no lock, no journal; nobody writes it any more.
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as base:
            (state,) = base.execute("pragma integrity_check(1)").fetchone()
            if state != "ok":
                return f"was damaged: {state}"
            # One without lines has only the digest; one that was combined has none.
            ended = "select 1 from meta where key in ('has_arcs', 'hash')"
            if base.execute(ended).fetchone() is None:
                return "was never finished"
    except sqlite3.Error as error:
        return f"cannot be read: {error}"
    return None


class Combined:
    """One data file made of many; the order in which they come makes no difference.

    Args:
        path: the file; an old one is replaced.
        rename: what a measured file is called in it.

    Raises:
        HarnessError: it cannot be written; so do its methods.
    """

    def __init__(self, path: Path, rename: Callable[[str], str]) -> None:
        path.unlink(missing_ok=True)
        self.path = path
        self.rename = rename
        self.digests: set[str] = set()
        self.data = CoverageData(basename=str(path))
        self.add_lines({})  # also a file without a line says that it holds lines

    def add(self, path: Path) -> str | None:
        """Add a data file; returns what is wrong with it, None when all of it was taken."""
        if wrong := damage(path):
            return wrong
        # Coverage names a finished file by the digest of its content.
        if FINISHED.search(path.name):
            if path.suffix in self.digests:
                return None
            self.digests.add(path.suffix)
        other = CoverageData(basename=str(path), read_only=True)
        try:
            other.read()
        except CoverageException as error:
            return f"cannot be read: {error}"
        if other.has_arcs():
            return "holds branches, not lines"
        with self._written():
            self.data.update(other, map_path=self.rename)
        other.close(force=True)
        return None

    def add_lines(self, lines: Mapping[str, set[int]], context: str = "") -> None:
        """Add lines by measured file."""
        merged: dict[str, set[int]] = {}
        for name, numbers in lines.items():
            merged.setdefault(self.rename(name), set()).update(numbers)
        with self._written():
            self.data.set_context(context)
            self.data.add_lines({name: numbers for name, numbers in merged.items() if numbers})

    def add_files(self, names: list[str]) -> None:
        """Add files that count though no line of them ran."""
        with self._written():
            self.data.touch_files(names)

    def close(self) -> None:
        """Finish the file."""
        self.data.close(force=True)

    @contextmanager
    def _written(self) -> Iterator[None]:
        try:
            yield
        except CoverageException as error:
            raise HarnessError(
                f"write {self.path}",
                str(error),
                "make room or give another runs folder; what it is made of is intact",
            ) from error
