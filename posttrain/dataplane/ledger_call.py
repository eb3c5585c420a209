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

from posttrain.dataplane.connections import Connections, plain_socket

if TYPE_CHECKING:
    from posttrain.dataplane.connections import Answer, Call
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
    socket = plain_socket(zmq.ROUTER)
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
            socket.send_multipart([sender, *_signed(door, _answer(ledger, request))])


def _answer(ledger: Ledger, request: bytes) -> bytes:
    try:
        # A caller may name what only its own process can import.
        method, arguments = pickle.loads(request)  # noqa: S301 - it is signed
        return pickle.dumps((getattr(ledger, method)(*arguments), None))
    except Exception as error:  # noqa: BLE001 - it is the caller's
        try:
            return pickle.dumps((None, error))
        except Exception:  # noqa: BLE001 - nothing may end this thread
            return pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}")))


class Caller:
    """Asks a ledger, from any number of threads.

    Args:
        door: of the ledger.
    """

    def __init__(self, door: Door) -> None:
        self._door = door
        self._connections = Connections(door.address, self._opened)

    def ask(self, method: str, *arguments: Any) -> Call:
        """Begin to call a method of the ledger.

        Raises:
            CancelledError: this caller was closed.
        """
        return self._connections.ask(_signed(self._door, pickle.dumps((method, arguments))))

    def close(self) -> None:
        """Close the connections, those in use when their calls end. May be called again."""
        self._connections.close()

    def _opened(self, frames: list[zmq.Frame]) -> Answer | None:
        opened = _opened(self._door, [frame.bytes for frame in frames])
        if opened is None:
            return None
        answer: Answer = pickle.loads(opened)  # noqa: S301 - it is signed
        return answer


def _signed(door: Door, message: bytes) -> list[bytes]:
    return [hmac.digest(door.secret, message, "sha256"), message]


def _opened(door: Door, signed: list[bytes]) -> bytes | None:
    try:
        signature, message = signed
    except ValueError:
        return None
    right = hmac.digest(door.secret, message, "sha256")
    return message if hmac.compare_digest(signature, right) else None
