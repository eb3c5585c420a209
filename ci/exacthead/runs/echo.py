"""Showing a growing log on a terminal that its content cannot harm."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_CHUNK = 1 << 20


def visible(text: str) -> str:
    """The text as a terminal may show it: control characters but newline and tab are spelt out."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter in "\n\t" or letter.isprintable() or letter == " " else _escape(letter)
        for letter in text.replace("\r\n", "\n").replace("\r", "\n")
    )


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape", errors="replace").decode("ascii")


class Echo:
    """Follows a log file and hands on what is new, decoded as it arrives."""

    def __init__(self, log: Path, show: Callable[[str], object] | None) -> None:
        self._log = log
        self._show = show
        self._at = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def follow(self) -> None:
        """Show what has been written since the last call."""
        if self._show is None:
            return
        with self._log.open("rb") as file:
            file.seek(self._at)
            while data := file.read(_CHUNK):
                self._at += len(data)
                self._hand_on(self._decoder.decode(data))

    def finish(self) -> None:
        """Show the rest, a cut-off character at the end included."""
        self.follow()
        if self._show is not None:
            self._hand_on(self._decoder.decode(b"", final=True))

    def _hand_on(self, text: str) -> None:
        if text and self._show is not None:
            self._show(visible(text))
