"""Calls of a plane's ledger over a socket of its own: a fifth of the time of a call of an actor.

Every put and every get asks the ledger once. A request carries a signature made with a secret of
this plane, which comes by way of Ray, and so does an answer: what anybody else sends is dropped
unread.
"""

from __future__ import annotations

import hmac
import pickle
import secrets
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import zmq

if TYPE_CHECKING:
    from posttrain.dataplane.ledger import Ledger


class Door(NamedTuple):
    """Where a ledger is asked.

    Attributes:
        address: of its socket.
        secret: that signs.
    """

    address: str
    secret: bytes


def open_door(ledger: Ledger, host: str) -> Door:
    """Answer calls of a ledger from a thread of its own, one at a time, so that each is atomic.

    Args:
        ledger: that nobody else uses from now on.
        host: the address of this machine that others reach.
    """
    socket = _socket(zmq.ROUTER)
    place = f"[{host}]" if ":" in host else host
    port = socket.bind_to_random_port(f"tcp://{place}")
    door = Door(f"tcp://{place}:{port}", secrets.token_bytes(32))
    threading.Thread(target=_serve, args=(socket, ledger, door), name="ledger", daemon=True).start()
    return door


def _serve(socket: zmq.Socket[bytes], ledger: Ledger, door: Door) -> None:
    while True:
        sender, *signed = socket.recv_multipart()
        request = _opened(door, signed)
        if request is not None:
            method, arguments = pickle.loads(request)  # noqa: S301 - it is signed
            socket.send_multipart([sender, *_signed(door, _answer(ledger, method, arguments))])


def _answer(ledger: Ledger, method: str, arguments: tuple[Any, ...]) -> bytes:
    try:
        return pickle.dumps((getattr(ledger, method)(*arguments), None))
    except Exception as error:  # noqa: BLE001 - it is the caller's
        return pickle.dumps((None, error))


class Caller:
    """Asks a ledger, from any number of threads.

    Args:
        door: of the ledger.
    """

    def __init__(self, door: Door) -> None:
        self._door = door
        self._lock = threading.Lock()
        self._idle: list[zmq.Socket[bytes]] = []
        self._closed = False

    def ask(self, method: str, *arguments: Any) -> Call:
        """Begin to call a method of the ledger."""
        with self._lock:
            socket = self._idle.pop() if self._idle else None
        if socket is None:
            socket = _socket(zmq.DEALER)
            socket.connect(self._door.address)
        socket.send_multipart(_signed(self._door, pickle.dumps((method, arguments))))
        return Call(self, socket)

    def opened(self, signed: list[bytes]) -> tuple[Any, Exception | None] | None:
        """The answer in a message; None of a message that is not the ledger's."""
        answer = _opened(self._door, signed)
        return None if answer is None else pickle.loads(answer)  # noqa: S301 - it is signed

    def give_back(self, socket: zmq.Socket[bytes]) -> None:
        """Keep a socket on which nothing is under way for the next call."""
        with self._lock:
            if not self._closed:
                self._idle.append(socket)
                return
        socket.close()

    def close(self) -> None:
        """Close the connections, those in use when their calls end. May be called again."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for socket in idle:
            socket.close()


class Call:
    """One call, until it has its answer; of one thread at a time."""

    def __init__(self, caller: Caller, socket: zmq.Socket[bytes]) -> None:
        self._caller = caller
        self._socket = socket
        self._answer: tuple[Any, Exception | None] | None = None

    def wait(self, seconds: float) -> bool:
        """Whether the answer is there, after so many seconds at most."""
        if self._answer is None and self._socket.poll(1000 * seconds):
            self._answer = self._caller.opened(self._socket.recv_multipart())
            if self._answer is not None:
                self._caller.give_back(self._socket)
        return self._answer is not None

    def drop(self) -> None:
        """Wait for it no more; what it does is done all the same."""
        if self._answer is None:
            self._socket.close()

    def result(self) -> Any:
        """What the method gave, when the answer is there.

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


def _socket(kind: int) -> zmq.Socket[bytes]:
    socket = zmq.Context.instance().socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    # A message that found no room would be dropped without a word.
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.IPV6, 1)
    return socket


def _signed(door: Door, message: bytes) -> list[bytes]:
    return [hmac.digest(door.secret, message, "sha256"), message]


def _opened(door: Door, signed: list[bytes]) -> bytes | None:
    try:
        signature, message = signed
    except ValueError:
        return None
    right = hmac.digest(door.secret, message, "sha256")
    return message if hmac.compare_digest(signature, right) else None
