"""Which files are collected, and why a planned test was not."""

from __future__ import annotations

import re
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_ADDRESS = re.compile(r" at 0x[0-9a-f]{4,}")
_FILE_END = re.compile(r"\.[A-Za-z]\w*(?=::)|\.py$")
_NEVER_LEFT_OUT = frozenset({"__init__.py", "conftest.py"})


def file_of(nodeid: str) -> str:
    """The file part of a node id, as the harness takes it apart (shards/nodeid.py)."""
    end = _FILE_END.search(nodeid)
    return nodeid[: end.end()] if end else nodeid.split("::", 1)[0]


def is_below(nodeid: str, collector: str) -> bool:
    """Whether a test lies in what a collector (folder, file, class) would have collected."""
    if collector in {"", "."}:
        return True
    return nodeid == collector or nodeid.startswith((collector + "::", collector + "/"))


class Selection:
    """The planned tests and what is collected for them.

    Only files that hold planned tests are collected, and only folders on the way to them, so that
    a broken file hurts no other shard. That needs every planned id to begin with the path of a
    file below pytest's root; where one does not, everything is collected.

    Args:
        planned: node ids; also the path of a file, for one that could not be collected.
        excluded: files and folders that are left out because they ended an earlier process.
        known: every planned test of the files, also those of other processes.
    """

    def __init__(
        self, planned: Iterable[str], excluded: Iterable[str], known: Iterable[str] = ()
    ) -> None:
        self.planned = list(planned)
        self._known = set(known)
        self.excluded = set(excluded)
        self.failed: dict[str, str] = {}
        self.skipped: dict[str, str] = {}
        self.deselected: set[str] = set()
        self._wanted: set[str] | None = None
        self._left_out: set[str] = set()

    def root(self, path: Path) -> None:
        """Take pytest's root, to which node ids are relative."""

        def absolute(name: str) -> Path:
            # Not resolved: pytest's paths go through links too.
            return Path(normpath(path / name))

        files = {absolute(name) for name in {file_of(nodeid) for nodeid in self.planned}}
        self._left_out = {str(absolute(name)) for name in self.excluded}
        if files and all(file.is_file() for file in files):
            self._wanted = {str(each) for file in files for each in (file, *file.parents)}

    def leaves_out(self, path: Path) -> bool:
        """Whether a file or folder is not collected."""
        if str(path) in self._left_out:
            return True
        return path.name not in _NEVER_LEFT_OUT and self._unwanted(path)

    def arguments(self, arguments: list[str], folder: Path) -> list[str]:
        """What pytest collects from, without the files that are left out: it heeds no hook there.

        Args:
            arguments: files and folders, perhaps with ``::`` and more behind them.
            folder: to which they are relative.
        """
        files = {each: Path(normpath(folder / file_of(each))) for each in arguments}
        kept = [
            each
            for each, file in files.items()
            if not (file.is_file() and (str(file) in self._left_out or self._unwanted(file)))
        ]
        # Without any, pytest would take its configured paths.
        return kept or arguments

    def _unwanted(self, path: Path) -> bool:
        return self._wanted is not None and str(path) not in self._wanted

    def unplanned(self, nodeids: Iterable[str]) -> dict[str, list[str]]:
        """Tests that no plan knows, by file, in the files of which the plan knows the tests.

        Ids that hold an address are never those of the plan, which says so by itself.
        """
        files = {file_of(nodeid) for nodeid in self._known if file_of(nodeid) != nodeid}
        found: dict[str, list[str]] = {}
        for nodeid in nodeids:
            new = nodeid not in self._known and not _ADDRESS.search(nodeid)
            if new and file_of(nodeid) in files:
                found.setdefault(file_of(nodeid), []).append(nodeid)
        return found

    def told(self, nodeid: str) -> bool:
        """Whether a planned id is a file whose own end has been told during collection."""
        return nodeid in self.skipped or nodeid in self.failed

    def missing(self, nodeid: str) -> tuple[str, str]:
        """Why a planned id is not there: the kind (``not_run`` or ``skipped``) and the reason."""
        for collector, reason in self.skipped.items():
            if is_below(nodeid, collector):
                return "skipped", reason
        for collector, reason in self.failed.items():
            if is_below(nodeid, collector):
                return "not_run", f"{collector or 'the session'} could not be collected: {reason}"
        if nodeid in self.deselected:
            return "not_run", "it was planned, and then an option or a plugin deselected it"
        if _ADDRESS.search(nodeid):
            return "not_run", (
                "its id holds the address of an object and so is another in each process; give "
                "the parameter an id"
            )
        if file_of(nodeid) == nodeid:
            return "not_run", (
                "the plan knows no test in it (it could not be collected then, or skipped itself); "
                "now it is collected: plan again"
            )
        return "not_run", (
            "pytest did not collect it in this process though it was planned; does its id depend "
            "on a set's order, the time or chance?"
        )
