"""Ask TransferQueue's storage units what they did: their own counts, over their own sockets.

The thread that answers is the one that serves puts and gets, so an answer also shows that the unit
serves.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

import zmq

from posttrain.dataplane.plane import Served
from posttrain.dataplane.tq import (
    METRICS_COLLECTOR_IDENTITY_PREFIX,
    Role,
    ZMQMessage,
    ZMQRequestType,
    ZMQServerInfo,
    create_zmq_socket,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posttrain.dataplane.processes import Address

PORT = "put_get_socket"


def server_info(address: Address) -> ZMQServerInfo:
    """Return TransferQueue's form of an address."""
    return ZMQServerInfo(Role(address["role"]), address["id"], address["ip"], address["ports"])


def ask(units: Mapping[str, Address], timeout_s: float) -> dict[str, Served]:
    """Ask storage units for their counts, all at once.

    Args:
        units: name to address.
        timeout_s: for all answers together.

    Returns:
        The answers that came in time, by name.
    """
    end = time.monotonic() + timeout_s
    answers: dict[str, Served] = {}
    with zmq.Context() as context:
        sockets = {_asked(context, unit, address): unit for unit, address in units.items()}
        try:
            poller = zmq.Poller()
            for socket in sockets:
                poller.register(socket, zmq.POLLIN)
            while len(answers) < len(sockets):
                ready = poller.poll(max(0.0, end - time.monotonic()) * 1000)
                if not ready:
                    break
                for socket, _ in ready:
                    message = ZMQMessage.deserialize(socket.recv_multipart(copy=False))
                    answers[sockets[socket]] = _served(message.body)
        finally:
            for socket in sockets:
                socket.close(linger=0)
    return answers


def _asked(context: zmq.Context, unit: str, address: Address) -> zmq.Socket:
    # A unit drops requests of senders that do not name themselves like this.
    identity = f"{METRICS_COLLECTOR_IDENTITY_PREFIX}{secrets.token_hex(8)}".encode()
    info = server_info(address)
    socket = create_zmq_socket(context, zmq.DEALER, info.ip, identity=identity)
    socket.connect(info.to_addr(PORT))
    request = ZMQMessage.create(
        request_type=ZMQRequestType.GET_METRICS, sender_id=unit, receiver_id=info.id, body={}
    )
    socket.send_multipart(request.serialize())
    return socket


def _served(body: Mapping[str, Any]) -> Served:
    arrived = body["arrivals_by_op"]
    return Served(
        puts=arrived.get("PUT_DATA", 0),
        gets=arrived.get("GET_DATA", 0),
        clears=arrived.get("CLEAR_DATA", 0),
        rows=body["active_keys"],
        rss_bytes=body["process_rss_bytes"],
    )
