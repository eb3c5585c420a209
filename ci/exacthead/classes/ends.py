"""Both ends of a log of any size; what lies between them is not read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HEAD_BYTES = 1 << 16
TAIL_BYTES = 1 << 18


@dataclass(frozen=True)
class Ends:
    """The first and the last lines of a text.

    Attributes:
        head: from its start; the whole when ``cut`` is false.
        tail: up to its end; empty when ``cut`` is false.
        size: of the whole, in bytes.
        cut: whether something between them was left out.
    """

    head: str
    tail: str
    size: int
    cut: bool

    @property
    def last(self) -> str:
        """The end of the text, as far as it was read."""
        return self.tail if self.cut else self.head


def read_ends(path: Path, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> Ends:
    r"""Read at most ``head`` + ``tail`` bytes of a file; bytes that are no UTF-8 stand as ``\xff``.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        if size <= head + tail:
            return Ends(_text(file.read(head + tail)), "", size, cut=False)
        first = file.read(head)
        file.seek(size - tail)
        last = file.read(tail)
    # Lines that were cut through say something else than they said.
    return Ends(_text(first.rpartition(b"\n")[0]), _text(_whole(last)), size, cut=True)


def _whole(block: bytes) -> bytes:
    """The block without the part of a line that it begins with, if it holds a whole one."""
    return block.partition(b"\n")[2] or block


def _text(block: bytes) -> str:
    return block.decode("utf-8", errors="backslashreplace")
