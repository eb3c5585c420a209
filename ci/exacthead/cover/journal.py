"""Reading journals: the lines of a process that could not save them (inside/sitecustomize.py)."""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING

from exacthead.cover.inside.sitecustomize import HEADER, MAGIC, RECORD

if TYPE_CHECKING:
    from pathlib import Path


class BrokenJournalError(ValueError):
    """A journal lacks something; the text says what."""


def read_journal(base: Path) -> dict[str, set[int]]:
    """File name to the lines that were seen.

    Raises:
        BrokenJournalError: it is not there, was damaged, or its process could not write all of it.
    """
    names = _names(base)
    lines: dict[str, set[int]] = {name: set() for name in names}
    for number, line in _records(base):
        if number > len(names):
            raise BrokenJournalError(f"{base.name} has no name for its file {number}")
        lines[names[number - 1]].add(line)
    return lines


def _names(base: Path) -> list[str]:
    path = base.with_name(f"{base.name}.names")
    if not path.exists():
        return []  # it saw no file that counts
    content = path.read_bytes().decode("utf-8", "surrogateescape")
    return content.split("\0")[:-1]


def _records(base: Path) -> list[tuple[int, int]]:
    records: list[tuple[int, int]] = []
    for segment in itertools.count():
        path = base.with_name(f"{base.name}.{segment}")
        if segment and not path.exists():
            return records
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BrokenJournalError(f"{path.name}: {error.strerror}") from error
        magic, healthy, size = HEADER.unpack(content[: HEADER.size].ljust(HEADER.size, b"\0"))
        if magic != MAGIC or len(content) != size << 10:
            raise BrokenJournalError(f"{path.name} was damaged")
        if not segment and not healthy:
            raise BrokenJournalError(f"{base.name}: the disk was full")
        found = struct.iter_unpack(RECORD.format, content[HEADER.size :])
        records += itertools.takewhile(lambda record: record[0], found)
    raise AssertionError  # the count has no end
