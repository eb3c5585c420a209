"""The channel: how a pytest process asks its driver for work, over one inherited socket."""

from __future__ import annotations

import json
from os import read, write
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Lost(Exception):  # noqa: N818 - it names what happened to the channel
    """The driver cannot be reached any more: it ended, or a test closed the socket."""


class Channel:
    """Questions of one line, answers of one line.

    Args:
        descriptor: the socket.
        identity: tells what a descriptor is open on.
    """

    def __init__(self, descriptor: int, identity: Callable[[int], tuple[int, int] | None]) -> None:
        self._descriptor = descriptor
        self._identity_of = identity
        self._identity = identity(descriptor)
        self._read, self._write = read, write
        self._loads, self._dumps = json.loads, json.dumps

    def ask(self, question: str, **fields: object) -> dict[str, Any]:
        """Ask and wait for the answer.

        Raises:
            Lost: there is nobody to ask.
        """
        if self._identity_of(self._descriptor) != self._identity:
            raise Lost("a test closed the socket to the driver")
        try:
            self._write(self._descriptor, self._dumps({"ask": question, **fields}).encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                data = self._read(self._descriptor, 1 << 16)
                if not data:
                    raise Lost("the driver has gone")
                answer += data
        except OSError as error:
            raise Lost(str(error)) from error
        found: dict[str, Any] = self._loads(answer)
        return found
