"""What a sender has put down for receivers that come and ask, and how far each of them is."""

from __future__ import annotations

from threading import Condition
from typing import TYPE_CHECKING

from posttrain.refit.faults import ended, silent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posttrain.refit.offer import Request


class Desk:
    """What the sender has put down, and how far each receiver is."""

    def __init__(self, request: Request) -> None:
        self.receivers = request.receivers
        self.patience_s = request.patience_s
        self._asked = dict.fromkeys(range(len(request.receivers)), -1)
        self._gone: set[int] = set()
        self._buffers: list[memoryview] = []
        self._end: int | None = None
        self._news = Condition()

    def put(self, content: memoryview) -> None:
        """Offer the next buffer."""
        with self._news:
            self._buffers.append(content)
            self._news.notify_all()

    def close(self, end: int) -> None:
        """Say how many buffers there are; 0 sends everybody away."""
        with self._news:
            if self._end is None:
                self._end = end
            self._news.notify_all()

    def wait_for(self, number: int) -> None:
        """Wait until every receiver has asked for buffer ``number``."""
        with self._news:

            def late() -> list[int]:
                return [receiver for receiver, at in self._asked.items() if at < number]

            reached = self._news.wait_for(
                lambda: not late() or self._gone.intersection(late()), self.patience_s
            )
            what = f"asking for buffer {number}"
            if not reached:
                raise silent(f"{self._names(late())} {what}", self.patience_s)
            if gone := self._gone.intersection(late()):
                raise ended(f"{self._names(sorted(gone))} {what}", "its connection ended")

    def ask(self, receiver: int, number: int) -> memoryview | None:
        """The content of a buffer when it is there; None after the last.

        Raises:
            LookupError: it is not the one after the receiver's last, whose bytes may be gone.
            TimeoutError: the sender did not fill it in time.
        """
        with self._news:
            if number != self._asked[receiver] + 1:
                raise LookupError
            self._asked[receiver] = number
            self._news.notify_all()

            def answerable() -> bool:
                met = min(self._asked.values()) >= 0
                return self._end is not None or (met and number < len(self._buffers))

            if not self._news.wait_for(answerable, self.patience_s):
                raise TimeoutError
            return self._buffers[number] if number < len(self._buffers) else None

    def leave(self, receiver: int) -> None:
        """Note that a receiver's connection has ended."""
        with self._news:
            self._gone.add(receiver)
            self._news.notify_all()

    def _names(self, receivers: Sequence[int]) -> str:
        return ", ".join(self.receivers[receiver] for receiver in receivers)
