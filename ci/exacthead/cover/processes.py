"""Processes: who measured in an item, read from the log that coverage keeps beside its data.

The log is coverage's own (``debug = process, core, dataio, pid``), so that a process is in it also
when nothing of ours is on its path. One line of :mod:`sitecustomize` names its journal.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exacthead.cover.data import FINISHED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LINE = re.compile(r" *(\d+)\.[0-9a-f]{4}: (.*)")
_STARTED = "New process: pid="
_COMMAND = "New process: cmd: "
_FORKED = re.compile(r"New process: forked (\d+) -> \d+")
_CORE = "core.py: Using core="
_SAVED = "Renaming data file to "
_JOURNAL = "exacthead journal "


@dataclass(frozen=True)
class Noted:
    """A journal: the path that its files' names begin with, and the context of its lines."""

    base: str
    context: str


@dataclass
class Process:
    """One program in one process: a fork is another one, and so is what ``exec`` replaced it by.

    Attributes:
        pid: its number, as it saw it.
        command: its arguments, as far as coverage knows them; with how it came about for a fork.
        cores: of each start of measuring, in order; a fork can start more than once.
        journals: where its lines were noted as they came.
        files: the data files that it began, and how each was called when it was finished.
    """

    pid: int
    command: str
    cores: list[str] = field(default_factory=list)
    journals: list[Noted] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)

    @property
    def saved(self) -> list[str]:
        """The data files that it finished, by their last names."""
        return list(self.files.values())

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command})"


def read_processes(log: Path) -> list[Process]:
    """All processes that started to measure, in the order in which they came.

    Lines that are not understood say nothing; a line can only be torn where a disk is full.
    """
    if not log.exists():
        return []
    found: list[Process] = []
    latest: dict[int, Process] = {}
    for pid, text in _lines(log):
        forked = _FORKED.match(text)
        if text.startswith(_STARTED) or forked or pid not in latest:
            parent = latest.get(int(forked[1])) if forked else None
            command = f"forked by {parent}" if parent else "unknown command"
            latest[pid] = Process(pid, command)
            found.append(latest[pid])
        _note(latest[pid], text)
    return [process for process in found if process.cores]


def _lines(log: Path) -> Iterator[tuple[int, str]]:
    with log.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if match := _LINE.match(line):
                yield int(match[1]), match[2].rstrip("\n")


def _note(process: Process, text: str) -> None:
    if text.startswith(_COMMAND):
        process.command = _words(text.removeprefix(_COMMAND))
    elif text.startswith(_CORE):
        process.cores.append(text.removeprefix(_CORE))
    elif text.startswith(_JOURNAL):
        process.journals += _noted(text.removeprefix(_JOURNAL))
    elif text.startswith(_SAVED):
        name = _name(text.removeprefix(_SAVED))
        process.files[FINISHED.sub("", name)] = name  # a later save renames it again


def _noted(text: str) -> list[Noted]:
    """The journal that a line names; none in a torn one, so that its lines count as lost."""
    try:
        base, context = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        return []
    return [Noted(base, context)]


def _words(text: str) -> str:
    """Arguments as one line; coverage writes the list that Python has of them."""
    try:
        words = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text[:200]
    return " ".join(map(str, words))[:200] if isinstance(words, list) else text[:200]


def _name(text: str) -> str:
    """The path at the line's beginning, quoted by ``repr``; what follows it describes the file."""
    quote = text[:1]
    end = re.search(rf"(?<!\\){quote}", text[1:]) if quote in {"'", '"'} else None
    return str(ast.literal_eval(text[: end.end() + 1])) if end else text
