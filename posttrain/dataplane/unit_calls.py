"""Puts and gets of TransferQueue's storage units, in its own messages, from the thread that asks.

The library's client does the same on an event loop, whose two changes of thread and asynchronous
sockets cost more than the storage unit's own work.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from posttrain.dataplane.connections import Connections
from posttrain.dataplane.tq import (
    KEY_NOT_FOUND_MARKER,
    STORAGE_MANAGER_IDENTITY_PREFIX,
    StorageKeyNotFoundError,
    ZMQMessage,
    ZMQRequestType,
)
from posttrain.dataplane.units import PORT, server_info

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import zmq

    from posttrain.dataplane.connections import Answer, Call
    from posttrain.dataplane.processes import Address


class UnitCalls:
    """Asks storage units, from any number of threads.

    Args:
        units: their addresses; TransferQueue knows a unit by the id in its address.
    """

    def __init__(self, units: Collection[Address]) -> None:
        # A unit drops requests of senders that do not name themselves like this.
        self._name = f"{STORAGE_MANAGER_IDENTITY_PREFIX}{secrets.token_hex(8)}"
        self._connections = {
            info.id: Connections(info.to_addr(PORT), _opened, self._identity)
            for info in map(server_info, units)
        }

    def put(self, unit: str, indexes: Sequence[int], columns: Mapping[str, Sequence[Any]]) -> Call:
        """Begin to store values in a unit: field to one value an index.

        Raises:
            CancelledError: these calls were closed.
        """
        body = {"global_indexes": [*indexes], "data": {**columns}, "data_parser": None}
        return self._ask(unit, ZMQRequestType.PUT_DATA, body)

    def get(self, unit: str, indexes: Sequence[int], fields: Sequence[str]) -> Call:
        """Begin to read values of a unit; the call gives field to one value an index.

        Its result raises ``StorageKeyNotFoundError`` when the unit has not all of them, and
        ``RuntimeError`` when it failed.

        Raises:
            CancelledError: these calls were closed.
        """
        body = {"global_indexes": [*indexes], "fields": [*fields]}
        return self._ask(unit, ZMQRequestType.GET_DATA, body)

    def close(self) -> None:
        """Close the connections, those in use when their calls end. May be called again."""
        for connections in self._connections.values():
            connections.close()

    def _ask(self, unit: str, kind: ZMQRequestType, body: dict[str, Any]) -> Call:
        message = ZMQMessage.create(
            request_type=kind, sender_id=self._name, receiver_id=unit, body=body
        )
        return self._connections[unit].ask(message.serialize())

    def _identity(self) -> bytes:
        return f"{self._name}_{secrets.token_hex(8)}".encode()


def _opened(frames: list[zmq.Frame]) -> Answer:
    message = ZMQMessage.deserialize(frames)
    if message.request_type == ZMQRequestType.PUT_DATA_RESPONSE:
        return None, None
    if message.request_type == ZMQRequestType.GET_DATA_RESPONSE:
        return message.body["data"], None
    found = str(message.body.get("message", message.request_type))
    kind = StorageKeyNotFoundError if KEY_NOT_FOUND_MARKER in found else RuntimeError
    return None, kind(found)
