"""What a worker or a trainer is told about capture: plain values that travel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from posttrain.capture.errors import CaptureSetupError

if TYPE_CHECKING:
    from posttrain.dataplane import Handle

PARTITION = "capture"


@dataclass(frozen=True)
class CaptureSettings:
    """Where staged calls are kept: in exactly one place.

    Attributes:
        plane: what ``handle()`` of a data plane returns.
        folder: of the file store.
        database: file of the SQLite store.
        partition: of the data plane.
        deadline_s: longest time for one write of a call, or one read of its parent's tokens, in
            seconds. A call that is not staged by then is answered, and not captured.
        threads: calls that are staged at the same time.

    Raises:
        CaptureSetupError: no place, or more than one; a deadline or a number that is not positive.
    """

    plane: Handle | None = None
    folder: str | None = None
    database: str | None = None
    partition: str = PARTITION
    deadline_s: float = 10.0
    threads: int = 16

    def __post_init__(self) -> None:
        places = {"plane": self.plane, "folder": self.folder, "database": self.database}
        named = [name for name, place in places.items() if place is not None]
        if len(named) != 1:
            raise CaptureSetupError(
                "one place for staged calls",
                f"{' and '.join(named) or 'none'}",
                f"name one of {', '.join(places)}",
            )
        if not self.deadline_s > 0 or self.threads < 1:
            raise CaptureSetupError(
                "a positive deadline, and at least one thread",
                f"deadline_s={self.deadline_s}, threads={self.threads}",
                "give greater values",
            )
