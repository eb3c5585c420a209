"""Showing a growing log on a terminal that its content cannot harm."""

from __future__ import annotations

import codecs
import os
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK = 1 << 20
# A terminal that is further behind is not waited for: the harness has to come round.
_MOST_BEHIND = 16 * _CHUNK


class _Shown(dict[int, str]):
    """Code point -> what is shown for it, worked out once."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        safe = letter in "\n\t" or letter.isprintable()
        self[code] = letter if safe else ascii(letter)[1:-1]
        return self[code]


_SHOWN = _Shown()


def visible(text: str) -> str:
    """The text as a terminal may show it: control characters but newline and tab are spelt out."""
    if text.isprintable():
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_SHOWN)


class Echo:
    """Follows a log and hands on what is new, decoded as it arrives.

    Args:
        log: open for reading; it may be removed or replaced meanwhile.
        show: gets the text; None for nobody.
    """

    def __init__(self, log: IO[bytes], show: Callable[[str], object] | None) -> None:
        self._log = log.fileno()
        self._show = show
        self._at = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def follow(self) -> None:
        """Show some of what has been written since the last call."""
        if self._show is None:
            return
        self._catch_up(_MOST_BEHIND)
        data = os.pread(self._log, _CHUNK, self._at)
        self._at += len(data)
        self._hand_on(self._decoder.decode(data))

    def finish(self) -> None:
        """Show the rest, or the end of it, a cut-off character included."""
        if self._show is None:
            return
        self._catch_up(_MOST_BEHIND)
        while data := os.pread(self._log, _CHUNK, self._at):
            self._at += len(data)
            self._hand_on(self._decoder.decode(data))
        self._hand_on(self._decoder.decode(b"", final=True))

    def _catch_up(self, most: int) -> None:
        """Leave out what is more than ``most`` bytes behind, and say so."""
        end = os.fstat(self._log).st_size
        if end - self._at <= most:
            return
        left_out = end - _CHUNK - self._at
        self._at += left_out
        self._decoder.reset()
        self._hand_on(f"\n... {left_out} bytes are only in the log ...\n")

    def _hand_on(self, text: str) -> None:
        if text and self._show is not None:
            self._show(visible(text))
