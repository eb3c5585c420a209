"""The process that holds a plane's ledger. It needs none of TransferQueue's libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ray

from posttrain.dataplane.ledger import Ledger
from posttrain.dataplane.ledger_call import open_door
from posttrain.stacks import register_stack_dump

if TYPE_CHECKING:
    from posttrain.dataplane.ledger_call import Door


class LedgerActor:
    """A Ray actor round a ledger: Ray starts it, knows when it dies, and says where it is asked."""

    def __init__(self) -> None:
        register_stack_dump()
        self._door = open_door(Ledger(), ray.util.get_node_ip_address())
        self._addresses: dict[str, dict[str, Any]] = {}

    def door(self) -> Door:
        """Say where the ledger is asked."""
        return self._door

    def publish_addresses(self, addresses: dict[str, dict[str, Any]]) -> None:
        """Keep where TransferQueue's processes listen, the units in the order that all use."""
        self._addresses = addresses

    def addresses(self) -> dict[str, dict[str, Any]]:
        """Say where TransferQueue's processes listen, by name."""
        return self._addresses
