"""Non-colocated transport: a gloo broadcast from rank 0 of the policy to every rank of an engine.

The processes meet through a ``TCPStore`` and form a group of their own for one refit, beside the
groups that they are in already. Gloo's own timeout bounds every wait, and the end of a process
breaks its connections, so that nobody waits for the dead. With NCCL only the group's class and the
buffer's device would be others.
"""

from __future__ import annotations

import socket
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from posttrain.refit.faults import ended, silent, unreachable
from posttrain.refit.links import BroadcastLink

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posttrain.refit.offer import Offer, Request
    from posttrain.refit.stream import Packer

ROOT = 0


class BroadcastSender:
    """Rank 0's side: see ``posttrain.refit.transport.Sender``.

    Args:
        request: what the refit is to be.
        sizes: of each buffer, in bytes.
    """

    def __init__(self, request: Request, sizes: Sequence[int]) -> None:
        self._request = request
        self._sizes = sizes
        self._store: dist.Store | None = dist.TCPStore(
            request.host,
            0,
            is_master=True,
            wait_for_workers=False,
            timeout=timedelta(seconds=request.patience_s),
        )
        self.link = BroadcastLink(request.host, self._store.port)

    def send(self, packer: Packer) -> None:
        """Fill the one buffer and broadcast it, again and again."""
        if self._store is None:
            raise ended("a refit by broadcast", "its sender was closed")
        names, patience_s = self._request.receivers, self._request.patience_s
        _join(self._store, ROOT, names, patience_s)
        host, everybody = self._request.host, ", ".join(names)
        buffer = torch.empty(max(self._sizes, default=0), dtype=torch.uint8)
        with closing(_Group(self._store, host, ROOT, len(names) + 1, patience_s)) as group:
            for number, size in enumerate(self._sizes):
                packer.fill(buffer[:size])
                group.broadcast(buffer[:size], f"{everybody} taking buffer {number}")
            group.meet(f"{everybody} taking all buffers")

    def close(self) -> None:
        """Close the store's port."""
        self._store = None


@contextmanager
def receive(link: BroadcastLink, offer: Offer, receiver: int) -> Iterator[Iterator[torch.Tensor]]:
    """An engine rank's side: see ``posttrain.refit.transport.Link``."""
    names, patience_s = offer.request.receivers, offer.request.patience_s
    try:
        store = dist.TCPStore(
            link.host, link.port, is_master=False, timeout=timedelta(seconds=patience_s)
        )
    except dist.DistError as error:
        raise unreachable(f"the store at {link.host}:{link.port}", _first_line(error)) from error
    own = _address_towards(link.host, link.port)
    _join(store, 1 + receiver, names, patience_s)
    with closing(_Group(store, own, 1 + receiver, len(names) + 1, patience_s)) as group:
        yield _buffers(group, offer)


def _buffers(group: _Group, offer: Offer) -> Iterator[torch.Tensor]:
    sizes = offer.buffers
    buffer = torch.empty(max(sizes, default=0), dtype=torch.uint8)
    for number, size in enumerate(sizes):
        group.broadcast(buffer[:size], f"buffer {number} of the policy's weights")
        yield buffer[:size]
    group.meet("all receivers taking all buffers")


class _Group:
    """Rank 0 and all receivers, by gloo.

    Args:
        store: where they meet.
        host: own address.
        rank: own number.
        size: how many there are.
        patience_s: limit of every wait, in seconds.

    Raises:
        RefitError: not all came, or somebody cannot be reached.
    """

    def __init__(
        self, store: dist.Store, host: str, rank: int, size: int, patience_s: float
    ) -> None:
        # The process's default group belongs to FSDP or to vLLM, and torch keeps one only; a group
        # of this class needs none. These names are the only ones by which an address can be
        # chosen: without, gloo takes whatever the host's name resolves to.
        options = dist.ProcessGroupGloo._Options()  # noqa: SLF001
        options._devices = [dist.ProcessGroupGloo.create_device(hostname=host)]  # noqa: SLF001
        options._timeout = timedelta(seconds=patience_s)  # noqa: SLF001
        with _explained("a process group of the policy and all engines"):
            prefixed = dist.PrefixStore("refit", store)
            self._gloo = dist.ProcessGroupGloo(prefixed, rank, size, options)

    def broadcast(self, buffer: torch.Tensor, asked: str) -> None:
        """Send, or receive, the root's bytes."""
        options = dist.BroadcastOptions()
        options.rootRank = ROOT
        with _explained(asked):
            self._gloo.broadcast([buffer], options).wait()

    def meet(self, asked: str) -> None:
        """Wait for all: the root may go only when everybody has read what is on its way."""
        with _explained(asked):
            self._gloo.barrier().wait()

    def close(self) -> None:
        """End all connections at once, so that the others notice.

        They live as long as gloo's group, which nothing but this may hold: an error that is kept
        keeps its frames, and what they name.
        """
        del self._gloo


def _join(store: dist.Store, rank: int, names: Sequence[str], patience_s: float) -> None:
    """Wait until all are there; only then does anybody build a group, whose errors name nobody."""
    members = ("the policy", *names)
    keys = [f"joined/{number}" for number in range(len(members))]
    try:
        store.set(keys[rank], "")
        store.wait(keys, timedelta(seconds=patience_s))
    except dist.DistError as error:
        late = [name for name, key in zip(members, keys, strict=True) if not _joined(store, key)]
        raise silent(f"{', '.join(late)} joining the refit", patience_s) from error


def _joined(store: dist.Store, key: str) -> bool:
    try:
        return bool(store.check([key]))
    except dist.DistError:
        # The store went, and the policy with it.
        return False


@contextmanager
def _explained(asked: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise ended(asked, _first_line(error)) from error


def _address_towards(host: str, port: int) -> str:
    """This machine's address on the route to ``host``; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        route.connect((host, port))
        return str(route.getsockname()[0])


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
