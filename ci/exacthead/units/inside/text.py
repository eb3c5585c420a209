"""Text of a file that is being written: what is there so far, without loss."""

from __future__ import annotations

from codecs import getincrementaldecoder
from os import pread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK = 1 << 16
_new_decoder = getincrementaldecoder("utf-8")


def decoded(descriptor: int, start: int, end: int) -> Iterator[str]:
    r"""The text between two offsets of a file in chunks; bytes that are no UTF-8 as ``\xff``."""
    decoder = _new_decoder("backslashreplace")
    while start < end:
        data = pread(descriptor, min(_CHUNK, end - start), start)
        if not data:
            break
        start += len(data)
        if text := decoder.decode(data):
            yield text
    if text := decoder.decode(b"", final=True):
        yield text
