"""What an engine sends: progress as JSON, and the output of containers in frames.

A stream of progress may carry an error behind any number of cheerful lines, with the status 200.
Frames: https://docs.docker.com/reference/api/engine/version/v1.41/#tag/Container/operation/ContainerAttach
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STDOUT, STDERR = 1, 2
_HEADER = struct.Struct(">BxxxL")


@dataclass
class Frames:
    """Takes a container's output apart, in whatever pieces it comes."""

    _rest: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Whose bytes came: ``STDOUT`` or ``STDERR``, and which; exactly those that were written.

        Raises:
            HarnessError: this is no such stream.
        """
        self._rest += data
        while len(self._rest) >= _HEADER.size:
            stream, size = _HEADER.unpack_from(self._rest)
            if stream not in {0, STDOUT, STDERR} or self._rest[1:4] != b"\0\0\0":
                raise HarnessError(
                    "the output of a container",
                    f"a frame that begins with {bytes(self._rest[:8])!r}",
                    "look at what stands between here and the engine",
                )
            end = _HEADER.size + size
            if len(self._rest) < end:
                return
            payload = bytes(self._rest[_HEADER.size : end])
            del self._rest[:end]
            yield stream or STDOUT, payload

    @property
    def whole(self) -> bool:
        """Whether the stream may end here; false in the middle of a frame."""
        return not self._rest


def check_progress(lines: Iterable[bytes], asked: str, todo: str) -> list[dict[str, Any]]:
    """Read a stream of progress to its end.

    Args:
        lines: pieces of it, cut anywhere.
        asked: what it is the progress of.
        todo: what to do when it went wrong.

    Returns:
        Its messages.

    Raises:
        HarnessError: one of them is an error, wherever it stands, or the stream is broken.
    """
    decoder = json.JSONDecoder()
    text = b""
    messages: list[dict[str, Any]] = []
    for piece in lines:
        text += piece
        *whole, text = text.split(b"\n")
        for line in whole:
            messages += _messages(decoder, line, asked)
    messages += _messages(decoder, text, asked)
    errors = [
        str((message.get("errorDetail") or {}).get("message") or message["error"])
        for message in messages
        if message.get("error") or message.get("errorDetail")
    ]
    if errors:
        raise HarnessError(asked, "; ".join(dict.fromkeys(errors)), todo)
    return messages


def _messages(decoder: json.JSONDecoder, line: bytes, asked: str) -> Iterator[dict[str, Any]]:
    """The objects of one line; engines put several on one."""
    text = line.decode(errors="replace").strip()
    while text:
        try:
            message, end = decoder.raw_decode(text)
        except ValueError as error:
            raise HarnessError(
                asked, f"the engine said {text[:200]!r}, which is no JSON", "see its own log"
            ) from error
        if not isinstance(message, dict):
            raise HarnessError(asked, f"the engine said {text[:200]!r}", "see its own log")
        yield message
        text = text[end:].strip()
