"""One side of a refit, in a process that a test kills: python refit_process.py DESCRIPTOR."""

from __future__ import annotations

import sys
import threading
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

import torch

from posttrain.refit.dispatch import Dispatch
from posttrain.refit.stream import Arrival, Packer

if TYPE_CHECKING:
    from posttrain.refit.offer import Offer, Request

# The tensor in whose middle a side stops.
LAST = "c"
STATE = {name: torch.arange(5000.0) + ord(name) for name in "abcdef"}


class StoppingPacker(Packer):
    """Fills some buffers, says so, and waits to be killed."""

    parent: Connection
    left = 5

    def fill(self, buffer: torch.Tensor) -> None:
        """Fill a buffer, or stop."""
        if not self.left:
            stop(self.parent)
        self.left -= 1
        super().fill(buffer)


def send(parent: Connection, request: Request) -> None:
    """Offer, and stop in the middle of sending."""
    from posttrain.refit import dispatch

    StoppingPacker.parent = parent
    dispatch.Packer = StoppingPacker
    sending = Dispatch()
    parent.send(sending.offer(STATE, request))
    sending.send()


def receive(parent: Connection, offer: Offer, receiver: int) -> None:
    """Stop in the middle of receiving."""
    with offer.link.receiving(offer, receiver) as buffers:
        for info, _ in Arrival(offer.manifest, buffers).tensors():
            if info.name == LAST:
                stop(parent)


def stop(parent: Connection) -> None:
    """Tell the test, and never return."""
    parent.send("stopped")
    threading.Event().wait()


if __name__ == "__main__":
    with Connection(int(sys.argv[1])) as test:
        side, *arguments = test.recv()
        {"send": send, "receive": receive}[side](test, *arguments)
