"""The policy's half of a refit: offer the weights, then send them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posttrain.errors import RefitError
from posttrain.refit.offer import Offer, buffers, describe
from posttrain.refit.stream import Packer
from posttrain.refit.transport import make_sender

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from posttrain.refit.offer import Request
    from posttrain.refit.transport import Sender


class Dispatch:
    """One refit after another. Weights are held from their offer until they are sent."""

    def __init__(self) -> None:
        self._state: Mapping[str, torch.Tensor] = {}
        self._offer: Offer | None = None
        self._sender: Sender | None = None

    def offer(self, state: Mapping[str, torch.Tensor], request: Request) -> Offer:
        """Make weights ready to be sent, in place of any that were offered before.

        Args:
            state: see :func:`posttrain.refit.offer.describe`.
            request: what the refit is to be.

        Raises:
            RefitError: there are no weights, or the machine lacks what the transport needs.
        """
        self.withdraw()
        manifest = describe(state)
        self._sender = make_sender(request, buffers(manifest, request.buffer_bytes))
        self._state = state
        self._offer = Offer(request, manifest, self._sender.link)
        return self._offer

    def send(self) -> None:
        """Send what was offered; returns when every receiver has all of it.

        Raises:
            RefitError: nothing is offered, or a receiver did not take all of it.
        """
        if self._offer is None or self._sender is None:
            raise RefitError("weights sent", "none are offered", "offer them first")
        try:
            tensors = (self._state[name] for name in self._offer.names)
            self._sender.send(Packer(tensors))
        finally:
            self.withdraw()

    def withdraw(self) -> None:
        """Let go of what is offered, if anything is."""
        if self._sender is not None:
            self._sender.close()
        self._state, self._offer, self._sender = {}, None, None
