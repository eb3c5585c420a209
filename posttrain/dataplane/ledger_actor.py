"""The process that holds a plane's ledger. It needs none of TransferQueue's libraries."""

from __future__ import annotations

from typing import Any

from posttrain.dataplane.ledger import Ledger
from posttrain.stacks import register_stack_dump


class LedgerActor:
    """A Ray actor round a ledger. It answers one call at a time, so that each is atomic."""

    def __init__(self) -> None:
        register_stack_dump()
        self._ledger = Ledger()
        self._addresses: dict[str, dict[str, Any]] = {}

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the ledger."""
        return getattr(self._ledger, method)(*arguments)

    def publish_addresses(self, addresses: dict[str, dict[str, Any]]) -> None:
        """Keep where TransferQueue's processes listen, the units in the order that all use."""
        self._addresses = addresses

    def addresses(self) -> dict[str, dict[str, Any]]:
        """Say where TransferQueue's processes listen, by name."""
        return self._addresses
