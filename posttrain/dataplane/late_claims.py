"""Claims that the ledger was late with: what it handed out is the same claim's, made again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeAlias

from posttrain.dataplane.errors import PlaneError, UnavailableError

if TYPE_CHECKING:
    from posttrain.dataplane.connections import Call
    from posttrain.dataplane.processes import Deadline, Processes

Claim: TypeAlias = "tuple[str, str, int, list[str]]"  # partition, consumer, count, fields


class LateClaims:
    """Those of one plane. May be used by several threads.

    Args:
        processes: of the plane.
    """

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._lock = threading.Lock()
        self._late: list[tuple[Claim, Call]] = []

    def claim(self, asked: str, deadline: Deadline, claim: Claim) -> list[str]:
        """Claim rows; first of all those of an equal claim whose answer nobody has seen.

        Raises:
            PlaneError: what the ledger refuses.
            UnavailableError: it did not answer. The rows that it hands out all the same are for
                the next equal claim.
        """
        call = self._take(claim) or self._processes.ask_ledger(asked, "claim", *claim)
        try:
            claimed: list[str] = self._processes.answer(asked, call, deadline)
        except UnavailableError:
            if not call.answered:
                with self._lock:
                    self._late.append((claim, call))
            raise
        except PlaneError:
            call.drop()
            raise
        return claimed

    def close(self) -> None:
        """Forget them all."""
        with self._lock:
            late, self._late = self._late, []
        for _, call in late:
            call.drop()

    def _take(self, claim: Claim) -> Call | None:
        with self._lock:
            for place, (late, _) in enumerate(self._late):
                if late == claim:
                    return self._late.pop(place)[1]
        return None
