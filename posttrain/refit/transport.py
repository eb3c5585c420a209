"""The one interface of all transports, and their names in a recipe.

The policy's rank 0 opens a :class:`Sender`, whose :class:`Link` travels to the engines inside an
offer. Every rank of every engine calls :meth:`Link.receiving`. What passes between the two is a
stream of bytes (``posttrain.refit.stream``) in bounded buffers; whether the bytes lie in shared
memory, on a socket or on an accelerator is the transport's own business.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    import torch

    from posttrain.refit.offer import Offer, Request
    from posttrain.refit.stream import Packer

# Recipe name to the sender's class. A transport is imported only where it is used.
TRANSPORTS = {
    "shared_memory": "posttrain.refit.shared_memory:SharedMemorySender",
    "broadcast": "posttrain.refit.broadcast:BroadcastSender",
    "http": "posttrain.refit.http:HttpSender",
}


class Sender(Protocol):
    """The policy's side of one refit."""

    @property
    def link(self) -> Link:
        """What a receiver needs to reach this sender; plain Python."""

    def send(self, packer: Packer) -> None:
        """Hand every buffer, filled by ``packer``, to every receiver.

        The first buffer is filled when all receivers are there. Returns when every receiver has
        taken every buffer.

        Raises:
            RefitError: a receiver is missing, ended or was silent for too long; it is named where
                the transport can tell.
        """

    def close(self) -> None:
        """Give back what the sender holds; may be called again."""


class Link(Protocol):
    """An engine rank's side of one refit. An instance passes between processes by pickle."""

    def receiving(
        self, offer: Offer, receiver: int
    ) -> AbstractContextManager[Iterator[torch.Tensor]]:
        """Meet the sender and all other receivers, then iterate over the buffers.

        Entering waits until all are there: when it raises, nothing was sent to anybody. A buffer
        is a uint8 tensor of one dimension, which may be overwritten when the next is asked for.

        Args:
            offer: the offer that holds this link.
            receiver: the place of this rank in ``offer.request.receivers``.

        Raises:
            RefitError: the sender cannot be reached, ended, or was silent for too long.
        """


def make_sender(request: Request, sizes: Sequence[int]) -> Sender:
    """Open the policy's side of a refit.

    Args:
        request: what the refit is to be.
        sizes: of each buffer in bytes; all but the last one have the same.

    Raises:
        RefitError: the machine lacks what the transport needs.
    """
    module, _, name = TRANSPORTS[request.transport].partition(":")
    sender: Sender = getattr(import_module(module), name)(request, sizes)
    return sender
