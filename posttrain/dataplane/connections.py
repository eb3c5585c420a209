"""Requests over plain sockets, from any number of threads: a socket has one request at a time.

An answer is known by the socket on which it comes, so one that is late is never taken for the
answer of another request. A thread waits for its own socket; no event loop is between.
"""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, TypeAlias

import zmq

from posttrain.dataplane.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Answer: TypeAlias = "tuple[Any, Exception | None]"  # what a request gave, or what it raises


class Connections:
    """To one peer.

    Args:
        address: of its socket.
        opened: reads the frames of a message; None of one that is not the peer's.
        named: gives each socket an identity of its own, where the peer asks for one.
    """

    def __init__(
        self,
        address: str,
        opened: Callable[[list[zmq.Frame]], Answer | None],
        named: Callable[[], bytes] | None = None,
    ) -> None:
        self._address = address
        self._named = named
        self._lock = threading.Lock()
        self._idle: list[zmq.Socket[bytes]] = []
        self.opened = opened
        self.closed = False

    def ask(self, frames: Sequence[Any]) -> Call:
        """Send a request.

        Raises:
            CancelledError: these connections were closed.
            UnavailableError: this process can have no more sockets.
        """
        with self._lock:
            if self.closed:
                raise CancelledError
            socket = self._idle.pop() if self._idle else None
        if socket is not None and socket.poll(0):
            # Something came that nobody had asked for: the next answer could not be told from it.
            socket.close()
            socket = None
        if socket is None:
            socket = self._connected()
        socket.send_multipart(frames, copy=False)
        return Call(self, socket)

    def _connected(self) -> zmq.Socket[bytes]:
        try:
            socket = plain_socket(zmq.DEALER)
        except zmq.ZMQError as error:
            raise UnavailableError(
                f"ask {self._address}",
                f"no socket for one request more: {error}",
                "let fewer threads call at once, or raise the process's limit of open files",
            ) from error
        if self._named is not None:
            socket.setsockopt(zmq.IDENTITY, self._named())
        socket.connect(self._address)
        return socket

    def give_back(self, socket: zmq.Socket[bytes]) -> None:
        """Keep a socket on which nothing is under way for the next request."""
        with self._lock:
            if not self.closed:
                self._idle.append(socket)
                return
        socket.close()

    def close(self) -> None:
        """Close the sockets, those in use when their requests end. May be called again."""
        with self._lock:
            self.closed = True
            idle, self._idle = self._idle, []
        for socket in idle:
            socket.close()


class Call:
    """One request, until it has its answer; of one thread at a time."""

    def __init__(self, connections: Connections, socket: zmq.Socket[bytes]) -> None:
        self._connections = connections
        self._socket = socket
        self._answer: Answer | None = None

    def wait(self, seconds: float) -> bool:
        """Whether the answer is there, after so many seconds at most.

        Raises:
            CancelledError: it is not, and the connections were closed.
        """
        if self._answer is not None:
            return True
        if self._socket.closed:
            raise CancelledError
        if not self._socket.poll(1000 * seconds):
            if self._connections.closed:
                self._socket.close()
                raise CancelledError
            return False
        try:
            self._answer = self._connections.opened(self._socket.recv_multipart(copy=False))
        except Exception as error:  # noqa: BLE001 - no other answer will come
            self._answer = None, error
            self._socket.close()
            return True
        if self._answer is None:
            return False
        self._connections.give_back(self._socket)
        return True

    @property
    def answered(self) -> bool:
        """Whether the answer was there when it was last waited for."""
        return self._answer is not None

    def drop(self) -> None:
        """Wait for it no more; what it does is done all the same."""
        if self._answer is None:
            self._socket.close()

    def result(self) -> Any:
        """What the request gave, when the answer is there.

        Raises:
            Exception: what it raised.
        """
        if self._answer is None:
            msg = "this call has no answer yet"
            raise RuntimeError(msg)
        value, error = self._answer
        if error is not None:
            raise error
        return value


def plain_socket(kind: int) -> zmq.Socket[bytes]:
    """A socket of this process's context that drops nothing for want of room."""
    socket = zmq.Context.instance().socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.IPV6, 1)
    return socket
