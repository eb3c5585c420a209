"""A finding: what a rule objects to, where, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        path: the file, relative to the root; ``.`` where it is the repository as a whole.
        line: from 1 on; 0 where no single line is meant.
        rule: the rule's name.
        found: what is there, in words.
        fix: what to do.
    """

    path: str
    line: int
    rule: str
    found: str
    fix: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else self.path
        return f"{where}: {self.rule}: {self.found}; to do: {self.fix}"
