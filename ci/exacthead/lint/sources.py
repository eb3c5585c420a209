"""The files that are checked: what git tracks or would track, read once."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from exacthead.git import git_bytes, listing, names
from exacthead.suites import repository_files

if TYPE_CHECKING:
    from pathlib import Path

    from exacthead.config import Harness

_SHEBANG = re.compile(rb"#!\s*(/usr)?/bin/(env\s+(-S\s+)?)?(ba|da)?sh\b")
# As git tells text from binary: by a NUL among the first bytes.
_LOOKED_AT = 8000


@dataclass(frozen=True)
class Sources:
    """The regular files of a checkout by path, relative to its root.

    Attributes:
        root: of the checkout.
        paths: the files.
        undiffed: those that ``.gitattributes`` says are not shown as text (``-diff``).
    """

    root: Path
    paths: tuple[str, ...]
    undiffed: frozenset[str] = frozenset()
    _read: dict[str, bytes] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, harness: Harness) -> Sources:
        """Those of a checkout, links left out: what they lead to is checked where it is."""
        listed = sorted(set(repository_files(harness)))
        paths = tuple(path for path in listed if _regular(harness.root / path))
        return cls(harness.root, paths, _undiffed(harness.root, paths))

    def content(self, path: str) -> bytes:
        """The bytes of a file."""
        if path not in self._read:
            self._read[path] = (self.root / path).read_bytes()
        return self._read[path]

    def named(self, *endings: str) -> tuple[str, ...]:
        """The files whose names have one of the endings."""
        return tuple(path for path in self.paths if path.lower().endswith(endings))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The files that git would show as text."""
        return tuple(path for path in self.paths if b"\0" not in self.content(path)[:_LOOKED_AT])

    @cached_property
    def shell(self) -> tuple[str, ...]:
        """The files that end in .sh or have a shell's shebang."""
        return tuple(
            path
            for path in self.paths
            if path.endswith(".sh") or _SHEBANG.match(self.content(path)[:80])
        )


def _undiffed(root: Path, paths: tuple[str, ...]) -> frozenset[str]:
    asked = ("check-attr", "-z", "--stdin", "diff")
    told = names(git_bytes(root, *asked, stdin=listing(list(paths))))
    # Path, attribute and value, one after the other.
    return frozenset(
        path for path, value in zip(told[::3], told[2::3], strict=True) if value == "unset"
    )


def _regular(path: Path) -> bool:
    return stat.S_ISREG(os.lstat(path).st_mode)
