"""Verdicts: what became of one item (a test, a shard, a leg, a contract check)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The closed list of things that can have become of an item."""

    PASSED = "passed"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    SKIPPED = "skipped"
    NOT_RUN = "not_run"
    QUARANTINED = "quarantined"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Verdict:
    """A kind and, unless it is a plain pass, the reason in words."""

    kind: Kind
    reason: str = ""

    def __post_init__(self) -> None:
        if self.kind is not Kind.PASSED and not self.reason:
            msg = f"a verdict {self.kind} needs a reason"
            raise ValueError(msg)

    @property
    def green(self) -> bool:
        """Whether a required item with this verdict lets the run pass (law 2)."""
        return self.kind in {Kind.PASSED, Kind.QUARANTINED}

    def __str__(self) -> str:
        return f"{self.kind}({self.reason})" if self.reason else str(self.kind)
