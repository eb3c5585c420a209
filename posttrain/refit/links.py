"""What travels in an offer to say how its bytes are got; importable where there is no torch.

A driver hands offers on: what a transport needs is imported only by whoever receives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    import torch

    from posttrain.refit.offer import Offer

    Receiving = AbstractContextManager[Iterator[torch.Tensor]]


@dataclass(frozen=True)
class SharedMemoryLink:
    """An engine rank's side: see ``posttrain.refit.transport.Link``.

    Attributes:
        address: of the sender's socket, in the abstract namespace.
    """

    address: str

    def receiving(self, offer: Offer, receiver: int) -> Receiving:
        """Map the sender's memory, then read buffer after buffer."""
        from posttrain.refit.shared_memory import receive

        return receive(self, offer, receiver)


@dataclass(frozen=True)
class BroadcastLink:
    """An engine rank's side: see ``posttrain.refit.transport.Link``.

    Attributes:
        host: of the store.
        port: of the store.
    """

    host: str
    port: int

    def receiving(self, offer: Offer, receiver: int) -> Receiving:
        """Join the group, then receive buffer after buffer."""
        from posttrain.refit.broadcast import receive

        return receive(self, offer, receiver)


@dataclass(frozen=True)
class HttpLink:
    """An engine rank's side: see ``posttrain.refit.transport.Link``.

    Attributes:
        host: of the sender.
        port: of the sender.
        token: what every request must bear.
    """

    host: str
    port: int
    token: str = field(repr=False)

    def receiving(self, offer: Offer, receiver: int) -> Receiving:
        """Ask for the first buffer, then for one after the other."""
        from posttrain.refit.http import receive

        return receive(self, offer, receiver)
